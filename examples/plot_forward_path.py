"""Claim: leave-one-out, conditional on the selection, is far too low; cross-validation is not.

Ten times, half of scikit-learn's breast-cancer table trains and the other half tests. Forward
selection minimises the leave-one-out error of the training half, so that error says how well it
was minimised. Cross-validation in which every fold selects its own terms stays near the test error.

    python examples/plot_forward_path.py [output.png]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LinearRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.preprocessing import StandardScaler

from fisherkit import ForwardFisherClassifier
from fisherkit.plots import SparsityPathDisplay

OUTPUT = Path(__file__).parents[1] / "docs" / "images" / "forward_path.png"
GAMMA = "scale"  # a rule, so that all splits have the same width
TERMS = 40  # drawn
X, Y = load_breast_cancer(return_X_y=True)


def halves():
    """Ten stratified splits: training rows and labels, test rows and labels, scaled."""
    for train, test in StratifiedShuffleSplit(10, test_size=0.5, random_state=0).split(X, Y):
        scaler = StandardScaler().fit(X[train])
        yield scaler.transform(X[train]), Y[train], scaler.transform(X[test]), Y[test]


def test_errors(model, X_train, y_train, X_test, y_test):
    """Test error of every prefix: least squares on the first terms that entered."""
    centres = X_train[model.growth_["row"][1:]]
    K_train, K_test = (rbf_kernel(rows, centres, model.gamma_) for rows in (X_train, X_test))
    errors = [np.mean(y_test != (np.mean(y_train) > 0.5))]
    for size in range(1, len(centres) + 1):
        fitted = LinearRegression().fit(K_train[:, :size], 2 * y_train - 1)
        errors.append(np.mean((fitted.predict(K_test[:, :size]) > 0) != y_test))
    return errors


def whole_curves():
    """Path and growth of runs that do not stop before TERMS terms, and their test errors, means."""
    paths, growths, tests = [], [], []
    for half in halves():
        model = ForwardFisherClassifier(gamma=GAMMA, max_terms=TERMS, patience=TERMS)
        model.fit(*half[:2])
        paths.append(model.path_[~model.path_["stopped"]])
        growths.append(model.growth_)
        tests.append(test_errors(model, *half))
    return mean_of(paths), mean_of(growths), np.mean(tests, axis=0)


def mean_of(tables):
    """Mean of structured arrays, field by field."""
    mean = np.empty(len(tables[0]), dtype=[(name, float) for name in tables[0].dtype.names])
    for name in mean.dtype.names:
        mean[name] = np.mean([table[name] for table in tables], axis=0)
    return mean


def chosen_models(criterion):
    """Size and errors (%), conditional, cross-validated and test, of the models chosen; (4, 10)."""
    found = []
    for X_train, y_train, X_test, y_test in halves():
        model = ForwardFisherClassifier(criterion=criterion, gamma=GAMMA).fit(X_train, y_train)
        errors = (
            model.growth_["conditional_loo_error"][model.n_terms_],
            model.cv_error_,
            1 - model.score(X_test, y_test),
        )
        found.append((model.n_terms_, *(100 * error for error in errors)))
    return np.transpose(found)


def main(output):
    models = {name: chosen_models(name) for name in ("loo_error", "press", "err")}
    for criterion, found in models.items():
        n_terms, conditional, cv_error, test_error = np.mean(found, axis=1)
        print(
            f"{criterion}: {n_terms:.0f} terms, leave-one-out error conditional on the selection "
            f"{conditional:.1f} %, cross-validated {cv_error:.1f} %, test {test_error:.1f} % "
            f"(sd {np.std(found[3], ddof=1):.1f})"
        )
    path, growth, test = whole_curves()
    low = 100 * (test - growth["conditional_loo_error"])[1:]
    gap = 100 * (test - path["cv_error"])[1:]
    print(f"conditional curve below the test curve by {low.min():.1f} to {low.max():.1f} points")
    print(
        f"cross-validated curve off the test curve by at most {np.abs(gap[:25]).max():.1f} points "
        f"up to 25 terms, {np.abs(gap[25:]).max():.1f} beyond"
    )
    chosen, _, chosen_error, _ = np.mean(models["loo_error"], axis=1)
    ax = SparsityPathDisplay(path, round(chosen), chosen_error / 100, growth).plot().ax_
    ax.plot(100 * test, color="black", lw=1.4, label="held-out test")
    ax.set_xlim(0, TERMS)
    ax.set_ylim(0, 12)
    ax.set_title("Breast cancer, mean of ten half-and-half splits", fontsize=11)
    ax.legend(frameon=False)
    output.parent.mkdir(parents=True, exist_ok=True)
    plt.savefig(output, dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT)
