"""
A fit in row blocks chooses the same model as a fit in memory
=============================================================

The same rows, once as an array in memory and once in a file that is read in blocks of a few
megabytes, on the same 100 centres. The leave-one-out errors lie on one curve, and the decisions of
the two models differ by less than 1 in 10,000.

:Data: overlap (``make_overlap``)
:Method: ``KernelFisherClassifier``, rows in blocks
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from fisherkit import KernelFisherClassifier
from fisherkit.datasets import make_overlap

rows, y = make_overlap(20_000, random_state=0)
options = {"gamma": 0.5, "n_components": 100, "basis": "random", "random_state": 0}
memory = KernelFisherClassifier(**options).fit(rows, y)
with tempfile.TemporaryDirectory() as folder:
    np.save(Path(folder) / "rows.npy", rows)
    mapped = np.load(Path(folder) / "rows.npy", mmap_mode="r")
    blocks = KernelFisherClassifier(max_memory="5MB", **options).fit(mapped, y)
assert blocks.selection_.method == "streamed"
apart = np.max(np.abs(memory.decision_function(rows) - blocks.decision_function(rows)))
print(f"mu {memory.regularization_:.6f} and {blocks.regularization_:.6f}")
print(f"largest difference of 20,000 decisions {apart:.0e}")
assert apart < 1e-4

figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
for model, style, label in (
    (memory, {"color": "tab:blue", "lw": 3}, "all rows in memory"),
    (blocks, {"color": "black", "marker": "o", "mfc": "none", "ls": ""}, "rows in blocks"),
):
    path = np.sort(model.selection_.path, order="mu")
    ax.plot(path["mu"], path["value"], label=label, **style)
ax.set_xscale("log")
ax.set_xlabel("regularisation $\\mu$")
ax.set_ylabel("leave-one-out mean squared error (press)")
ax.legend(frameon=False)
plt.show()
