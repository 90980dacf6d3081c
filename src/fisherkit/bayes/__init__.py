"""The evidence of the Bayesian Fisher discriminant, and the posterior it leads to."""

from fisherkit.bayes.climb import Climb, Ending, maximise
from fisherkit.bayes.evidence import EVIDENCE, SIDE, Contrasts
from fisherkit.bayes.learning import Sample
from fisherkit.bayes.posterior import Exact, Posterior, Projected
