"""Means over ten splits that the pages of the committee and of the sparse classifiers quote.

digits: odd or even, 300 of scikit-learn's digits train and the others test. halves: half of the
breast-cancer table of scikit-learn trains, the other half tests, all widths by the rule "scale".
flare: how many rows of IDA's flare_solar agree in all features, and what their labels say.
"""

import argparse
from collections.abc import Iterator

import numpy as np
from _common import Row, print_table, write_csv
from scipy.special import expit
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.preprocessing import StandardScaler

from fisherkit import (
    FisherCommitteeClassifier,
    ForwardFisherClassifier,
    KernelFisherClassifier,
    SparseFisherClassifier,
)
from fisherkit.datasets import load_ida

MODELS = {
    "full": KernelFisherClassifier(gamma="scale"),
    "q=1": SparseFisherClassifier(gamma="scale"),
    "q=0.5": SparseFisherClassifier(q=0.5, gamma="scale"),
    "loo_error": ForwardFisherClassifier(gamma="scale"),
    "press": ForwardFisherClassifier(criterion="press", gamma="scale"),
    "err": ForwardFisherClassifier(criterion="err", gamma="scale"),
}
Parts = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def scaled(X: np.ndarray, y: np.ndarray, strata: np.ndarray, train_size: float) -> Iterator[Parts]:
    """Ten stratified splits, features standardised on the training part."""
    for train, test in StratifiedShuffleSplit(10, train_size=train_size, random_state=0).split(
        X, strata
    ):
        scaler = StandardScaler().fit(X[train])
        yield scaler.transform(X[train]), y[train], scaler.transform(X[test]), y[test]


def member_losses(members: np.ndarray, X, y, X_test, y_test) -> np.ndarray:
    """Test log-loss of every member alone, with its own slope and offset."""
    losses = []
    for member in members:
        model = KernelFisherClassifier(
            str(member["kernel"]),
            gamma=float(member["gamma"]),
            regularization=float(member["mu"]),
        ).fit(X, y)
        score = model.decision_function(X_test) - np.mean(2 * y - 1)
        losses.append(log_loss(y_test, expit(member["slope"] * score + member["offset"])))
    return np.array(losses)


def digits() -> None:
    X, digit = load_digits(return_X_y=True)
    results = []
    for X_train, y_train, X_test, y_test in scaled(X, digit % 2, digit, 300):
        committee = FisherCommitteeClassifier().fit(X_train, y_train)
        pick = KernelFisherClassifier().fit(X_train, y_train)
        losses = member_losses(committee.members_, X_train, y_train, X_test, y_test)
        results.append(
            {
                "committee_log_loss": log_loss(y_test, committee.predict_proba(X_test)),
                "ranked_first_log_loss": losses[np.argmin(committee.members_["loo_log_loss"])],
                "pick_log_loss": log_loss(y_test, pick.predict_proba(X_test)),
                "hindsight_log_loss": losses.min(),
                "committee_error": 100 * np.mean(committee.predict(X_test) != y_test),
                "pick_error": 100 * np.mean(pick.predict(X_test) != y_test),
                "effective_members": committee.effective_members_,
            }
        )
    rows = [{"split": split, **result} for split, result in enumerate(results)]
    print_table(rows)
    write_csv("pages_digits", rows)


def halves() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    rows: list[Row] = []
    for method, model in MODELS.items():
        found = []
        for X_train, y_train, X_test, y_test in scaled(X, y, y, 0.5):
            model.fit(X_train, y_train)
            forward = isinstance(model, ForwardFisherClassifier)
            found.append(
                (
                    getattr(model, "n_terms_", len(X_train)),
                    100 * np.mean(model.predict(X_test) != y_test),
                    100 * getattr(model, "cv_error_", np.nan),
                    100 * model.growth_["conditional_loo_error"][model.n_terms_]
                    if forward
                    else np.nan,
                )
            )
        kernels, error, cv_error, conditional = np.mean(found, axis=0)
        rows.append(
            {
                "method": method,
                "rows": len(X_train),
                "kernels": kernels,
                "error": error,
                "error_sd": np.std([line[1] for line in found], ddof=1),
                "cv_error": cv_error,
                "conditional_loo_error": conditional,
            }
        )
        print_table(rows[-1:])
    write_csv("pages_halves", rows)


def flare() -> None:
    data = load_ida("flare_solar")
    _, group, size = np.unique(data.data, axis=0, return_inverse=True, return_counts=True)
    positive = np.bincount(group, weights=data.target == np.max(data.target)) / size
    undecided = (positive >= 0.4) & (positive <= 0.6)
    row: Row = {
        "rows": len(data.data),
        "different": len(size),
        "between_40_and_60": int(size[undecided].sum()),
    }
    print_table([row])
    write_csv("pages_flare", [row])


def main() -> None:
    parts = {"digits": digits, "halves": halves, "flare": flare}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(parts), help="digits, halves, flare")
    for part in parser.parse_args().parts:
        parts[part]()


if __name__ == "__main__":
    main()
