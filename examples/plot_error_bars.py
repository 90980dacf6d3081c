"""Claim: the discriminant knows where it has no data, once the unobserved level is left out.

Two overlapping classes on a line with a gap in between. The band is two standard deviations of the
discriminant relative to the midpoint of the class centres; ticks are rows, at their class centre.

    python examples/plot_error_bars.py [output.png]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from fisherkit import BayesianFisherClassifier

OUTPUT = Path(__file__).parents[1] / "docs" / "images" / "error_bars.png"


def main(output):
    rng = np.random.RandomState(1)
    x = np.concatenate(
        [rng.normal(-2.5, 0.8, 40), rng.normal(0.2, 0.7, 40), rng.normal(6, 0.8, 30)]
    )
    y = np.repeat([0, 1, 0], [40, 40, 30])
    model = BayesianFisherClassifier(random_state=0).fit(x[:, None], y)
    grid = np.linspace(-8, 12, 500)
    mean, std = model.latent(grid[:, None], return_std=True)

    figure, ax = plt.subplots(figsize=(8, 4.6), layout="constrained")
    ax.fill_between(grid, mean - 2 * std, mean + 2 * std, color="tab:blue", alpha=0.2, lw=0)
    ax.plot(grid, mean, color="tab:blue", label="mean, and two standard deviations")
    for label, colour in ((0, "tab:orange"), (1, "tab:green")):
        centre = float(model.class_centres_[label, 0])
        ax.axhline(centre, color=colour, ls=":", lw=1)
        rows = x[y == label]
        ax.plot(rows, np.full(len(rows), centre), "|", color=colour, ms=12, label=f"class {label}")
    ax.set_xlabel("x")
    ax.set_ylabel("discriminant")
    ax.legend(frameon=False, loc="lower right")
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(output, dpi=110)

    inside = std[np.abs(grid) < 1].mean()
    gap = std[np.abs(grid - 3) < 0.5].mean()
    print(f"standard deviation among the data {inside:.2f}, in the gap {gap:.2f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT)
