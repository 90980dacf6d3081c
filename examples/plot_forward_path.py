"""
The leave-one-out error that a selection minimises is too low; cross-validation is not
======================================================================================

Five times, half of the table trains and the other half tests. Forward selection adds the kernel
that lowers the leave-one-out error most, so that error says how well it was minimised. Folds that
each select their own terms stay near the test error.

:Data: breast cancer (scikit-learn)
:Method: ``ForwardFisherClassifier``
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LinearRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.preprocessing import StandardScaler

from fisherkit import ForwardFisherClassifier

X, y = load_breast_cancer(return_X_y=True)
TERMS = 25


def curves(train, test):
    """Conditional, cross-validated and test error (%) for 1, ..., TERMS terms."""
    scaler = StandardScaler().fit(X[train])
    rows, new = scaler.transform(X[train]), scaler.transform(X[test])
    model = ForwardFisherClassifier(gamma="scale", max_terms=TERMS, patience=TERMS)
    model.fit(rows, y[train])
    centres = rows[model.growth_["row"][1:]]
    K, K_new = (rbf_kernel(some, centres, model.gamma_) for some in (rows, new))
    errors = []
    for size in range(1, TERMS + 1):
        fit = LinearRegression().fit(K[:, :size], 2 * y[train] - 1)
        errors.append(np.mean((fit.predict(K_new[:, :size]) > 0) != y[test]))
    path = model.path_[~model.path_["stopped"]]
    return model.growth_["conditional_loo_error"][1:], path["cv_error"][1:], errors


splits = StratifiedShuffleSplit(5, test_size=0.5, random_state=0).split(X, y)
conditional, cross_validated, test = 100 * np.mean([curves(*split) for split in splits], axis=0)
print(f"conditional below test by {np.mean(test - conditional):.1f} points in the mean")
print(f"cross-validated off test by {np.mean(np.abs(test - cross_validated)):.1f} points")
assert np.all(conditional < test - 1)
assert np.mean(np.abs(test - cross_validated)) < 0.3 * np.mean(test - conditional)

figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
sizes = np.arange(1, TERMS + 1)
ax.plot(sizes, test, color="black", lw=2, label="test")
ax.plot(sizes, cross_validated, "o-", color="tab:blue", ms=4, label="cross-validated")
ax.plot(sizes, conditional, "s--", color="tab:orange", ms=4, label="leave-one-out, conditional")
ax.set_xlabel("kernels")
ax.set_ylabel("error (%)")
ax.set_ylim(bottom=0)
ax.legend(frameon=False)
plt.show()
