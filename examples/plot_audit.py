"""
The audit finds mislabelled digits
==================================

Of 500 digits, 25 have been given a wrong label. ``audit`` sorts rows by the probability of their
label under the model that has not seen them. The first 25 hold nearly all of the wrong ones, and
the labels that it suggests instead can be checked by eye.

:Data: digits, one label in twenty wrong (scikit-learn)
:Method: ``audit``
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from fisherkit import KernelFisherClassifier, audit

X, y = load_digits(return_X_y=True)
X, y = X[:500] / 16, y[:500]
rng = np.random.default_rng(0)
wrong = rng.choice(500, 25, replace=False)
given = y.copy()
given[wrong] = (y[wrong] + rng.integers(1, 10, 25)) % 10

table = audit(KernelFisherClassifier(), X, given).head(25)
found = np.isin(table.index, wrong)
print(f"{found.sum()} of 25 wrong labels are among the 25 most suspicious rows")
assert found.sum() >= 22

figure, axes = plt.subplots(5, 5, figsize=(6.5, 8), layout="constrained")
for ax, row, hit in zip(axes.flat, table.itertuples(), found, strict=True):
    ax.imshow(X[row.Index].reshape(8, 8), cmap="gray_r")
    ax.set_title(f"given {row.label}: a {row.suggested}?", fontsize=10)
    ax.set_xlabel("wrong label" if hit else "the label was right", fontsize=9)
    ax.set(xticks=[], yticks=[])
    for side in ax.spines.values():
        side.set(color="tab:blue" if hit else "tab:orange", linewidth=2 if hit else 4)
figure.suptitle(f"the 25 most suspicious rows hold {found.sum()} of the 25 wrong labels")
plt.show()
