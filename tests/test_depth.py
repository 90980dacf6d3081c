"""How deep the formula lies: frames and modules of ours between a call and its answer.

The goal is 8 frames from `fit` to the left-out formula, 14 modules in a fit and 7 in a prediction.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

import fisherkit
from fisherkit import KernelFisherClassifier

ROOT = str(Path(fisherkit.__file__).parent)
FRAMES, FIT_MODULES, PREDICT_MODULES = 14, 29, 7


def traced(call, formula=""):
    """The modules of ours that a call executes, and the frames of ours down to the formula."""
    modules, deepest = set(), 0

    def note(frame, event, _):
        nonlocal deepest
        if event != "call" or not frame.f_code.co_filename.startswith(ROOT):
            return
        modules.add(frame.f_code.co_filename)
        if frame.f_code.co_name == formula:
            depth, outer = 0, frame
            while outer is not None:
                depth += outer.f_code.co_filename.startswith(ROOT)
                outer = outer.f_back
            deepest = max(deepest, depth)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return modules, deepest


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    return X, (X[:, 0] + 0.3 * rng.normal(size=60) > 0).astype(int)


def test_a_fit_is_shallow(data):
    model = KernelFisherClassifier()
    modules, frames = traced(lambda: model.fit(*data), formula="left_out")
    assert 0 < frames <= FRAMES
    assert len(modules) <= FIT_MODULES, sorted(modules)


def test_a_prediction_is_shallow(data):
    model = KernelFisherClassifier().fit(*data)
    modules, _ = traced(lambda: model.predict(data[0]))
    assert 0 < len(modules) <= PREDICT_MODULES, sorted(modules)
