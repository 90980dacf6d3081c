"""Claim: widths of their own find the features that matter, and one width serves where none do.

The waveform data have 21 features, a noisy wave sampled at 21 places, and 19 more are added that
are pure noise. Left: the relevances that the evidence supports. Right: how probable the spreads of
the log weights are, here and with the labels shuffled, where one width for all wins.

    python examples/plot_relevance.py [output.png]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from fisherkit import BayesianFisherClassifier
from fisherkit.datasets import make_waveform
from fisherkit.plots import RelevanceDisplay

OUTPUT = Path(__file__).parents[1] / "docs" / "images" / "relevance.png"


def main(output):
    rng = np.random.RandomState(0)
    X, y = make_waveform(300, random_state=0)
    X = np.hstack([X, rng.normal(size=(300, 19))])
    names = [f"wave at {t}" for t in range(1, 22)] + [f"noise {j}" for j in range(1, 20)]
    model = BayesianFisherClassifier(ard=True, random_state=0).fit(X, y == 1)
    shuffled = BayesianFisherClassifier(ard=True, random_state=0).fit(X, rng.permutation(y == 1))

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5.4), layout="constrained")
    RelevanceDisplay(model.relevance_, names).plot(max_features=20, ax=left)
    left.set_title("300 rows, 21 places of a wave and 19 noise features", fontsize=11)
    for fitted, label, style in (
        (model, "true labels", "o-"),
        (shuffled, "shuffled labels", "s--"),
    ):
        spreads, values = (np.array(part) for part in zip(*fitted.hyperprior_.items(), strict=True))
        right.plot(spreads, values - values[0], style, label=label)
    right.axhline(0, color="grey", lw=0.8)
    right.set_xlabel("spread of the log weights a priori (0: one width for all)")
    right.set_ylabel("log posterior, over one width for all")
    right.legend(frameon=False)
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(output, dpi=110)

    top = np.argsort(-model.relevance_)[:10]
    print(f"of the ten most relevant features, {np.sum(top < 21)} are places of the wave")
    best = max(shuffled.hyperprior_, key=shuffled.hyperprior_.get)
    print(f"spread chosen with shuffled labels: {best:g}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT)
