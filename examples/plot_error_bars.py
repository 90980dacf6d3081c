"""
The Bayesian discriminant knows where it has no data
====================================================

Versicolor against the two other irises, by the length of a petal alone. Setosa lies far to the
left, and no iris has a petal between 1.9 and 3 cm. There, and beyond both ends, the error bars of
the discriminant open; among the rows they are narrow.

:Data: iris, petal length (scikit-learn)
:Method: ``BayesianFisherClassifier.latent``
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris

from fisherkit import BayesianFisherClassifier

iris = load_iris()
x = iris.data[:, 2]
y = iris.target == 1
model = BayesianFisherClassifier(random_state=0).fit(x[:, None], y)
grid = np.linspace(-2, 10, 400)
mean, std = model.latent(grid[:, None], return_std=True)

among = std[(grid > 3.5) & (grid < 6)].max()
gap = std[np.argmin(np.abs(grid - 2.45))]
print(f"standard deviation among the rows at most {among:.2f}, in the gap {gap:.2f}")
assert gap > 2 * among

figure, ax = plt.subplots(figsize=(8, 4.6), layout="constrained")
ax.fill_between(grid, mean - 2 * std, mean + 2 * std, color="tab:blue", alpha=0.2, lw=0)
ax.plot(grid, mean, color="tab:blue", label="mean, and two standard deviations")
for species, marker, colour in ((0, "s", "tab:orange"), (1, "o", "black"), (2, "^", "tab:orange")):
    rows = x[iris.target == species]
    height = np.full(len(rows), model.class_centres_[int(species == 1), 0])
    label = iris.target_names[species]
    ax.plot(rows, height, marker, color=colour, ms=5, mfc="none", label=label)
ax.set_xlabel("petal length (cm)")
ax.set_ylabel("discriminant (rows: at the centre of their class)")
ax.set_ylim(-2.6, 3)
ax.legend(frameon=False, loc="upper center", ncols=2)
plt.show()
