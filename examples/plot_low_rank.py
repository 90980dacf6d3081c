"""
The wider the kernel, the fewer of its rows are read, and nothing is lost
=========================================================================

A kernel matrix of 1,200 rows. Where the kernel is wide the classifier reads some hundred of its
rows and never forms the matrix; where it is narrow it takes all. Either way the leave-one-out
decisions are those of the whole matrix, at the same regularisation, to five digits and more.

:Data: spiral with noise (``make_spiral``)
:Method: ``KernelFisherClassifier``, its low-rank path
"""

import matplotlib.pyplot as plt
import numpy as np

from fisherkit import KernelFisherClassifier
from fisherkit.datasets import make_spiral

X, y = make_spiral(1200, noise=0.2, random_state=0)
gammas = 2.0 ** np.arange(-6, 4)
ranks, apart = [], []
for gamma in gammas:
    auto = KernelFisherClassifier(gamma=gamma, random_state=0).fit(X, y)
    numbers = {"gamma": gamma, "regularization": auto.regularization_}
    full = KernelFisherClassifier(**numbers, basis="full").fit(X, y)
    ranks.append(auto.selection_.rank)
    difference = np.max(np.abs(auto.loo_decision_ - full.loo_decision_))
    apart.append(difference / np.std(full.loo_decision_))
print("rank", ranks, f"largest relative difference {max(apart):.0e}")
assert max(apart) < 1e-5
assert ranks == sorted(ranks) and ranks[0] < 0.1 * len(X)

figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
ax.axhline(len(X), color="0.5", ls=":", label="all rows of the kernel matrix")
ax.plot(1 / np.sqrt(2 * gammas), ranks, "o-", label="directions of the decomposition")
ax.set_xscale("log", base=2)
ax.set_xlabel("kernel width $1/\\sqrt{2\\gamma}$ (the spiral is 13 across)")
ax.set_ylabel("rank")
ax.set_ylim(bottom=0)
ax.legend(frameon=False)
plt.show()
