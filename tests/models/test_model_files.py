"""Model files: everything comes back, and nothing that is planted in one runs."""

import io
import json
import pickle
import zipfile
from dataclasses import dataclass

import numpy as np
import pytest
import skops.io
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fisherkit import (
    BayesianFisherClassifier,
    FisherCommitteeClassifier,
    ForwardFisherClassifier,
    KernelFisherClassifier,
    KernelRidgeCV,
    SparseFisherClassifier,
)
from fisherkit.core import Meter
from fisherkit.models import files
from fisherkit.models.files import (
    METADATA,
    ModelFileError,
    VersionWarning,
    load,
    read_metadata,
    save,
)
from fisherkit.stored import stored

CLASSIFIERS = {
    "fisher": KernelFisherClassifier(),
    "fisher on centres": KernelFisherClassifier(basis="random", n_components=10, random_state=0),
    "fisher with widths": KernelFisherClassifier(ard=True),
    "fisher given": KernelFisherClassifier("laplacian", gamma=0.1, regularization=0.1),
    "committee": FisherCommitteeClassifier(),
    "sparse": SparseFisherClassifier(),
    "forward": ForwardFisherClassifier(),
    "bayes": BayesianFisherClassifier(),
    "bayes inducing": BayesianFisherClassifier(
        ard=True, linear=True, n_inducing=10, random_state=0
    ),
    "bayes noise": BayesianFisherClassifier(probability="noise_model"),
}


def rows(n_classes):
    X, y = (load_breast_cancer if n_classes == 2 else load_iris)(return_X_y=True)
    step = 8 if n_classes == 2 else 3
    return X[::step], np.array(["one", "two", "three"])[y[::step]]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.fisherkit"


@pytest.fixture
def model():
    X, y = rows(3)
    return make_pipeline(StandardScaler(), KernelFisherClassifier(gamma=0.1)).fit(X, y)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_every_classifier_comes_back_to_the_last_bit(path, name, n_classes):
    X, y = rows(n_classes)
    model = make_pipeline(StandardScaler(), CLASSIFIERS[name]).fit(X, y)
    save(model, path)
    again = load(path).model
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert np.array_equal(again.predict(X), model.predict(X))
    before, after = vars(model[-1]), vars(again[-1])
    assert set(before) == set(after)
    assert all(type(before[key]) is type(after[key]) for key in before)
    if hasattr(model[-1], "predict_set"):
        Z = model[:-1].transform(X[:5])
        assert np.array_equal(again[-1].predict_set(Z), model[-1].predict_set(Z))


def test_states_and_records_come_back(path):
    X, y = rows(2)
    committee = FisherCommitteeClassifier(n_widths=2).fit(X, y)
    save(committee, path)
    again = load(path).model
    assert again.status_ is committee.status_
    assert list(again.dual_coef_) == list(committee.dual_coef_)
    assert np.array_equal(again.members_, committee.members_)


def test_a_model_fitted_in_blocks_of_rows(path):
    X, y = load_breast_cancer(return_X_y=True)
    X = np.tile(X, (10, 1)) + np.random.RandomState(0).normal(size=(10 * len(X), 1))
    model = KernelFisherClassifier(
        gamma=1e-6, basis="random", n_components=20, max_memory=2_000_000, random_state=0
    ).fit(X, np.tile(y, 10))
    assert model.selection_.reason
    save(model, path)
    again = load(path).model
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert set(vars(again)) == set(vars(model))


def test_regressions_too(path):
    X, _ = rows(2)
    model = KernelRidgeCV().fit(X, X[:, 0])
    save(model, path)
    assert np.array_equal(load(path).model.predict(X), model.predict(X))


def test_saving_leaves_the_model_as_it_was(path, model):
    state = dict(vars(model[-1]))
    save(model, path)
    assert all(vars(model[-1])[key] is value for key, value in state.items())


def test_metadata_can_be_read_without_opening_the_model(path, model, monkeypatch):
    save(model, path, metadata={"target": "kind"}, extra={"numbers": np.arange(3)})
    found = load(path)
    assert found.extra["numbers"].tolist() == [0, 1, 2]
    monkeypatch.setattr(skops.io, "loads", None)
    about = read_metadata(path)
    assert about["target"] == "kind" and set(about["versions"]) == set(files.LIBRARIES)


