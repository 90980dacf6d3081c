"""Every fit ends with a model whose answers are finite and agree, or with a sentence."""

from hostile_fits import cases, verdict
from hypothesis import HealthCheck, given, settings


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(case=cases)
def test_a_fit_is_right_or_refused_in_words(case):
    assert verdict(*case)[0] in ("fitted", "refused")
