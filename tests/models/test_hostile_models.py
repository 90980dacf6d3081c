"""A few of the files of benchmarks/hostile_models.py, and those that once did harm."""

import importlib
import io
import json
import sys
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

from fisherkit import KernelFisherClassifier
from fisherkit.columns import Column
from fisherkit.models import archives
from fisherkit.models.checks import check_model
from fisherkit.models.files import FORMAT, METADATA, ModelFileError, load, read_metadata, save
from fisherkit.training import read_data, train

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
SCHEMA = "schema.json"


@pytest.fixture
def hostile(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module("hostile_models")
    for module in ("hostile_models", "_common"):
        sys.modules.pop(module, None)


def test_each_hostile_file_is_refused_or_predicts_in_little_time_and_memory(hostile, tmp_path):
    *_, total = hostile.run(8 * len(hostile.KINDS), 1, tmp_path)
    assert total["files"] == total["refused"] + total["predicts"]
    assert total["growth_mb"] <= hostile.MOST_MB
    assert total["seconds"] <= 5 * hostile.MOST_SECONDS  # while other tests run
    assert total["refused"] > total["predicts"]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model"


@pytest.fixture
def model():
    X = np.random.default_rng(0).normal(size=(40, 2))
    return make_pipeline(StandardScaler(), KernelFisherClassifier(gamma=0.5)).fit(X, X[:, 0] > 0)


def changed(path, **members):
    """The file with other contents of members."""
    with zipfile.ZipFile(path) as old:
        contents = {name: old.read(name) for name in old.namelist()}
    contents |= {name.replace("__", "."): value for name, value in members.items()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name, content in contents.items():
            new.writestr(name, content)


def member(path, name):
    with zipfile.ZipFile(path) as archive:
        return archive.read(name)


def refused(path, words, read=load):
    with pytest.raises(ModelFileError, match=words) as raised:
        read(path)
    assert str(path) in str(raised.value)


def test_inspecting_reads_only_the_metadata(path, model, monkeypatch):
    save(model, path)
    asked = []
    read = archives.member
    monkeypatch.setattr(
        "fisherkit.models.files.member",
        lambda archive, name: asked.append(name) or read(archive, name),
    )
    read_metadata(path)
    assert asked == [METADATA]


@pytest.mark.parametrize("read", [load, read_metadata])
def test_an_archive_that_would_unfold_is_refused_before_it_is_read(path, model, read):
    save(model, path)
    changed(path, **{"77__npy": bytes(20 * 2**20)})
    refused(path, "claim to unfold into", read)


@pytest.mark.parametrize("read", [load, read_metadata])
@pytest.mark.parametrize(
    "name", ["trace.py", "model.pkl", "../trace", "/trace", "a/1.npy", "0.npy"]
)
def test_a_member_that_no_model_has_is_refused(path, model, name, read):
    save(model, path)
    changed(path, **{name: b"print()"})
    refused(path, "no part of a model", read)


def test_two_members_of_one_name_are_refused(path, model):
    save(model, path)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr(METADATA, "{}")
    refused(path, "same name")


def test_a_header_that_lies_about_a_size_does_not_unfold(hostile, path, model):
    """What zipfile's read() does not guard against: it unfolds all, then cuts."""
    import tracemalloc

    save(model, path)
    zeros = bytes(30 * 2**20)
    about = member(path, METADATA)
    schema = hostile.Entry(SCHEMA, hostile.deflated(zeros), 100, zlib.crc32(zeros))
    path.write_bytes(hostile.packed([hostile.Entry.of(METADATA, about), schema]))
    del zeros
    tracemalloc.start()
    refused(path, "schema.json in it is damaged")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * 2**20


VERSIONS = {"fisherkit": "0.1.0", "scikit-learn": "1.9", "numpy": "2.0", "skops": "0.13"}


@pytest.mark.parametrize(
    "about",
    [
        *([], "x", None, {"format": True}, {"format": FORMAT}, {"format": FORMAT, "versions": []}),
        {"format": FORMAT, "versions": {**VERSIONS, "numpy": 2}},
        {"format": FORMAT, "versions": {"fisherkit": "0.1.0"}},
        {"format": FORMAT, "versions": VERSIONS, "columns": []},
        {"format": FORMAT, "versions": VERSIONS, "summary": {}},
    ],
    ids=str,
)
@pytest.mark.parametrize("read", [load, read_metadata])
def test_metadata_of_other_types_are_refused(path, model, about, read):
    save(model, path)
    changed(path, fisherkit__json=json.dumps(about).encode())
    refused(path, r"entry|format", read)


@pytest.mark.parametrize("text", [b"[" * 10**5, b'{"a":' * 900 + b"1" + b"}" * 900, b"\xff", b""])
def test_metadata_that_cannot_be_read_are_refused(path, model, text):
    save(model, path)
    changed(path, fisherkit__json=text)
    refused(path, "the description in it", read_metadata)


def test_metadata_of_a_training_must_be_whole_to_be_saved(path, model):
    with pytest.raises(ModelFileError, match="'target' is 'None'"):
        save(model, path, metadata={"columns": []})
    assert not path.exists()
    save(model, path, metadata={"target": ["anything"], "made by": {"me": 1}})
    assert read_metadata(path)["made by"] == {"me": 1}


def nested(twice):
    """Forty levels of lists, each of which holds the next one once, or twice by reference."""
    node = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode"}
    inner = {**node, "__id__": 1, "content": []}
    for k in range(1, 41):
        again = [{"__id__": k, **node}] if twice else []
        inner = {**node, "__id__": k + 1, "content": [inner, *again]}
    return inner


def test_branches_that_share_their_twigs_are_refused_at_once(path, model):
    save(model, path)
    tree = json.loads(member(path, SCHEMA))
    tree["content"]["extra"] = nested(twice=True)
    changed(path, schema__json=json.dumps(tree).encode())
    refused(path, "described in two ways")
    tree["content"]["extra"] = nested(twice=False)
    changed(path, schema__json=json.dumps(tree).encode())
    load(path)


def test_one_array_asked_for_a_thousand_times_is_refused(path, model):
    save(model, path)
    tree = json.loads(member(path, SCHEMA))
    (name, *_) = [node["file"] for node in walk(tree) if "file" in node]
    array = {"__class__": "ndarray", "__module__": "numpy", "__loader__": "NdArrayNode"}
    array |= {"type": "numpy", "file": name}
    content = [{**array, "__id__": k + 1} for k in range(1000)]
    tree["content"]["extra"] = {**nested(twice=False), "__id__": 2000, "content": content}
    changed(path, schema__json=json.dumps(tree).encode())
    refused(path, "the array of another one")


def walk(value):
    if isinstance(value, dict):
        yield value
        value = value.values()
    for part in value if not isinstance(value, (str, int, float)) and value else ():
        if isinstance(part, (dict, list)):
            yield from walk(part)


def header(descr, shape, content=b""):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": descr, "fortran_order": False, "shape": shape}
    )
    return file.getvalue() + content


@pytest.mark.parametrize(
    "content",
    [
        *(
            header("<f8", (10**12,)),
            header("|O", (1,), bytes(8)),
            header("<f8", (-1, -1), bytes(8)),
        ),
        *(header("<U0", (10**9,)), header("|V8", (1,), bytes(8)), b"\x80\x05N.", b""),
        header([("a", "|O")], (1,), bytes(8)),
    ],
    ids=["huge", "objects", "negative", "empty words", "void", "pickle", "nothing", "record"],
)
def test_arrays_that_are_not_what_they_claim_are_refused(path, model, content):
    save(model, path)
    tree = json.loads(member(path, SCHEMA))
    name = next(node["file"] for node in walk(tree) if "file" in node)
    changed(path, **{name: content})
    refused(path, "in it (is not an array|claims|holds something)")


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("_expansion.coef", np.full((40, 1), np.nan)),
        ("_expansion.coef", np.zeros((39, 1))),
        ("_expansion.centres", np.full((40, 2), np.inf)),
        ("classes_", np.array(["a"])),
        ("n_features_in_", 10**12),
        ("_expansion.kernel", None),
    ],
)
def test_a_model_that_does_not_answer_finitely_is_refused(path, model, attribute, value, unchecked):
    name, *inner = attribute.split(".")
    old = getattr(model[-1], name)
    setattr(model[-1], name, replace(old, **{inner[0]: value}) if inner else value)
    refused_twice(model, path, "it holds|for .* features|does not answer|are damaged", unchecked)