def test_a_model_with_code_in_it_is_not_saved(path):
    X, y = rows(2)

    def kernel(a, b):
        return float(a @ b)

    model = KernelFisherClassifier(kernel, regularization=1.0).fit(X, y)
    with pytest.raises(ModelFileError, match="by name"):
        save(model, path)
    assert not path.exists()


class Malicious:
    """Leaves a trace when it is unpickled or its state is set."""

    def __init__(self, trace):
        self.trace = str(trace)

    def __reduce__(self):
        return open, (self.trace, "w")

    def __setstate__(self, state):
        open(state["trace"], "w").close()


@pytest.fixture
def trace(tmp_path):
    return tmp_path / "it ran"


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_a_pickle_is_refused_and_runs_nothing(path, trace, protocol):
    path.write_bytes(pickle.dumps(Malicious(trace), protocol=protocol))
    with pytest.raises(ModelFileError, match=r"model file|pickle"):
        load(path)
    assert not trace.exists()
    pickle.loads(path.read_bytes()).close()
    assert trace.exists(), "the trap itself must work"


def with_metadata(archive, about):
    file = io.BytesIO(archive)
    with zipfile.ZipFile(file, "a") as members:
        members.writestr(METADATA, json.dumps(about))
    return file.getvalue()


def test_a_planted_object_in_a_valid_archive_is_refused_and_runs_nothing(path, trace, model):
    save(model, path)
    about = read_metadata(path)
    bad = StandardScaler()
    bad.payload_ = Malicious(trace)
    archive = skops.io.dumps({"model": make_pipeline(bad), "extra": {}})
    path.write_bytes(with_metadata(archive, about))
    with pytest.raises(ModelFileError, match=r"asks for .*Malicious.*nothing was run"):
        load(path)
    assert not trace.exists()
    skops.io.loads(archive, trusted=skops.io.get_untrusted_types(data=archive))
    assert trace.exists(), "the trap itself must work"


