"""The figures of the papers, drawn from the trials of their studies."""

from fisherkit.reproduction import loo_figures, toy_figures
from fisherkit.reproduction.experiments import Figure
from fisherkit.reproduction.toy_studies import STARTS, TOYS

Trials = tuple[tuple[str, str, int], ...]

_SIZES = tuple(2**k for k in range(3, 13))
_ESANN_SIZES = (10, 20, 30, 50, 100, 200, 350, 500)
_MUS = ("0.01", "1", "100")


def _search_trials(n: int) -> int:
    return {2048: 5, 4096: 3}.get(n, 20)


def _search(route: str, sizes: tuple[int, ...]) -> Trials:
    trials = {n: 5 if (route, n) == ("direct", 256) else _search_trials(n) for n in sizes}
    return tuple(("mu-search", f"route={route} n={n}", trials[n]) for n in sizes)


def _approximation(sizes: tuple[int, ...], mus: tuple[str, ...]) -> Trials:
    return tuple(
        ("leave-one-out", f"n={n} mu={mu}", 20 if n <= 256 else 5) for mu in mus for n in sizes
    )


def _settings(study: str, trials: int, *settings: str) -> Trials:
    return tuple((study, setting, trials) for setting in settings)


_ROUTES = ("closed", "canonical", "ours")
_TOY_RBF = tuple(f"toy={toy} method={m}" for toy in TOYS for m in ("BFD", "KFD", "LS-SVM"))
_TOY_ARD = tuple(f"toy={toy}" for toy in TOYS)
_ERRORS = tuple(f"beta={beta} d={d}" for d in (1, 2, 4) for beta in (0.25, 0.5, 1, 2, 4))
_PROJECTIONS = {
    method: tuple(f"data={data} method={method}" for data in ("twonorm", "waveform"))
    for method in ("BFD", "KFD")
}
_STARTS = (0.01, 0.1, 0.5, 1, 2, 10, 100, 1000)
_TOYS_CAPTION = (
    "194 rows of spiral (no noise), 100 of the others, seed 0; pluses are class 1, circles class 0"
)

