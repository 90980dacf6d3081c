"""
Label sets keep their promise in the rare class only if they are asked to
=========================================================================

Is a digit an eight? One in ten is. Sets of labels that hold the true one for 90 % of new rows do so
in the mean; of the eights, the rare class, fewer than half have theirs in the set. With
``class_conditional=True`` the promise holds within each class.

:Data: digits, eight or not (scikit-learn)
:Method: ``KernelFisherClassifier.predict_set``
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedShuffleSplit

from fisherkit import KernelFisherClassifier

X, digits = load_digits(return_X_y=True)
X, y = X / 16, (digits == 8).astype(int)
CONFIDENCE = 0.9

coverage = np.zeros((5, 2, 3))  # split, kind of set, (not eight, eight, all rows)
for split, (train, test) in enumerate(
    StratifiedShuffleSplit(5, train_size=200, random_state=0).split(X, y)
):
    model = KernelFisherClassifier(gamma="scale", regularization=1.0).fit(X[train], y[train])
    for kind, within in enumerate((False, True)):
        sets = model.predict_set(X[test], CONFIDENCE, class_conditional=within)
        held = sets[np.arange(len(test)), y[test]]
        coverage[split, kind] = held[y[test] == 0].mean(), held[y[test] == 1].mean(), held.mean()
mean = coverage.mean(axis=0)
print("share of sets that hold the label: not eight, eight, all\n", mean.round(3))
assert np.all(np.abs(mean[:, 2] - CONFIDENCE) < 0.03)
assert mean[0, 1] < 0.5 and np.all(np.abs(mean[1] - CONFIDENCE) < 0.04)

figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
places = np.arange(3)
for kind, (name, colour, hatch) in enumerate(
    (("sets of the default", "tab:orange", "//"), ("class_conditional=True", "tab:blue", ""))
):
    where = places + 0.36 * (kind - 0.5)
    ax.bar(where, mean[kind], 0.34, color=colour, hatch=hatch, alpha=0.7, label=name)
ax.axhline(CONFIDENCE, color="black", lw=1.5, ls="--", label=f"asked: {CONFIDENCE:g}")
shares = ["not an eight\n(90 % of rows)", "an eight\n(10 %)", "all rows"]
ax.set_xticks(places, shares)
ax.set_ylabel("share of new rows whose set holds their label")
ax.set_ylim(0, 1.3)
ax.legend(frameon=False, loc="upper center", ncols=3)
plt.show()
