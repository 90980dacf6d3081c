"""Time of the Bayesian Fisher discriminant beside scikit-learn's Gaussian process classifier.

versus_gpc  full optimisation of the hyper-parameters, same kernel, same number of starts (3):
            RBF on banana at N=1000, one width per feature on waveform (d=21) at N=400
inducing    N=100,000, d=20 (ringnorm), 200 inducing points, full optimisation
em          the corrected EM against the direct optimiser, RBF, one start

FISHERKIT_DATA=<folder> OPENBLAS_NUM_THREADS=1 python benchmarks/bayes.py versus_gpc em
python benchmarks/bayes.py inducing
"""

import argparse
import os
import resource
import sys
from pathlib import Path

import numpy as np
from _common import Row, best_of, draw, print_table, timed, write_csv
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from fisherkit import BayesianFisherClassifier
from fisherkit.datasets import make_ringnorm, make_waveform

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from em import FisherByEM


def waveform(n: int, seed: int) -> tuple[np.ndarray, ...]:
    X, y = make_waveform(n + 4000, random_state=seed)
    scaler = StandardScaler().fit(X[:n])
    X, y = scaler.transform(X), (y == 1).astype(int)
    return X[:n], y[:n], X[n:], y[n:]


def peer(n_widths: int) -> GaussianProcessClassifier:
    kernel = ConstantKernel(1.0) * RBF(np.ones(n_widths))
    return GaussianProcessClassifier(kernel, n_restarts_optimizer=2, random_state=0)


def versus_gpc() -> list[Row]:
    rows: list[Row] = []
    cases = {
        "rbf": (draw("banana", 1000, 0), {"ard": False}, 5),
        "ard": (waveform(400, 0), {"ard": True}, 30),
    }
    for name, ((X, y, X_test, y_test), options, asked) in cases.items():
        ours = BayesianFisherClassifier(random_state=0, **options)
        theirs = peer(X.shape[1] if options["ard"] else 1)
        repeats = 1 if options["ard"] else 2
        best = best_of(
            3,
            ours=lambda ours=ours, X=X, y=y: ours.fit(X, y),
        ) | best_of(repeats, theirs=lambda theirs=theirs, X=X, y=y: theirs.fit(X, y))
        rows.append(
            {
                "kernel": name,
                "n": len(y),
                "d": X.shape[1],
                "fisherkit_s": best["ours"],
                "gpc_s": best["theirs"],
                "ratio": best["theirs"] / best["ours"],
                "asked": asked,
                "fisherkit_auc": 100 * roc_auc_score(y_test, ours.decision_function(X_test)),
                "gpc_auc": 100 * roc_auc_score(y_test, theirs.predict_proba(X_test)[:, 1]),
            }
        )
    return rows


def em() -> list[Row]:
    rows: list[Row] = []
    for n in (100, 200, 400):
        X, y, _, _ = draw("banana", n, 0)
        direct = BayesianFisherClassifier(n_restarts=1)
        slow = FisherByEM(n_restarts=1)
        best = best_of(3, direct=lambda m=direct, X=X, y=y: m.fit(X, y))
        best |= best_of(1, em=lambda m=slow, X=X, y=y: m.fit(X, y))
        rows.append(
            {
                "n": n,
                "direct_s": best["direct"],
                "em_s": best["em"],
                "ratio": best["em"] / best["direct"],
                "direct_evidence": direct.log_evidence_,
                "em_evidence": slow.log_evidence_,
            }
        )
    return rows


def inducing() -> list[Row]:
    n = 100_000
    X, y = make_ringnorm(n + 10_000, random_state=0)
    rows: list[Row] = []
    for ard in (False, True):
        model = BayesianFisherClassifier(n_inducing=200, ard=ard, random_state=0)
        seconds, model = timed(lambda model=model: model.fit(X[:n], y[:n]))
        rows.append(
            {
                "n": n,
                "d": X.shape[1],
                "m": 200,
                "ard": ard,
                "seconds": seconds,
                "asked": 180 if not ard else "-",
                "error_percent": 100 * (1 - model.score(X[n:], y[n:])),
                "evaluations": sum(climb.evaluations for climb in model.restarts_),
                "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
                "cores": os.cpu_count(),
            }
        )
    return rows


PARTS = {"versus_gpc": versus_gpc, "em": em, "inducing": inducing}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="+", choices=PARTS)
    for part in parser.parse_args().parts:
        rows = PARTS[part]()
        write_csv(f"bayes_{part}", rows)
        print_table(rows)


if __name__ == "__main__":
    main()
