"""
One fit with nothing set finds its width, its regularisation and its own error
==============================================================================

Left: two moons with noise, and the probability that the classifier gives to each place. Right: what
``fit`` did to get there. It computed every point of these curves by exact leave-one-out and took
the lowest (dot). The leave-one-out error of this choice, from the 200 rows alone, is within 2
points of its error on 20,000 new rows.

:Data: two moons (``sklearn.datasets.make_moons``)
:Method: ``KernelFisherClassifier``, its defaults
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from fisherkit import KernelFisherClassifier
from fisherkit.plots import RegularizationPathDisplay

X, y = make_moons(200, noise=0.25, random_state=0)
X_new, y_new = make_moons(20_000, noise=0.25, random_state=1)
model = KernelFisherClassifier().fit(X, y)

left_out = 100 * np.mean((model.loo_decision_ > 0) != y)
on_new_rows = 100 * (1 - model.score(X_new, y_new))
print(f"error: leave-one-out {left_out:.1f} %, on 20,000 new rows {on_new_rows:.1f} %")
assert abs(left_out - on_new_rows) < 2

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
a, b = np.meshgrid(np.linspace(-1.8, 2.8, 150), np.linspace(-1.3, 1.8, 150))
p = model.predict_proba(np.column_stack([a.ravel(), b.ravel()]))[:, 1].reshape(a.shape)
shades = left.contourf(a, b, p, levels=np.linspace(0, 1, 11), cmap="RdBu_r", alpha=0.75)
left.contour(a, b, p, levels=[0.5], colors="black", linewidths=1)
for label, colour, marker in ((0, "#053061", "o"), (1, "#67001f", "^")):
    left.scatter(*X[y == label].T, c=colour, marker=marker, s=14, edgecolor="white", lw=0.4)
left.set(
    xticks=[], yticks=[], title=f"left-out error {left_out:.1f} %, on new rows {on_new_rows:.1f} %"
)
figure.colorbar(shades, ax=left, label="probability")
RegularizationPathDisplay.from_estimator(model, ax=right)
right.set_title(f"{len(model.selection_.path)} settings compared by one fit")
plt.show()
