"""
A committee predicts better than the member that leave-one-out ranks first
==========================================================================

Is a handwritten digit odd or even? Ten times, 300 digits train and the others test. Leave-one-out
spreads its weights over many members that 300 rows cannot tell apart (left, the last split). The
one ranked first (ring) is first by luck: the committee of all of them has the lower log-loss on
new digits in each of the ten splits (right).

:Data: digits, odd or even (scikit-learn)
:Method: ``FisherCommitteeClassifier``
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.preprocessing import StandardScaler

from fisherkit import FisherCommitteeClassifier
from fisherkit.plots import CommitteeDisplay

X, digits = load_digits(return_X_y=True)
y = digits % 2

losses = []
for train, test in StratifiedShuffleSplit(10, train_size=300, random_state=0).split(X, digits):
    scaler = StandardScaler().fit(X[train])
    rows, new = scaler.transform(X[train]), scaler.transform(X[test])
    first = FisherCommitteeClassifier(combine="best").fit(rows, y[train])
    committee = FisherCommitteeClassifier().fit(rows, y[train])
    losses.append([log_loss(y[test], model.predict_proba(new)) for model in (first, committee)])
losses = np.array(losses)
print("test log-loss, mean of ten splits: first {:.4f}, all {:.4f}".format(*losses.mean(axis=0)))
print(f"effective members in the last split: {committee.effective_members_:.0f}")
assert np.all(losses[:, 1] < losses[:, 0])

figure = plt.figure(figsize=(11, 4.4), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=[1.6, 1])
CommitteeDisplay(committee.members_).plot(ax=left.subplots(1, 2, sharey=True))
ax = right.subplots()
for pair in losses:
    ax.plot([0, 1], pair, color="0.75", lw=1, zorder=1)
for place, colour in ((0, "tab:orange"), (1, "tab:blue")):
    ax.plot(np.full(10, place), losses[:, place], "o", color=colour)
    ax.plot(place + 0.12, losses[:, place].mean(), "_", color="black", ms=16, mew=3)
ax.set_xticks([0, 1], ["ranked first by\nleave-one-out", "the committee"])
ax.set_xlim(-0.4, 1.4)
ax.set_ylabel("log-loss on new digits (bar: mean)")
plt.show()
