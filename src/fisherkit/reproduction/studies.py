"""Studies behind the figures: one trial at one setting yields a few numbers."""

from collections.abc import Callable
from dataclasses import dataclass

from fisherkit.reproduction import loo_studies, toy_studies
from fisherkit.reproduction.tasks import Result


@dataclass(frozen=True)
class Study:
    """A computation repeated over trials.

    ``run(setting, trial)`` yields the result; ``settings`` names, with numbers, all else that
    determines it and is part of the key under which it is journaled. Times are in fields that end
    in ``_seconds``; all others are the same in every run.
    """

    name: str
    settings: str
    run: Callable[[str, int], Result]


_TORUS = f"torus, seed = trial, gamma {loo_studies.GAMMA}, free bias, coefficients penalty"

STUDIES = {
    study.name: study
    for study in (
        Study("torus-surface", f"{_TORUS}, both tuned, 4000 test rows", loo_studies.surface),
        Study("mu-search", f"{_TORUS}, 21 mu 2^-10..2^10, revision 1", loo_studies.mu_search),
        Study("leave-one-out", f"{_TORUS}, one mu, revision 1", loo_studies.approximation),
        Study(
            "penalised-regression",
            f"5 rows, slope {toy_studies.SLOPE}, noise {toy_studies.NOISE}, seed = trial",
            toy_studies.penalised_regression,
        ),
        Study("projected-error", "200000 draws, seed = trial", toy_studies.projected_error),
        Study(
            "toy-rbf",
            "seed = trial, 2000 test rows, 10-fold error on 14 x 25 values",
            toy_studies.one_width,
        ),
        Study(
            "toy-ard",
            "seed = trial, 2000 test rows, no hyperprior, revision 2",
            toy_studies.two_widths,
        ),
        Study("toy-start", "seed = trial, 2000 test rows, one start", toy_studies.from_start),
        Study("relevances", "split = trial, no hyperprior", toy_studies.relevances),
        Study("projections", "split = trial, 24 bins on -3..3", toy_studies.projections),
    )
}
