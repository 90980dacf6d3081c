"""ONNX graphs answer as the classifiers do, preparation and calibration included."""

import json

import numpy as np
import pandas as pd
import pytest
from houses import houses
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.feature_selection import VarianceThreshold
from sklearn.gaussian_process.kernels import RBF
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from fisherkit import (
    BayesianFisherClassifier,
    FisherCommitteeClassifier,
    ForwardFisherClassifier,
    KernelFisherClassifier,
    KernelRidgeCV,
    SparseFisherClassifier,
    TableClassifier,
    TableRegressor,
)
from fisherkit.columns import features
from fisherkit.methods import METHODS
from fisherkit.training import train
from fisherkit.training.intake import example

pytest.importorskip("onnx", reason="ONNX export needs the extra onnx")
runtime = pytest.importorskip("onnxruntime", reason="running graphs needs onnxruntime")

from fisherkit.onnx_export import ExportError, to_onnx  # noqa: E402

CLASSIFIERS = {
    "fisher": KernelFisherClassifier(),
    "fisher balanced": KernelFisherClassifier(threshold="balanced"),
    "fisher ovr": KernelFisherClassifier(multiclass="ovr", bias="none", gamma=0.1),
    "fisher with widths": KernelFisherClassifier(ard=True),
    "fisher on centres": KernelFisherClassifier(basis="random", n_components=20, random_state=0),
    "committee": FisherCommitteeClassifier(),
    "sparse": SparseFisherClassifier(gamma="median"),
    "forward": ForwardFisherClassifier(gamma="median"),
    "bayes": BayesianFisherClassifier(),
    "bayes linear": BayesianFisherClassifier("linear"),
    "bayes inducing": BayesianFisherClassifier(
        ard=True, linear=True, n_inducing=20, random_state=0
    ),
}
KERNELS = [
    *("rbf", "laplacian", "linear", "poly", "polynomial", "cosine", "chi2", "additive_chi2"),
    *("sigmoid", "exponential", "additive"),
]


def rows(n_classes):
    X, y = (load_breast_cancer if n_classes == 2 else load_iris)(return_X_y=True)
    step = 6 if n_classes == 2 else 2
    return X[::step], np.array(["one", "two", "three"])[y[::step]], X


def answers(model, inputs):
    session = runtime.InferenceSession(to_onnx(model).SerializeToString())
    return session.run(["label", "probabilities"], inputs)


def agree(model, X, inputs):
    labels, p = answers(model, inputs)
    assert np.array_equal(labels, model.predict(X))
    assert p.dtype == np.float64
    np.testing.assert_allclose(p, model.predict_proba(X), rtol=0, atol=1e-5)
    return p


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "exponential", "linear"])
@pytest.mark.parametrize("options", [{}, {"basis": "random", "n_components": 20}], ids=str)
def test_regressors_with_their_scaler(kernel, options):
    X, _, new = rows(3)
    model = KernelRidgeCV(kernel, random_state=0, **options)
    for y in (X[:, 0], X[:, :2]):
        fitted = make_pipeline(StandardScaler(), model).fit(X[:, 1:], y)
        session = runtime.InferenceSession(to_onnx(fitted).SerializeToString())
        (found,) = session.run(["prediction"], {"X": new[:, 1:]})
        np.testing.assert_allclose(found, fitted.predict(new[:, 1:]), rtol=0, atol=1e-6)


@pytest.mark.parametrize("kernel", [None, [("rbf", "rank")], [("laplacian", "standard")]])
def test_regressors_of_tables_take_columns(kernel):
    table = houses(80)
    X, new = table.drop(columns="price"), houses(40, seed=1).drop(columns="price")
    model = TableRegressor(kernel).fit(X, table["price"])
    session = runtime.InferenceSession(to_onnx(model).SerializeToString())
    inputs = {}
    for name, values in new.items():
        words = values.dtype.kind not in "if"
        plain = values.fillna("").astype(str) if words else values.astype(float)
        inputs[name] = plain.to_numpy(dtype=object if words else float)[:, None]
    (found,) = session.run(["prediction"], inputs)
    np.testing.assert_allclose(found, model.predict(new), rtol=1e-7)  # of coefficients of 1e8


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_every_classifier_with_its_scaler(name, n_classes):
    X, y, new = rows(n_classes)
    model = make_pipeline(StandardScaler(), CLASSIFIERS[name]).fit(X, y)
    agree(model, new, {"X": new})


def a_classifier(kernel):
    """A classifier that accepts the kernel, positive semi-definite or not."""
    if kernel in ("additive_chi2", "sigmoid"):
        return ForwardFisherClassifier(kernel, gamma=0.2, max_terms=5)
    return KernelFisherClassifier(kernel, gamma=0.2, regularization=0.1)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel(kernel, n_classes):
    X, y, new = rows(n_classes)
    scaler = MinMaxScaler(clip=True).fit(X)
    model = a_classifier(kernel).fit(scaler.transform(X), y)
    new = scaler.transform(new)
    new[0] = 0.0
    agree(model, new, {"X": new})


def test_a_committee_of_many_kernels():
    X, y, new = rows(3)
    committee = FisherCommitteeClassifier(("chi2", "polynomial", "linear"), n_widths=2)
    agree(committee.fit(X, y), new, {"X": new})