def test_a_preparation_that_does_not_fit_is_refused(path, model, unchecked):
    model[0].mean_ = np.zeros(40)
    refused_twice(model, path, "does not answer", unchecked)


def test_what_is_no_model_is_refused(path, unchecked):
    scaler = StandardScaler().fit([[1.0], [2.0]])
    refused_twice(scaler, path, "StandardScaler where a model should be", unchecked)


@pytest.fixture
def unchecked(monkeypatch):
    """Lets `save` write whatever it is given."""

    def save_unchecked(model, path):
        with monkeypatch.context() as patch:
            patch.setattr("fisherkit.models.files.check_model", lambda *_: None)
            save(model, path)

    return save_unchecked


def refused_twice(model, path, words, unchecked):
    """When it is saved, as one would rather know it then, and when a file holds it."""
    with pytest.raises(ModelFileError, match=words):
        save(model, path)
    assert not path.exists()
    unchecked(model, path)
    refused(path, words)


def test_compiled_estimators_are_not_saved(path):
    """Their arrays are indexed without a check, so that a file could end the process."""
    X = np.random.default_rng(0).normal(size=(40, 2))
    model = make_pipeline(StandardScaler(), KernelFisherClassifier(gamma=0.5)).fit(X, X[:, 0] > 0)
    model[0].helper_ = SVC().fit(X, X[:, 0] > 0)
    with pytest.raises(ModelFileError, match=r"sklearn\.svm"):
        save(model, path)