def edited(path, change):
    """The file with its schema changed by hand."""
    file = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(file, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "schema.json":
                schema = json.loads(content)
                change(schema)
                content = json.dumps(schema).encode()
            new.writestr(name, content)
    path.write_bytes(file.getvalue())


@pytest.mark.parametrize(
    "node",
    [
        {"__class__": "function", "__module__": "builtins", "__loader__": "FunctionNode",
         "content": {"module_path": "os", "function": "system"}},
        {"__class__": "system", "__module__": "posix", "__loader__": "TypeNode",
         "content": "system"},
        {"__class__": "Popen", "__module__": "subprocess", "__loader__": "ObjectNode",
         "content": None},
        {"__class__": "partial", "__module__": "functools", "__loader__": "PartialNode",
         "content": {}},
        {"__class__": "Nonsense", "__module__": "fisherkit.cli.commands",
         "__loader__": "ObjectNode", "content": None},
        {"__class__": "x", "__module__": "y", "__loader__": "NoSuchNode", "content": None},
    ],
    ids=["function", "type", "object", "partial", "ours unnamed", "unknown loader"],
)  # fmt: skip
@pytest.mark.parametrize("protocol", [0, 1, 2])
def test_hand_made_nodes_are_refused(path, model, node, protocol):
    save(model, path)

    def plant(schema):
        schema["protocol"] = protocol
        schema["content"]["extra"] = {**node, "__id__": 123456789}

    edited(path, plant)
    with pytest.raises(ModelFileError):
        load(path)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused(path, model, share):
    save(model, path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ModelFileError, match="model file"):
        load(path)


def test_a_damaged_file_is_refused(path, model):
    save(model, path)
    content = bytearray(path.read_bytes())
    for position in range(200, 260):
        content[position] ^= 0xFF
    path.write_bytes(bytes(content))
    with pytest.raises(ModelFileError, match=r"damaged|model file"):
        load(path)


def test_other_archives_and_files_are_refused(path, model, tmp_path):
    with pytest.raises(ModelFileError, match="does not exist"):
        load(tmp_path / "none")
    with pytest.raises(ModelFileError, match="is a folder, not a model file"):
        load(tmp_path)
    path.write_bytes(skops.io.dumps(model[0]))
    with pytest.raises(ModelFileError, match=METADATA):
        load(path)
    path.write_text("age,label\n1,2\n")
    with pytest.raises(ModelFileError, match="not a model file"):
        load(path)


def written_with(path, model, **versions):
    save(model, path, metadata={"versions": {**current(), **versions}})


def current():
    return {name: files.version(name) for name in files.LIBRARIES}


def test_the_file_of_another_version_is_refused_and_both_are_named(path, model):
    written_with(path, model, fisherkit="0.99.1")
    with pytest.raises(ModelFileError, match=r"by fisherkit 0\.99\.1, and this is fisherkit 0"):
        load(path)
    assert read_metadata(path)["versions"]["fisherkit"] == "0.99.1"


def test_other_versions_of_libraries_are_named(path, model):
    written_with(path, model, **{"scikit-learn": "1.0.2"})
    with pytest.warns(VersionWarning, match=r"scikit-learn 1\.0\.2 \(here "):
        load(path)


@pytest.mark.parametrize("number", [1, 99])
def test_another_format_is_refused_with_advice(path, model, number):
    save(model, path, metadata={"format": number})
    for read in (load, read_metadata):
        with pytest.raises(ModelFileError, match=rf"format {number}.*Train .* again, or install"):
            read(path)


def test_no_module_of_ours_is_named_in_a_file(path, model):
    save(model, path)
    with zipfile.ZipFile(path) as archive:
        schema = archive.read("schema.json").decode()
    assert '"fisherkit"' in schema and "fisherkit." not in schema


@pytest.mark.parametrize("name", ["os.system", "KernelFisher", 7, None])
def test_an_unknown_name_is_refused_before_anything_is_built(path, model, name, monkeypatch):
    save(model, path)

    def plant(schema):
        text = {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode"}
        text |= {"content": json.dumps(name), "is_json": True, "__id__": 123456789}
        schema["content"]["extra"]["content"]["fisherkit"] = text

    edited(path, plant)
    monkeypatch.setattr(skops.io, "loads", None)
    with pytest.raises(ModelFileError, match=r"does not know; nothing was built"):
        load(path)


def test_a_name_behind_a_reference_builds_nothing(path, model):
    """The node of the name is sound, but stands for another one of the same identity."""
    save(model, path, extra={"a": "Nonsense", "b": {"c": 1, "d": 2}})

    def plant(schema):
        words = schema["content"]["extra"]["content"]
        name = {**words["a"], "content": '"kernel"'}
        words["b"]["content"] = {"fisherkit": name, "state": words["b"]["content"]["c"]}

    edited(path, plant)
    with pytest.raises(ModelFileError, match="damaged"):
        load(path)


def test_a_state_that_does_not_fit_its_name_is_refused(path, model):
    save(model, path)

    def rename(schema):
        for node in named(schema):
            node["content"] = node["content"].replace('"kernel"', '"slope"')

    edited(path, rename)
    with pytest.raises(ModelFileError, match=r"damaged.*unexpected keyword"):
        load(path)


def named(schema):
    """The nodes of the names of our types."""
    found, rest = [], [schema]
    while rest:
        value = rest.pop()
        if isinstance(value, dict):
            found += [value["fisherkit"]] if "fisherkit" in value else []
        if isinstance(value, (dict, list)):
            rest += value.values() if isinstance(value, dict) else value
    return found


def test_a_type_without_a_name_is_not_saved(path, model):
    model[-1].own_ = Unnamed()
    with pytest.raises(ModelFileError, match="Unnamed"):
        save(model, path)
    model[-1].own_ = Meter("fit", 3)
    with pytest.raises(ModelFileError, match=r"Meter, which is not registered"):
        save(model, path)
    assert not path.exists()


class Unnamed:
    """A type of somebody else."""


@stored("test: named")
@dataclass(frozen=True)
class Named:
    """A type that an extension registers."""

    values: np.ndarray
    by: dict


def test_a_type_registered_from_outside_comes_back(path, model):
    by = {("a", 1): Named(np.zeros(0), {}), "fisherkit": "a word of its own"}
    save(model, path, extra={"named": Named(np.arange(3), by)})
    again = load(path).extra["named"]
    assert type(again) is Named and again.values.tolist() == [0, 1, 2]
    assert type(again.by["a", 1]) is Named and again.by["fisherkit"] == "a word of its own"


def test_two_types_do_not_share_a_name():
    with pytest.raises(ValueError, match="is the name of"):
        stored("test: named")(Unnamed)