FIGURES: tuple[Figure, ...] = (
    Figure(
        name="orkfd-figure1",
        what="Figure 1",
        title="the step function and its logistic approximations",
        trials=(),
        quick=(),
        draw=loo_figures.sigmoid,
        caption=(
            "f(x) = 1 / (1 + exp(-gamma x)) for gamma = 1, 2, 4 and 10 beside the unit step. A "
            "formula: no rows, no seed. The paper does not print its values of gamma."
        ),
    ),
    Figure(
        name="orkfd-figure2",
        what="Figure 2",
        title="output of the tuned classifier on the torus",
        trials=_settings("torus-surface", 20, f"n={loo_figures.SURFACE_ROWS}"),
        quick=_settings("torus-surface", 2, f"n={loo_figures.SURFACE_ROWS}"),
        draw=loo_figures.surface,
        caption=(
            "Torus, n = 256 (64 rows of class 1), seed 0. KernelFisherClassifier with the "
            "coefficients penalty of the paper, Gaussian kernel; width and mu by leave-one-out "
            "PRESS. Bold: boundary; dashed: outputs -1 and 1."
        ),
    ),
    Figure(
        name="orkfd-figure3",
        what="Figure 3",
        title="time to choose among 21 values of mu",
        trials=(
            *_search("direct", _SIZES[:6]),
            *(task for route in _ROUTES for task in _search(route, _SIZES)),
        ),
        quick=(
            *_settings("mu-search", 1, *(f"route=direct n={n}" for n in (8, 16, 32))),
            *_settings("mu-search", 2, *(f"route={r} n={n}" for r in _ROUTES for n in _SIZES[:6])),
        ),
        draw=loo_figures.run_time,
        caption=(
            "Torus, n = 8 to 4096, seed = number of the trial; coefficients penalty, free bias, "
            "Gaussian kernel exp(-|x - x'|² / 2), mu = 2⁻¹⁰ to 2¹⁰. Mean processor time of one "
            "thread over 20 trials (5 at n = 2048, 3 at n = 4096; refits 5 at n = 256, their "
            "largest n). Solid: from the rows to the chosen mu; dashed: the search alone."
        ),
    ),
    Figure(
        name="orkfd-figure4",
        what="Figure 4",
        title="error of closed-form leave-one-out, canonical form",
        trials=_approximation(_SIZES[:7], _MUS),
        quick=tuple((s, setting, 2) for s, setting, _ in _approximation(_SIZES[:5], _MUS)),
        draw=loo_figures.canonical_error,
        caption=(
            "Torus, n = 8 to 512, seed = number of the trial, Gaussian kernel exp(-|x - x'|² / 2), "
            "free bias, labels ±1. Mean (band: 10 % to 90 %) of 20 trials, 5 at n = 512, against "
            "refits without the row. Dropping the row's kernel as well changes the model: that is "
            "the error. With its kernel kept the closed form is exact; values below 10⁻¹⁵ are "
            "drawn there."
        ),
    ),
    Figure(
        name="esann-figure1",
        what="Figure 1",
        title="time of leave-one-out, refits and closed form",
        trials=_approximation(_ESANN_SIZES, ("1",)),
        quick=tuple((s, setting, 1) for s, setting, _ in _approximation(_ESANN_SIZES[:5], ("1",))),
        draw=loo_figures.leave_one_out_time,
        caption=(
            "Torus, n = 10 to 500, seed = number of the trial; mu = 1, Gaussian kernel "
            "exp(-|x - x'|² / 2), unregularised bias as in the paper's R = diag(mu, ..., mu, 0). "
            "Mean processor time of one thread, 20 trials (5 from n = 350). fisherkit's time is "
            "that of a decomposition which serves every other mu as well."
        ),
    ),
    Figure(
        name="esann-figure2",
        what="Figure 2",
        title="error of closed-form leave-one-out",
        trials=_approximation(_ESANN_SIZES, ("1",)),
        quick=tuple((s, setting, 1) for s, setting, _ in _approximation(_ESANN_SIZES[:5], ("1",))),
        draw=loo_figures.closed_error,
        caption=(
            "Torus, n = 10 to 500, seed = number of the trial; mu = 1, Gaussian kernel "
            "exp(-|x - x'|² / 2), unregularised bias, labels ±1. Mean (band: 10 % to 90 %) of 20 "
            "trials, 5 from n = 350. With the kernel of the left-out row kept the closed form is "
            "exact; values below 10⁻¹⁵ are drawn there."
        ),
    ),
    Figure(
        name="kfdaq-figure1",
        what="Figure 1",
        title="priors that belong to the penalties |w|^q",
        trials=(),
        quick=(),
        draw=toy_figures.priors,
        caption=(
            "exp(-|ω|^q) for q = 2, 1 and 1/2, scaled to 1 at the origin as in the paper. A "
            "formula: no rows, no seed."
        ),
    ),
    Figure(
        name="kfdaq-figure2",
        what="Figure 2",
        title="objective of a penalised regression with two minima",
        trials=_settings("penalised-regression", 20, *(f"start={s}" for s in STARTS)),
        quick=_settings("penalised-regression", 2, *(f"start={s}" for s in STARTS)),
        draw=toy_figures.penalised_objective,
        caption=(
            "|y - x ω|² + 3.5 |ω|^0.25 for 5 rows, x = -1, -0.5, 0, 0.5, 1, y = x + 0.2 N(0, 1), "
            "seed 0 (the paper does not give its rows), and the majorise-minimise iterates from "
            "0.1 and 1.6."
        ),
    ),
    Figure(
        name="bfd-figure5",
        what="Figure 5",
        title="generalisation error against precision and distance",
        trials=_settings("projected-error", 5, *_ERRORS),
        quick=_settings("projected-error", 1, *_ERRORS),
        draw=toy_figures.projected_error,
        caption=(
            "Left: two projected classes of precision β = 1 with centres d = 2 apart; the shaded "
            "area is the error. Right: Φ(-d √β / 2) as lines, and the mean of 5 simulations of "
            "200,000 points each (seeds 0 to 4) as markers."
        ),
    ),
    Figure(
        name="bfd-figure6",
        what="Figure 6",
        title="BFD, KFD and LS-SVM on the toys, one width",
        trials=_settings("toy-rbf", 10, *_TOY_RBF),
        quick=_settings("toy-rbf", 1, *_TOY_RBF),
        draw=toy_figures.toys,
        caption=(
            f"{_TOYS_CAPTION}. Gaussian kernel with one width. BFD: evidence. KFD (coefficients "
            "penalty) and LS-SVM: error of 10 shuffled folds over 14 widths (gamma = 2⁻⁶ to 2⁷) "
            "and mu. The trials tabulated with it have the seeds 0 to 9 and 2000 test rows."
        ),
    ),
    Figure(
        name="bfd-figure7",
        what="Figure 7",
        title="BFD with relevance determination on the toys",
        trials=_settings("toy-ard", 10, *_TOY_ARD),
        quick=_settings("toy-ard", 1, *_TOY_ARD),
        draw=toy_figures.toys_ard,
        caption=(
            f"{_TOYS_CAPTION}. Gaussian and linear part with one width per feature, evidence "
            "alone (no hyper-prior), 3 starts of a grid. Log evidence in brackets."
        ),
    ),
    Figure(
        name="bfd-figure8",
        what="Figure 8",
        title="the spiral from a poor start",
        trials=_settings("toy-start", 1, *(f"theta2={t}" for t in _STARTS)),
        quick=_settings("toy-start", 1, "theta2=0.1", "theta2=1", "theta2=10"),
        draw=toy_figures.poor_start,
        caption=(
            "Spiral, 194 rows, seed 0; Gaussian kernel with one width per feature, evidence "
            "climbed from a single start. Left: where θ₂ = 0.1 leads (solid: boundary; dotted: a "
            "quarter of the way to the class centres). Right: log evidence and error on 2000 "
            "points between the training points, by start. From θ₂ = 1, the paper's poor start, "
            "the widths shrink to their bound: islands about the training points, too small to "
            "draw."
        ),
    ),
    Figure(
        name="bfd-table1",
        what="Table 1",
        title="log parameters of the toys, measured and printed",
        trials=_settings("toy-ard", 10, *_TOY_ARD),
        quick=_settings("toy-ard", 1, *_TOY_ARD),
        draw=toy_figures.toy_parameters,
        caption=(
            "Kernel (33) of the paper on the toys of Figure 7, seeds 0 to 9 (194 rows of spiral, "
            "100 of the others; the paper's rows are not known). Only products of θ₂ and θ₃ with "
            "the weights θ₆ and θ₇ can be told from data, and θ₄ cannot; a nugget θ₅ of zero is "
            "written as 0."
        ),
    ),
    Figure(
        name="bfd-figure9",
        what="Figure 9",
        title="relevances on ringnorm and splice",
        trials=(
            *_settings(
                "relevances", 5, *(f"data=ringnorm evidence={e}" for e in ("fisher", "lssvm"))
            ),
            *_settings(
                "relevances", 3, *(f"data=splice evidence={e}" for e in ("fisher", "lssvm"))
            ),
        ),
        quick=_settings(
            "relevances", 1, *(f"data=ringnorm evidence={e}" for e in ("fisher", "lssvm"))
        ),
        draw=toy_figures.relevances,
        caption=(
            "Weights of standardised features of ringnorm (400 training rows, splits 0 to 4) and "
            "splice (1000 rows, splits 0 to 2); Gaussian kernel, evidence alone (no hyper-prior). "
            "Lines: median of the splits; bars: their range for BFD. Weights below 10⁻⁴ on splice "
            "are not shown."
        ),
    ),
    Figure(
        name="bfd-figure10",
        what="Figure 10",
        title="projections by BFD",
        trials=_settings("projections", 5, *_PROJECTIONS["BFD"]),
        quick=_settings("projections", 1, _PROJECTIONS["BFD"][0]),
        draw=toy_figures.projections_bayes,
        caption=(
            "BFD, one width, tuned by evidence on split 0: 400 training rows, 7000 test rows of "
            "twonorm and 4600 of waveform. Filled: training rows; dotted: training rows projected "
            "by the model without them; lines: test rows. Training means of the classes are at -1 "
            "and 1."
        ),
    ),
    Figure(
        name="bfd-figure11",
        what="Figure 11",
        title="projections by KFD",
        trials=_settings("projections", 5, *_PROJECTIONS["KFD"]),
        quick=_settings("projections", 1, _PROJECTIONS["KFD"][0]),
        draw=toy_figures.projections_kernel,
        caption=(
            "KFD, one width, coefficients penalty, width and mu by leave-one-out on split 0: rows "
            "and lines as in Figure 10."
        ),
    ),
)
