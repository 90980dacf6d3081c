"""Kernel discriminants that tune themselves."""

from fisherkit.estimators import KernelFisherClassifier, KernelRidgeCV

__version__ = "0.1.0"

__all__ = ["KernelFisherClassifier", "KernelRidgeCV"]
