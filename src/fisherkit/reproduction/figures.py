"""The figures of the papers, drawn from the trials of their studies."""

from fisherkit.reproduction.experiments import Figure

FIGURES: tuple[Figure, ...] = ()
