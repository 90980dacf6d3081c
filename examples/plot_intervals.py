"""
Intervals of a kernel regression hold what they promise, at every confidence
============================================================================

Half of the diabetes table trains, the other half tests. Whatever share is asked for, about that
share of the new patients lies inside. No refit and no rows set aside for calibration: the left-out
residuals of the training rows do it.

:Data: diabetes (scikit-learn)
:Method: ``KernelRidgeCV.predict_interval``
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import ShuffleSplit

from fisherkit import KernelRidgeCV

X, y = load_diabetes(return_X_y=True)
X /= X.std(axis=0)
levels = np.array([0.5, 0.6, 0.7, 0.8, 0.9, 0.95])

coverage = []
for train, test in ShuffleSplit(10, test_size=0.5, random_state=0).split(X):
    model = KernelRidgeCV().fit(X[train], y[train])
    inside = []
    for level in levels:
        lower, upper = model.predict_interval(X[test], level)
        inside.append(np.mean((lower <= y[test]) & (y[test] <= upper)))
    coverage.append(inside)
mean, spread = np.mean(coverage, axis=0), np.std(coverage, axis=0, ddof=1)
print("asked", levels, "\nfound", mean.round(3))
assert np.max(np.abs(mean - levels)) < 0.03

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
lower, upper = model.predict_interval(X[test], 0.9)
order = np.argsort(model.predict(X[test]))
shown = np.arange(len(order))
left.fill_between(shown, lower[order], upper[order], color="tab:blue", alpha=0.2, lw=0)
left.plot(shown, model.predict(X[test])[order], color="tab:blue", label="prediction, 90 % interval")
out = (y[test][order] < lower[order]) | (y[test][order] > upper[order])
left.plot(shown[~out], y[test][order][~out], "o", color="0.4", ms=3, label="inside")
left.plot(shown[out], y[test][order][out], "D", color="tab:red", ms=5, label="outside")
left.set_xlabel("new patients, by prediction")
left.set_ylabel("progression of the disease")
left.legend(frameon=False, loc="upper left")
right.plot([0.45, 1], [0.45, 1], ":", color="0.4", label="as asked")
right.errorbar(levels, mean, spread, fmt="o", color="tab:blue", label="found, sd of ten splits")
right.set_xlabel("confidence asked for")
right.set_ylabel("share of new patients inside")
right.legend(frameon=False)
plt.show()
