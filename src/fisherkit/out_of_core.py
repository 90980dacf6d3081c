"""Tables larger than memory: the public name of `fisherkit.training.out_of_core`."""

from fisherkit.training.out_of_core import fit_table

__all__ = ["fit_table"]
