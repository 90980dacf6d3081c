"""
Probabilities fitted to left-out scores are honest, those fitted to seen rows boast
===================================================================================

Ten times, 100 rows train a discriminant. Its probabilities are ``sigmoid(a f)`` with one slope a,
fitted to leave-one-out scores. The same slope fitted to the scores of the training rows, which the
model has seen, is far too steep: where it says 90 %, fewer rows are right.

:Data: waveform, one wave against the others (``make_waveform``)
:Method: ``KernelFisherClassifier.predict_proba``
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import calibration_curve
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from fisherkit import KernelFisherClassifier
from fisherkit.datasets import make_waveform

NAMES = ("slope from leave-one-out scores", "slope from training scores")
truth, stated = [], []
for seed in range(10):
    X, y = make_waveform(2100, random_state=seed)
    y = (y == 1).astype(int)
    model = KernelFisherClassifier().fit(X[:100], y[:100])
    seen = LogisticRegression(C=np.inf, fit_intercept=False)
    seen.fit(model.decision_function(X[:100])[:, None], y[:100])
    scores = model.decision_function(X[100:])[:, None]
    truth.append(y[100:])
    stated.append([model.predict_proba(X[100:])[:, 1], seen.predict_proba(scores)[:, 1]])
truth, stated = np.concatenate(truth), np.concatenate(stated, axis=1)

losses = [log_loss(truth, p) for p in stated]
print("log-loss on new rows: left-out {:.3f}, training {:.3f}".format(*losses))
assert losses[0] < 0.6 * losses[1]

figure, ax = plt.subplots(figsize=(6, 5), layout="constrained")
ax.plot([0, 1], [0, 1], ":", color="0.4", label="honest")
for p, style, name, loss in zip(stated, ("o-", "s--"), NAMES, losses, strict=True):
    share, mean = calibration_curve(truth, p, n_bins=10)
    ax.plot(mean, share, style, label=f"{name}: log-loss {loss:.3f}")
ax.set_xlabel("probability stated")
ax.set_ylabel("share of new rows of that class")
ax.legend(frameon=False)
plt.show()
