"""
A learning curve needs no refits, and says whether more rows would help
=======================================================================

Training on some rows is leaving out the others, so one factorisation gives every size and fold of
the curve. The crosses are scikit-learn's, by 50 refits: the same numbers. From 96 rows on the curve
is flat, so more rows would not help here.

:Data: ringnorm (``make_ringnorm``)
:Method: ``learning_curve``
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn import model_selection

from fisherkit import KernelFisherClassifier
from fisherkit.datasets import make_ringnorm
from fisherkit.model_selection import learning_curve
from fisherkit.plots import LearningCurveDisplay

X, y = make_ringnorm(600, random_state=0)
model = KernelFisherClassifier(gamma=0.05, regularization=1.0)
options = {"cv": 5, "train_sizes": np.linspace(0.1, 1, 10), "shuffle": True, "random_state": 0}

ours = learning_curve(model, X, y, **options)
theirs = model_selection.learning_curve(model, X, y, **options)
for mine, other in zip(ours, theirs, strict=True):
    assert np.allclose(mine, other)
test = ours[2].mean(axis=1)  # at 48, 96, ..., 480 rows
print("accuracy on rows left out:", test.round(3))
assert np.ptp(test[1:]) < 0.01

ax = LearningCurveDisplay.from_predictions(*ours, name="accuracy").ax_
ax.set_ylim(0.9, 1.005)
ax.plot(theirs[0], theirs[2].mean(axis=1), "x", color="black", ms=9, label="scikit-learn")
ax.legend(frameon=False)
plt.show()
