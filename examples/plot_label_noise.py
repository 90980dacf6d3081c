"""Claim: where labels are wrong, rows weighted by what leave-one-out thinks of them do no worse.

A share of the training labels is flipped. `audit` gives each row the probability of its label by
the model that has not seen it; a second fit takes these as weights. Test error, on clean labels,
of the plain and the weighted fit, and of a fit to the labels before they were flipped.

    python examples/plot_label_noise.py [output.png]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from fisherkit import KernelFisherClassifier, audit
from fisherkit.datasets import make_ringnorm, make_torus, make_waveform

OUTPUT = Path(__file__).parents[1] / "docs" / "images" / "label_noise.png"
FAMILIES = {"torus": make_torus, "ringnorm": make_ringnorm, "waveform": make_waveform}
FITS = ("labels as flipped", "rows weighted by the audit", "labels before the flips")
ROWS, TESTED, DRAWS = 200, 2000, 20


def errors(make, noise, seed):
    """Test error in percent of the three fits."""
    X, y = make(ROWS + TESTED, random_state=seed)
    y = (y == 1).astype(int)
    rng = np.random.default_rng(seed)
    flipped = rng.permutation(ROWS)[: round(noise * ROWS)]
    label = y[:ROWS].copy()
    label[flipped] = 1 - label[flipped]
    weight = audit(KernelFisherClassifier(), X[:ROWS], label).sort_index().probability.to_numpy()
    fits = (
        KernelFisherClassifier().fit(X[:ROWS], label),
        KernelFisherClassifier().fit(X[:ROWS], label, sample_weight=weight),
        KernelFisherClassifier().fit(X[:ROWS], y[:ROWS]),
    )
    return [100 * np.mean(fit.predict(X[ROWS:]) != y[ROWS:]) for fit in fits]


def main(output):
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), sharey=True, layout="constrained")
    for ax, noise in zip(axes, (0.1, 0.2), strict=True):
        for j, (name, make) in enumerate(FAMILIES.items()):
            table = np.array([errors(make, noise, seed) for seed in range(DRAWS)])
            mean, se = table.mean(axis=0), table.std(axis=0, ddof=1) / np.sqrt(DRAWS)
            for k, colour in enumerate(("tab:grey", "tab:blue", "black")):
                label = FITS[k] if j == 0 else None
                ax.errorbar(j + 0.15 * (k - 1), mean[k], se[k], fmt="o", color=colour, label=label)
            gain = table[:, 0] - table[:, 1]
            print(
                f"{name}, {100 * noise:.0f} % flipped: plain {mean[0]:.2f} %, weighted "
                f"{mean[1]:.2f} % (gain {gain.mean():.2f} +- "
                f"{gain.std(ddof=1) / np.sqrt(DRAWS):.2f}), clean {mean[2]:.2f} %"
            )
        ax.set_xticks(range(len(FAMILIES)), list(FAMILIES))
        ax.set_title(f"{100 * noise:.0f} % of {ROWS} labels flipped", fontsize=11)
    axes[0].set_ylabel("test error (%)")
    axes[0].legend(frameon=False)
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(output, dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT)