def test_a_constant_model():
    X, y, new = rows(2)
    with pytest.warns(UserWarning, match="No term is retained"):
        model = SparseFisherClassifier(gamma=0.1, rho=1e6).fit(X, y)
    agree(model, new, {"X": new})


def test_distances_keep_their_digits_far_from_the_origin():
    X, y, new = rows(3)
    model = KernelFisherClassifier().fit(X + 1e6, y)
    agree(model, new + 1e6, {"X": new + 1e6})


@pytest.mark.parametrize("labels", [[7, 11], [2.0, 3.0], [False, True]], ids=str)
def test_labels_of_any_type(labels):
    X, y, new = rows(2)
    model = KernelFisherClassifier(gamma=1e-6).fit(X, np.where(y == "one", *labels))
    graph = to_onnx(model)
    agree(model, new, {"X": new})
    classes = {entry.key: entry.value for entry in graph.metadata_props}["classes"]
    assert json.loads(classes) == labels


def table(n=90, seed=0):
    rng = np.random.RandomState(seed)
    return pd.DataFrame(
        {
            "age": np.where(rng.rand(n) < 0.1, np.nan, rng.uniform(20, 80, n)),
            "weight": rng.normal(70, 9, n),
            "town": rng.choice(["Bonn", "Köln", "Ulm", None], n, p=[0.6, 0.3, 0.05, 0.05]),
            "sex": rng.choice(["f", "m"], n),
        }
    ).fillna(np.nan)  # before version 3, pandas keeps None, which SimpleImputer takes for a level


def as_inputs(X):
    return {
        name: values.to_numpy(dtype=np.float64)[:, None]
        if values.dtype.kind == "f"
        else values.fillna("").to_numpy(dtype=object)[:, None]
        for name, values in X.items()
    }


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rare", [0, 2, 12])
def test_columns_with_missing_rare_and_unseen_values(rare, method, monkeypatch):
    monkeypatch.setattr(features, "rare_below", lambda n: rare)
    X = table()
    y = np.where(X["weight"] + 5 * (X["sex"] == "m") > 72, "b", "a")
    model = TableClassifier(method).fit(X, y)
    new = table(seed=1)
    new.loc[:3, "town"] = "Nirgends"
    new.loc[4:6, "sex"] = np.nan
    p = agree(model, new, as_inputs(new))
    assert np.unique(p[:, 0]).size > 20


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_columns_may_be_called_like_what_is_inside(kernel):
    X, y, _ = rows(2)
    names = ["x", "z", "sum", "constant_0", "fisherkit/constant_1", "concat_0", "sum_out"]
    X = pd.DataFrame(np.tile(X, len(names))[:, : len(names)], columns=names)

    def fitted(X):
        return TableClassifier("fisher", kernel=kernel, parameters={"gamma": 0.1}).fit(X, y)

    agree(fitted(X), X, as_inputs(X))
    with pytest.raises(ExportError, match="'label'"):
        to_onnx(fitted(X.rename(columns={"x": "label"})))


def test_what_the_command_trains_can_be_exported():
    done = train(example(), held_out="none")
    X = done.X
    agree(done.model, X, {name: X[[name]].to_numpy() for name in X.columns})


def test_sparse_models_are_small():
    X, y = load_breast_cancer(return_X_y=True)
    whole = make_pipeline(StandardScaler(), KernelFisherClassifier(gamma=0.02)).fit(X, y)
    small = make_pipeline(StandardScaler(), ForwardFisherClassifier(gamma=0.02)).fit(X, y)
    sizes = [len(to_onnx(model).SerializeToString()) for model in (whole, small)]
    assert sizes[1] < 2000 + 300 * (small[-1].n_terms_ + 4) and sizes[1] < sizes[0] / 5


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (KernelFisherClassifier(lambda a, b: float(a @ b), regularization=1.0), "with a name"),
        (BayesianFisherClassifier(RBF()), "Kernel objects"),
        (BayesianFisherClassifier(probability="noise_model"), "noise_model"),
        (StandardScaler(), "neither a classifier nor a regressor"),
        (make_pipeline(VarianceThreshold(), KernelFisherClassifier(gamma=0.1)), "Variance"),
    ],
)
def test_what_has_no_graph_is_refused(model, said):
    X, y, _ = rows(2)
    y = np.where(y == "one", 0, 1)
    with pytest.raises(ExportError, match=said):
        to_onnx(model.fit(X, y))


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "poly"])
def test_single_precision_takes_half_the_space_of_a_compressed_model(kernel):
    X, y = load_breast_cancer(return_X_y=True)
    model = KernelFisherClassifier(kernel, gamma=0.02, regularization=0.1)
    small = make_pipeline(StandardScaler(), model).fit(X, y)
    small.steps[-1] = ("small", small[-1].compress(400))
    graph = to_onnx(small, single=True).SerializeToString()
    numbers = 400 * (X.shape[1] + 1)  # of centres and coefficients
    assert len(graph) < 4 * numbers + 6000  # bytes
    assert len(to_onnx(small).SerializeToString()) > 8 * numbers
    _, p = runtime.InferenceSession(graph).run(["label", "probabilities"], {"X": X})
    np.testing.assert_allclose(p, small.predict_proba(X), rtol=0, atol=1e-4)
