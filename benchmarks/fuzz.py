"""Tens of thousands of hostile fits: each is right, or refused in words.

Draws estimators, parameters and data as `tests/support/hostile_fits.py` describes, and counts how
the fits end. `results/fuzz.csv` has a row for each estimator; what broke is printed with what it
takes to do it again.

Usage: OPENBLAS_NUM_THREADS=1 python benchmarks/fuzz.py [fits] [first seed]
"""

import logging
import sys
import time
from collections import Counter
from pathlib import Path

from _common import environment, write_csv
from hypothesis import HealthCheck, Phase, given, seed, settings

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from hostile_fits import Broken, cases, verdict

BATCH = 500  # fits for each seed


def batch(number, ends, refusals, slowest, broken):
    @seed(number)
    @settings(
        max_examples=BATCH,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases)
    def one(case):
        model, problem = case
        name = type(model).__name__
        start = time.perf_counter()
        try:
            end, words = verdict(model, problem)
            ends[name, end] += 1
            refusals[name, words[:70]] += end == "refused"
        except Broken as trouble:
            ends[name, "broken"] += 1
            broken.append((number, str(trouble), model, problem))
        slowest[name] = max(slowest.get(name, 0.0), time.perf_counter() - start)

    one()


def main():
    fits = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    logging.getLogger("fisherkit").setLevel(logging.ERROR)
    ends, refusals, slowest, broken = Counter(), Counter(), {}, []
    for number in range(first, first + -(-fits // BATCH)):
        seen = len(broken)
        batch(number, ends, refusals, slowest, broken)
        print(f"{sum(ends.values())} fits, {len(broken)} broken", file=sys.stderr, flush=True)
        for number, trouble, model, problem in broken[seen:]:
            print(f"seed {number}: {trouble}\n  {model!r}\n  {problem!r}", flush=True)
    names = sorted(slowest)
    rows = [
        {
            "estimator": name,
            "fits": sum(count for (other, _), count in ends.items() if other == name),
            **{end: ends[name, end] for end in ("fitted", "refused", "broken")},
            "slowest_s": round(slowest[name], 2),
        }
        for name in names
    ]
    total = {"estimator": "all", "slowest_s": max(row["slowest_s"] for row in rows)}
    for field in ("fits", "fitted", "refused", "broken"):
        total[field] = sum(row[field] for row in rows)
    write_csv("fuzz", [*rows, {key: total[key] for key in rows[0]}])
    for (name, words), count in refusals.most_common(40):
        print(f"{count:6d} {name}: {words}")
    print(environment())


if __name__ == "__main__":
    main()
