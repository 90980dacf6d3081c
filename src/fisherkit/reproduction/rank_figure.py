"""Mean ranks of several methods and which of them differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


def critical_difference(ranks: Mapping[str, float], critical: float) -> Drawing:
    """Mean ranks on a line; bars join methods that differ by less than ``critical``."""
    from matplotlib.figure import Figure as Drawing

    names = sorted(ranks, key=lambda name: ranks[name])
    half = (len(names) + 1) // 2
    drawing = Drawing(figsize=(7.5, 0.9 + 0.25 * half))
    axes = drawing.add_subplot()
    axes.set_axis_off()
    low, high = 1, max(len(names), 2)
    axes.set_xlim(low - 0.6 * (high - low), high + 0.6 * (high - low))
    axes.set_ylim(-1.2 - half, 1.2)
    axes.plot([low, high], [0, 0], color="black", lw=1)
    for tick in range(low, high + 1):
        axes.plot([tick, tick], [0, 0.15], color="black", lw=1)
        axes.text(tick, 0.3, str(tick), ha="center", va="bottom", fontsize=9)
    for i, name in enumerate(names):
        left = i < half
        level = -1.0 - (i if left else len(names) - 1 - i)
        end = low - 0.1 if left else high + 0.1
        axes.plot([ranks[name], ranks[name], end], [0, level, level], color="0.35", lw=0.8)
        text = f"{name} {ranks[name]:.2f}" if left else f"{ranks[name]:.2f} {name}"
        axes.text(
            end + (-0.05 if left else 0.05),
            level,
            text,
            ha="right" if left else "left",
            va="center",
            fontsize=9,
        )
    level, reached = -0.25, -1
    for i, name in enumerate(names):
        last = max(j for j, other in enumerate(names) if ranks[other] - ranks[name] < critical)
        if last > i and last > reached:
            axes.plot([ranks[name], ranks[names[last]]], [level, level], color="#0072B2", lw=3)
            level, reached = level - 0.22, last
    return drawing
