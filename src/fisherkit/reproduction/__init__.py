"""The experiments of the five papers, run again on the real data by one command.

An *experiment* (`experiments`) is a table or a figure of a paper. It names *tasks* (`tasks`): one
classifier on one split of one data set, or one trial of a study. A task yields a small dictionary,
which the *journal* (`journal`) keeps as soon as it is there. Tables, figures and the page are
views of the journal: nothing is computed twice, whatever shows it.

``fisherkit reproduce`` is the command; the results are tracked in ``reproduction/results``.
"""
