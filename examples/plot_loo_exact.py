"""
Leave-one-out at every regularisation costs one decomposition, not one refit per row
====================================================================================

Two species of iris, 100 rows. The curve is the leave-one-out error read off one decomposition of
the kernel matrix. Every dot is 100 fits, each without one row. They agree to ten digits.

:Data: iris, versicolor and virginica (scikit-learn)
:Method: ``KernelFisherClassifier``, leave-one-out against refits
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler

from fisherkit import KernelFisherClassifier

X, y = load_iris(return_X_y=True)
X, y = StandardScaler().fit_transform(X[y > 0]), y[y > 0] - 1
codes = 2 * y - 1
GAMMA = 0.5


def by_refits(mu):
    """Mean squared error of every row under the model fitted without it."""
    model = KernelFisherClassifier(gamma=GAMMA, regularization=mu)
    residuals = []
    for i in range(len(X)):
        kept = np.arange(len(X)) != i
        score = model.fit(X[kept], y[kept]).decision_function(X[[i]])[0]
        residuals.append(codes[i] - score)
    return np.mean(np.square(residuals))


path = np.sort(KernelFisherClassifier(gamma=GAMMA).fit(X, y).selection_.path, order="mu")
some = path[1::4]
refitted = np.array([by_refits(mu) for mu in some["mu"]])
apart = np.max(np.abs(refitted / some["value"] - 1))
print(f"{len(some) * len(X)} refits; largest relative difference {apart:.0e}")
assert apart < 1e-10

figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
ax.plot(path["mu"], path["value"], color="tab:blue", lw=2, label="closed form: one decomposition")
ax.plot(some["mu"], refitted, "o", color="tab:orange", ms=8, mec="black", label="100 refits each")
ax.set_xscale("log")
ax.set_xlabel("regularisation $\\mu$")
ax.set_ylabel("leave-one-out mean squared error")
ax.legend(frameon=False)
plt.show()
