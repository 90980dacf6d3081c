"""Synthetic problems of the papers, and loaders for the benchmark sets they report.

The generators (`fisherkit.datasets.generators`) draw from a stated law and need nothing but a seed.

The loaders read ``.npz`` files from the folder named by the environment variable
``FISHERKIT_DATA``: ``ida_<name>.npz`` for the IDA benchmark and ``uci_<name>.npz`` for the UCI
sets, each with the arrays ``X`` of shape (n, d) and ``y`` of 0 and 1. A set that is not there is
downloaded from its public source (`fisherkit.datasets.fetch`), checked, and kept in the folder
named by ``FISHERKIT_CACHE``, by default the user's cache; this needs the extra ``data``. Both ways
give the same rows, not always in the same order.

In the two-class problems, label 1 is the class that the papers number first and that the IDA
files mark with +1.

References
----------
L. Breiman. Bias, variance, and arcing classifiers. Technical report 460, Statistics Department,
University of California, Berkeley, 1996.

L. Breiman, J. H. Friedman, R. A. Olshen and C. J. Stone. Classification and regression trees.
Wadsworth, 1984.

T. Peña Centeno and N. D. Lawrence. Optimising kernel parameters and regularisation coefficients for
non-linear discriminant analysis. Journal of Machine Learning Research 7:455-491, 2006.

G. Rätsch, T. Onoda and K.-R. Müller. Soft margins for AdaBoost. Machine Learning 42(3):287-320,
2001.

K. Saadi, N. L. C. Talbot and G. C. Cawley. Optimally regularised kernel Fisher discriminant
classification. Neural Networks 20(7):832-841, 2007.
"""

from fisherkit.datasets.generators import (
    make_bumpy,
    make_overlap,
    make_relevance,
    make_ringnorm,
    make_spiral,
    make_torus,
    make_twonorm,
    make_waveform,
)
from fisherkit.datasets.loaders import load_ida, load_uci

__all__ = [
    "load_ida",
    "load_uci",
    "make_bumpy",
    "make_overlap",
    "make_relevance",
    "make_ringnorm",
    "make_spiral",
    "make_torus",
    "make_twonorm",
    "make_waveform",
]
