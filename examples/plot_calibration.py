"""
Few rows of classes that overlap: probabilities need left-out scores, seen ones boast
=====================================================================================

Ten times, 100 rows train a discriminant. Its probabilities are ``sigmoid(a f)`` with one slope a,
fitted to leave-one-out scores. The same slope fitted to the scores of the training rows, which the
model has seen, is far too steep on waveform: where it says 85 %, fewer rows are right. It is no
law: on ringnorm, where classes hardly overlap, the left-out slope is the more timid one, and the
steep one does no harm.

:Data: waveform and ringnorm (``make_waveform``, ``make_ringnorm``)
:Method: ``KernelFisherClassifier.predict_proba``
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import calibration_curve
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from fisherkit import KernelFisherClassifier
from fisherkit.datasets import make_ringnorm, make_waveform

SLOPES = ("leave-one-out scores", "training scores")


def probabilities(make):
    """Labels of new rows, and the probabilities by either slope; ten draws."""
    truth, stated = [], []
    for seed in range(10):
        X, y = make(2100, random_state=seed)
        y = (y == 1).astype(int)
        model = KernelFisherClassifier().fit(X[:100], y[:100])
        seen = LogisticRegression(C=np.inf, fit_intercept=False)
        seen.fit(model.decision_function(X[:100])[:, None], y[:100])
        scores = model.decision_function(X[100:])[:, None]
        truth.append(y[100:])
        stated.append([model.predict_proba(X[100:])[:, 1], seen.predict_proba(scores)[:, 1]])
    return np.concatenate(truth), np.concatenate(stated, axis=1)


figure, axes = plt.subplots(1, 2, figsize=(11, 4.8), sharey=True, layout="constrained")
for ax, make in zip(axes, (make_waveform, make_ringnorm), strict=True):
    truth, stated = probabilities(make)
    losses = [log_loss(truth, p) for p in stated]
    assert make is make_ringnorm or losses[0] < 0.6 * losses[1]
    ax.plot([0, 1], [0, 1], ":", color="0.4", label="honest")
    for p, style, name, loss in zip(stated, ("o-", "s--"), SLOPES, losses, strict=True):
        share, mean = calibration_curve(truth, p, n_bins=10)
        ax.plot(mean, share, style, label=f"slope from {name}: log-loss {loss:.3f}")
    ax.set_title(make.__name__.removeprefix("make_"), fontsize=11)
    ax.set_xlabel("probability stated")
    ax.legend(frameon=False, loc="upper left", fontsize=9)
axes[0].set_ylabel("share of new rows of that class")
plt.show()
