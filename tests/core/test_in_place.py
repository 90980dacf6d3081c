"""Factors and inverses that large matrices have in their own memory, block by block."""

import numpy as np
import pytest

from fisherkit.core import arrays


@pytest.fixture(params=[1, 7, 50, 64])
def panel(request, monkeypatch):
    monkeypatch.setattr(arrays, "_PANEL", request.param)


@pytest.fixture
def matrix():
    half = np.random.default_rng(0).normal(size=(50, 50))
    return half @ half.T + np.eye(50)


def test_the_factor_takes_the_place_of_the_matrix(panel, matrix):
    truth = np.linalg.cholesky(matrix)
    factor = arrays._cholesky_in_place(matrix)
    assert factor is matrix
    np.testing.assert_allclose(factor, truth, atol=1e-13)


def test_the_inverse_takes_the_place_of_the_factor(panel, matrix):
    factor = np.linalg.cholesky(matrix)
    truth = np.linalg.inv(factor)
    inverse = arrays._inverted_in_place(factor)
    assert inverse is factor
    np.testing.assert_allclose(inverse, truth, atol=1e-13)


def test_a_matrix_that_is_not_positive_definite_has_no_factor(panel):
    with pytest.raises(np.linalg.LinAlgError):
        arrays._cholesky_in_place(np.diag([1.0, 2.0, -1.0, 3.0]))
