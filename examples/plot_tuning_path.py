"""
One fit compares every model, and its choice is as good as any on new rows
==========================================================================

Half of the breast-cancer table trains. A single call of ``fit`` evaluates the whole grid of kernel
widths and regularisations by exact leave-one-out (left). Each of these models is then fitted and
tried on the other half (right): what leave-one-out ranks low is low on new rows, and the mean
squared error of the pick is within 5 % of the best that hindsight could find.

:Data: breast cancer (scikit-learn)
:Method: ``KernelFisherClassifier``, its tuning path
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from fisherkit import KernelFisherClassifier
from fisherkit.plots import RegularizationPathDisplay

X, y = load_breast_cancer(return_X_y=True)
X, X_new, y, y_new = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
scaler = StandardScaler().fit(X)
X, X_new = scaler.transform(X), scaler.transform(X_new)

pick = KernelFisherClassifier().fit(X, y)


def error_on_new_rows(gamma, mu):
    """Mean squared error on the codes +-1 of the other half."""
    model = KernelFisherClassifier(gamma=gamma, regularization=mu).fit(X, y)
    return np.mean((2 * y_new - 1 - model.decision_function(X_new)) ** 2)


path = pick.selection_.path
on_new_rows = np.array([error_on_new_rows(point["gamma"], point["mu"]) for point in path])
chosen = error_on_new_rows(pick.gamma_, pick.regularization_)
print(f"{len(path)} settings compared by one fit")
print(f"mean squared error on new rows: pick {chosen:.4f}, best of all {on_new_rows.min():.4f}")
assert chosen < 1.05 * on_new_rows.min()

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
RegularizationPathDisplay.from_estimator(pick, ax=left)
right.plot(path["value"], on_new_rows, "o", color="tab:blue", ms=4, alpha=0.6, label="a model")
right.plot(pick.selection_.value, chosen, "o", color="tab:red", ms=8, label="the pick")
left.legend(loc="upper center", framealpha=1)
for axis, scale in ((right.xaxis, right.set_xscale), (right.yaxis, right.set_yscale)):
    scale("log")
    axis.set_ticks([0.15, 0.2, 0.3, 0.5, 1], ["0.15", "0.2", "0.3", "0.5", "1"])
right.minorticks_off()
right.set_xlabel("leave-one-out mean squared error (press)")
right.set_ylabel("mean squared error on new rows")
right.legend(frameon=False)
plt.show()
