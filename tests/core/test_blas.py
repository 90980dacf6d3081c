"""Products added or subtracted in place equal those of NumPy, for every layout of their arrays."""

import threading

import numpy as np
import pytest

from fisherkit.core import arrays, blas


def matrix(rows, columns, layout):
    rng = np.random.default_rng(rows + columns)
    if layout == "rows":
        return rng.normal(size=(rows, columns))
    if layout == "columns":
        return rng.normal(size=(columns, rows)).T
    wide = rng.normal(size=(rows, columns + 9))
    return wide[:, 4 : 4 + columns] if layout == "part of rows" else wide[:, :columns][:, ::-1]


SERVED = ("rows", "columns", "part of rows")


def test_this_scipy_offers_the_routines():
    assert blas.serves(np.ones((2, 2)), np.ones((2, 2)))


@pytest.mark.parametrize("right", [*SERVED, "reversed"])
@pytest.mark.parametrize("left", [*SERVED, "reversed"])
@pytest.mark.parametrize("total", [*SERVED, "reversed"])
def test_a_product_is_subtracted_in_place(total, left, right):
    A, B = matrix(31, 7, left), matrix(7, 20, right)
    sum_ = matrix(31, 20, total)
    wanted = sum_ - A @ B
    served = total in ("rows", "part of rows") and "reversed" not in (left, right)
    assert blas.serves(sum_, A, B) == served
    arrays.subtract_product(sum_, A, B)
    np.testing.assert_allclose(sum_, wanted, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("layout", [*SERVED, "reversed"])
def test_a_gram_matrix_is_added_to_the_upper_triangle(layout):
    F, total = matrix(31, 20, layout), np.ones((20, 20))
    arrays.add_gram(total, F)
    np.testing.assert_allclose(arrays.symmetric(total), 1 + F.T @ F, rtol=1e-13, atol=1e-13)


def test_nothing_beside_the_total_is_touched():
    wide = np.zeros((5, 9))
    arrays.subtract_product(wide[:, 2:6], np.ones((5, 3)), np.ones((3, 4)))
    assert np.all(wide[:, 2:6] == -3) and np.all(wide[:, :2] == 0) and np.all(wide[:, 6:] == 0)


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"Shapes \(2, 3\) and \(7, 2\)"):
        arrays.subtract_product(np.zeros((2, 2)), np.ones((2, 3)), np.ones((7, 2)))
    with pytest.raises(ValueError, match="Products of 4 columns"):
        arrays.add_gram(np.zeros((6, 8))[:2, :2], np.ones((5, 4)))


@pytest.mark.parametrize(
    "total",
    [
        pytest.param(np.zeros((3, 3), dtype=np.float32), id="single precision"),
        pytest.param(np.zeros((0, 3)), id="no rows"),
        pytest.param(np.zeros((3, 3, 3)), id="three axes"),
        pytest.param(np.broadcast_to(np.zeros(3), (3, 3)), id="read-only"),
        pytest.param([[0.0]], id="a list"),
        pytest.param(np.zeros(80, dtype=np.uint8)[1:73].view(np.float64).reshape(3, 3), id="odd"),
    ],
)
def test_other_arrays_are_left_to_numpy(total):
    assert not blas.serves(total, np.ones((3, 3)))


def test_products_on_several_threads_do_not_disturb_each_other():
    A, B = matrix(200, 50, "rows"), matrix(50, 80, "rows")
    totals = [np.zeros((200, 80)) for _ in range(4)]

    def work(total):
        for _ in range(20):
            arrays.subtract_product(total, A, B)

    threads = [threading.Thread(target=work, args=(total,)) for total in totals]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for total in totals:
        np.testing.assert_allclose(total, -20 * (A @ B), rtol=1e-12)
