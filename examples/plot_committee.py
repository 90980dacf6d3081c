"""Claim: a committee predicts better than the member that leave-one-out ranks first.

Is a handwritten digit odd or even? Ten times, 300 of scikit-learn's digits train and the others
test. Leave-one-out cannot tell the good members apart: the one that it ranks first is first by
luck, and does no better on new digits than many others. The committee shares the weight among them,
and its log-loss lies below that of nearly all of them.

    python examples/plot_committee.py [output.png]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.preprocessing import StandardScaler

from fisherkit import FisherCommitteeClassifier, KernelFisherClassifier
from fisherkit.plots import CommitteeDisplay

OUTPUT = Path(__file__).parents[1] / "docs" / "images" / "committee.png"
X, DIGITS = load_digits(return_X_y=True)
Y = DIGITS % 2


def splits():
    """Ten stratified splits: training rows and labels, test rows and labels, scaled."""
    splitter = StratifiedShuffleSplit(10, train_size=300, random_state=0)
    for train, test in splitter.split(X, DIGITS):
        scaler = StandardScaler().fit(X[train])
        yield scaler.transform(X[train]), Y[train], scaler.transform(X[test]), Y[test]


def member_losses(members, X_train, y_train, X_test, y_test):
    """Test log-loss of every member alone, with its own slope and offset."""
    mean = np.mean(2 * y_train - 1)
    losses = []
    for member in members:
        model = KernelFisherClassifier(
            str(member["kernel"]),
            gamma=float(member["gamma"]),
            regularization=float(member["mu"]),
        ).fit(X_train, y_train)
        logits = member["slope"] * (model.decision_function(X_test) - mean) + member["offset"]
        losses.append(log_loss(y_test, expit(logits)))
    return np.array(losses)


def main(output):
    results, drawn = [], []
    for split in splits():
        X_train, y_train, X_test, y_test = split
        committee = FisherCommitteeClassifier().fit(X_train, y_train)
        pick = KernelFisherClassifier().fit(X_train, y_train)
        members = committee.members_
        losses = member_losses(members, *split)
        whole = log_loss(y_test, committee.predict_proba(X_test))
        results.append(
            (
                whole,
                losses[np.argmin(members["loo_log_loss"])],
                log_loss(y_test, pick.predict_proba(X_test)),
                losses.min(),
                100 * np.average(losses > whole, weights=members["weight"]),
                committee.effective_members_,
                100 * (1 - committee.score(X_test, y_test)),
                100 * (1 - pick.score(X_test, y_test)),
            )
        )
        drawn.append((members, losses, whole))
    names = (
        "test log-loss of the committee",
        "... of the member that leave-one-out ranks first",
        "... of the PRESS pick, calibrated (KernelFisherClassifier)",
        "... of the best member on the test rows (not knowable)",
        "weight of the members that the committee beats (%)",
        "effective members",
        "test error of the committee (%)",
        "... of the PRESS pick (%)",
    )
    won = np.sum([result[0] < result[1] for result in results])
    print(f"the committee beats the member ranked first in {won} of {len(results)} splits")
    for name, values in zip(names, np.transpose(results), strict=True):
        print(f"{name}: {values.mean():.4g} (sd {values.std(ddof=1):.2g})")

    # The split of median gain over the member ranked first is drawn.
    gains = [result[1] - result[0] for result in results]
    members, losses, whole = drawn[np.argsort(gains)[len(gains) // 2]]
    figure = plt.figure(figsize=(11.5, 4.2), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1.35, 1])
    CommitteeDisplay(members).plot(ax=left.subplots(1, 2, sharey=True))
    ax = right.subplots()
    order = np.argsort(members["weight"])
    points = ax.scatter(
        members["loo_log_loss"][order],
        losses[order],
        c=100 * members["weight"][order],
        s=16,
        cmap="magma_r",
        edgecolor="0.6",
        lw=0.3,
    )
    best = np.argmin(members["loo_log_loss"])
    ax.plot(
        members["loo_log_loss"][best],
        losses[best],
        "o",
        mfc="none",
        mec="tab:cyan",
        ms=9,
        mew=2,
        label="ranked first by leave-one-out",
    )
    ax.axhline(whole, color="tab:red", lw=1.5, label="the committee")
    ax.set_xlim(0.97 * members["loo_log_loss"].min(), 1.6 * members["loo_log_loss"].min())
    ax.set_ylim(0.95 * min(losses.min(), whole), 2 * whole)
    ax.set_xlabel("leave-one-out log-loss of a member")
    ax.set_ylabel("log-loss on new digits")
    ax.legend(frameon=False, loc="upper left")
    right.colorbar(points, ax=ax, label="weight (%)")
    output.parent.mkdir(parents=True, exist_ok=True)
    plt.savefig(output, dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT)