def test_functions_of_numpy_are_saved(path):
    X = np.random.default_rng(0).normal(size=(40, 2))
    steps = FunctionTransformer(np.tanh), KernelFisherClassifier(gamma=0.5)
    model = make_pipeline(*steps).fit(X, X[:, 0] > 0)
    save(model, path)
    assert np.array_equal(load(path).model.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("columns", [2, 2000])
def test_a_model_that_compresses_like_a_bomb_is_saved_so_that_it_opens(path, columns):
    """Its numbers are the same over and over: without care it would be taken for hostile."""
    X = np.tile([[0.0], [1.0]], (600, columns))
    model = KernelFisherClassifier(gamma=1 / columns, regularization=1.0).fit(X, X[:, 0])
    save(model, path, extra={"zeros": np.zeros((500, 10 * columns))})
    again = load(path)
    assert np.array_equal(again.model.predict_proba(X), model.predict_proba(X))
    raw = sum(info.file_size for info in zipfile.ZipFile(path).infolist())
    assert (path.stat().st_size > raw / 4) == (columns == 2000)


def test_a_description_of_very_many_columns_is_saved_so_that_it_opens(path, model):
    columns = {f"column {k}": {"a": [k % 7], "b": 1.5, "c": "number"} for k in range(100_000)}
    save(model, path, metadata={"mine": columns})
    assert len(load(path).metadata["mine"]) == 100_000


def test_few_bytes_do_not_become_very_many_words(path, model):
    save(model, path, extra={"words": [f"{k % 97:02d}" for k in range(1000)]})
    assert load(path).extra["words"][-1] == "29"
    tree = json.loads(member(path, SCHEMA))
    name = next(n["file"] for n in walk(tree["content"]["extra"]) if "file" in n)
    file = io.BytesIO()
    np.save(file, np.array([f"{k % 97:02d}" for k in range(600_000)]))
    changed(path, **{name: file.getvalue()})
    refused(path, "claim more words than any model")
    file = io.BytesIO()
    np.save(file, np.zeros(100, np.int8))
    changed(path, **{name: file.getvalue()})
    refused(path, "a list of int8 was never saved")


def test_very_many_words_are_saved_so_that_they_open(path, model):
    words = [f"{k % 97:02d}" for k in range(600_000)]
    save(model, path, extra={"words": words})
    assert load(path).extra["words"] == words


def test_an_encoder_that_fails_at_a_level_it_knows_is_refused(tmp_path):
    rng = np.random.default_rng(0)
    towns = np.array(["Bonn", "Mainz"] * 49 + ["Trier", "Worms"])
    table = pd.DataFrame({"x": rng.normal(size=100), "town": towns, "y": ["a", "b"] * 50})
    table.to_csv(tmp_path / "t.csv", index=False)
    done = train(read_data(tmp_path / "t.csv", "y"), held_out="none")
    about = {"columns": [vars(column) for column in Column.all_of(done.X)]}
    check_model(done.model, about, 10**6)
    features = done.model.features_
    (levels,) = features.texts
    assert levels.rare == ["Trier", "Worms"]
    levels.known.append("Ulm")
    with pytest.raises(ModelFileError, match="does not answer"):
        check_model(done.model, about, 10**6)
