"""
Widths of their own find the features that matter
=================================================

A noisy wave is sampled at 21 places, and 19 features of pure noise are added. With one width for
each feature, learned by the evidence, most of the ten most relevant features are places of the
wave (left). With shuffled labels nothing is to be found, and the evidence prefers one width for
all (right: the largest value is at spread 0).

:Data: waveform (``make_waveform``) with 19 noise features
:Method: ``BayesianFisherClassifier``, one width per feature
"""

import matplotlib.pyplot as plt
import numpy as np

from fisherkit import BayesianFisherClassifier
from fisherkit.datasets import make_waveform
from fisherkit.plots import RelevanceDisplay

rng = np.random.RandomState(0)
X, y = make_waveform(300, random_state=0)
X = np.hstack([X, rng.normal(size=(300, 19))])
names = [f"wave at {t}" for t in range(1, 22)] + [f"noise {j}" for j in range(1, 20)]
model = BayesianFisherClassifier(ard=True, random_state=0).fit(X, y == 1)
shuffled = BayesianFisherClassifier(ard=True, random_state=0).fit(X, rng.permutation(y == 1))

top = np.argsort(-model.relevance_)[:10]
print(f"of the ten most relevant features, {np.sum(top < 21)} are places of the wave")
assert np.sum(top < 21) >= 8
assert max(shuffled.hyperprior_, key=shuffled.hyperprior_.get) == 0
assert max(model.hyperprior_, key=model.hyperprior_.get) > 0

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5.4), layout="constrained")
RelevanceDisplay(model.relevance_, names).plot(max_features=20, ax=left)
for fitted, label, style in ((model, "true labels", "o-"), (shuffled, "shuffled labels", "s--")):
    spreads, values = (np.array(part) for part in zip(*fitted.hyperprior_.items(), strict=True))
    right.plot(spreads, values - values[0], style, label=label)
right.axhline(0, color="0.6", lw=0.8)
right.set_xlabel("spread of the log weights a priori (0: one width for all)")
right.set_ylabel("log posterior, over one width for all")
right.legend(frameon=False)
plt.show()
