"""Sets from their public sources: a small MATLAB file on a local server, OpenML from its cache."""

import gzip
import hashlib
import json
import os
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from threading import Thread
from urllib.error import URLError

import numpy as np
import pytest
from scipy.io import savemat

from fisherkit.datasets import fetch, load_ida, load_uci

LOADERS = [(load_ida, "titanic"), (load_uci, "liver")]
FOLDER = Path(os.environ.get("FISHERKIT_DATA", ""))
needs_files = pytest.mark.skipif(
    not os.environ.get("FISHERKIT_DATA"),
    reason="FISHERKIT_DATA is not set: the benchmark sets are not available",
)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache, and no folder of files."""
    monkeypatch.delenv("FISHERKIT_DATA", raising=False)
    monkeypatch.setenv("FISHERKIT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Handler(SimpleHTTPRequestHandler):
    """Serves a folder and counts the answers."""

    def log_message(self, format, *args):
        self.server.answers += 1


@pytest.fixture
def server(tmp_path):
    folder = tmp_path / "server"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as server:
        server.answers = 0
        server.folder = folder
        thread = Thread(target=server.serve_forever, args=[0.01])  # seconds to a shutdown
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def publish(server, monkeypatch):
    """Serve a benchmarks.mat with the sets given, as the original is laid out."""
    pytest.importorskip("pooch", reason="downloads need pooch")

    def publish(**sets):
        path = server.folder / "benchmarks.mat"
        savemat(path, sets, do_compression=True)
        monkeypatch.setattr(
            fetch, "ARCHIVE_URL", f"http://127.0.0.1:{server.server_port}/{path.name}"
        )
        monkeypatch.setattr(fetch, "ARCHIVE_SHA256", hashlib.sha256(path.read_bytes()).hexdigest())

    return publish


def accept(monkeypatch, key, X, y):
    """Let these rows be those of the benchmark."""
    monkeypatch.setitem(fetch.FINGERPRINTS, key, fetch.fingerprint(X, y))


def patterns(X, y, train_idx, test_idx):
    """The struct of the original: each pattern once, splits as indices from 1."""
    unique, row = np.unique(np.column_stack([X, y]), axis=0, return_inverse=True)
    return {
        "x": unique[:, :-1],
        "t": 2.0 * unique[:, -1:] - 1,
        "train": (row[train_idx] + 1).astype(np.uint16),
        "test": (row[test_idx] + 1).astype(np.uint16),
    }


@pytest.fixture
def small():
    """160 rows in 12 patterns, three splits: the arrays of a small 'titanic'."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(160, 2)) + 0.25
    y = (X[:, 0] + rng.integers(0, 2, 160) > 2).astype(np.int64)
    order = np.array([rng.permutation(160) for _ in range(3)])
    return X, y, order[:, :150], order[:, 150:]


def sorted_rows(X, y):
    table = np.column_stack([X, y])
    return table[np.lexsort(table.T)]


def assert_same_splits(bunch, X, y, train_idx, test_idx):
    """Each part of each split holds the rows it should, in their order."""
    for ours, theirs in [(bunch.train_idx, train_idx), (bunch.test_idx, test_idx)]:
        assert ours.shape == theirs.shape
        np.testing.assert_array_equal(bunch.data[ours], X[theirs])
        np.testing.assert_array_equal(bunch.target[ours], y[theirs])
    for split in np.hstack([bunch.train_idx, bunch.test_idx]):
        np.testing.assert_array_equal(np.sort(split), np.arange(len(y)))


def test_patterns_are_repeated_as_the_splits_repeat_them(publish, small, monkeypatch):
    X, y, train_idx, test_idx = small
    publish(titanic=patterns(X, y, train_idx, test_idx), banana={"x": np.eye(2)})
    accept(monkeypatch, "ida_titanic", X, y)
    bunch = load_ida("titanic")
    assert bunch.data.dtype == np.float64 and bunch.target.dtype == np.int64
    np.testing.assert_array_equal(sorted_rows(bunch.data, bunch.target), sorted_rows(X, y))
    assert_same_splits(bunch, X, y, train_idx, test_idx)
    assert "3 of the original" in bunch.DESCR


def test_rows_without_copies_keep_the_order_of_the_file(publish, monkeypatch):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(200, 3)), rng.integers(0, 2, 200)
    order = np.array([rng.permutation(200) for _ in range(2)]) + 1
    splits = {"train": order[:, :170], "test": order[:, 170:]}
    publish(heart={"x": X, "t": 2.0 * y[:, None] - 1, **splits})
    accept(monkeypatch, "ida_heart", X, y)
    bunch = load_ida("heart")
    np.testing.assert_array_equal(bunch.data, X)
    np.testing.assert_array_equal(bunch.target, y)
    np.testing.assert_array_equal(bunch.train_idx, splits["train"] - 1)
    np.testing.assert_array_equal(bunch.test_idx, splits["test"] - 1)


def test_a_realisation_that_repeats_a_row_is_left_out(publish, small, monkeypatch):
    X, y, train_idx, test_idx = small
    struct = patterns(X, y, train_idx, test_idx)
    struct["test"][1] = struct["test"][1, 0]
    publish(titanic=struct)
    accept(monkeypatch, "ida_titanic", X, y)
    with pytest.warns(UserWarning, match="1 of the 3 realisations of titanic"):
        bunch = load_ida("titanic")
    assert_same_splits(bunch, X, y, train_idx[[0, 2]], test_idx[[0, 2]])


def test_the_file_is_downloaded_once(publish, server, small, monkeypatch, cache):
    publish(titanic=patterns(*small))
    accept(monkeypatch, "ida_titanic", *small[:2])
    load_ida("titanic")
    load_ida("titanic")
    assert server.answers == 1
    assert (cache / "benchmarks.mat").is_file()


def test_a_file_put_there_by_hand_is_used(publish, server, small, monkeypatch, cache):
    publish(titanic=patterns(*small))
    accept(monkeypatch, "ida_titanic", *small[:2])
    cache.mkdir()
    (server.folder / "benchmarks.mat").rename(cache / "benchmarks.mat")
    assert load_ida("titanic").data.shape == (160, 2)
    assert server.answers == 0


def test_a_folder_without_the_file_falls_back_to_the_source(publish, small, monkeypatch, tmp_path):
    publish(titanic=patterns(*small))
    accept(monkeypatch, "ida_titanic", *small[:2])
    monkeypatch.setenv("FISHERKIT_DATA", str(tmp_path))
    assert load_ida("titanic").data.shape == (160, 2)
    np.savez(tmp_path / "ida_titanic.npz", X=np.eye(151), y=np.arange(151) % 2)
    assert load_ida("titanic").data.shape == (151, 151)


def test_a_download_that_fails_its_checksum_is_refused(publish, small, monkeypatch, cache):
    publish(titanic=patterns(*small))
    monkeypatch.setattr(fetch, "ARCHIVE_SHA256", "0" * 64)
    with pytest.raises(FileNotFoundError, match="does not match the known hash"):
        load_ida("titanic")
    assert not (cache / "benchmarks.mat").exists()


def test_other_rows_than_the_benchmark_are_refused(publish, small):
    publish(titanic=patterns(*small))
    with pytest.raises(ValueError, match="160 rows of 2 features for ida_titanic, which are not"):
        load_ida("titanic")


def test_an_unreachable_archive_says_what_was_tried_and_what_to_do(cache):
    pytest.importorskip("pooch", reason="downloads need pooch")
    with pytest.raises(FileNotFoundError) as caught:
        load_ida("titanic")
    message = str(caught.value)
    assert "IDA set titanic not found" in message
    assert "FISHERKIT_DATA, which is not set" in message
    assert f"{fetch.ARCHIVE_URL} could not be fetched" in message
    assert f"By hand: put that file, with SHA-256 {fetch.ARCHIVE_SHA256}" in message
    assert str(cache) in message and "a file ida_titanic.npz" in message


def test_an_unreachable_openml_says_what_was_tried_and_what_to_do(cache, monkeypatch, tmp_path):
    def unreachable(**kwargs):
        raise URLError("no route to host")

    monkeypatch.setattr(fetch, "fetch_openml", unreachable)
    monkeypatch.setenv("FISHERKIT_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError) as caught:
        load_uci("liver")
    message = str(caught.value)
    assert f"FISHERKIT_DATA={str(tmp_path)!r} holds no file uci_liver.npz" in message
    assert "https://www.openml.org/d/8 could not be fetched" in message
    assert "no route to host" in message
    assert f"copy its cache to the folder {cache}" in message


@pytest.mark.parametrize(("load", "name"), LOADERS)
def test_without_pooch_the_extra_is_named(load, name, monkeypatch):
    monkeypatch.delenv("FISHERKIT_CACHE")
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(FileNotFoundError, match=r"pip install 'fisherkit\[data\]'"):
        load(name)


def test_the_cache_is_the_users_by_default(monkeypatch):
    pooch = pytest.importorskip("pooch", reason="the default folder is pooch's")
    monkeypatch.delenv("FISHERKIT_CACHE")
    assert fetch.cache_folder() == pooch.os_cache("fisherkit")


def test_the_fingerprint_sees_the_rows_and_not_their_order():
    rng = np.random.default_rng(0)
    X, y = np.round(rng.normal(size=(50, 3)), 7), rng.integers(0, 2, 50)
    X[0] = [0.0, 1.2345675, -2.5]  # a tie at six digits behind the first
    key = fetch.fingerprint(X, y)
    order = rng.permutation(50)
    assert fetch.fingerprint(X[order], y[order]) == key
    assert fetch.fingerprint(np.nextafter(X, X - 1) * (X != 0), y) == key
    assert fetch.fingerprint(np.where(X == 0, -0.0, X), y) == key
    assert fetch.fingerprint(X, 1 - y) != key
    assert fetch.fingerprint(X + 1e-4 * np.eye(50, 3), y) != key
    assert fetch.fingerprint(X[order], y) != key


@needs_files
@pytest.mark.parametrize("key", fetch.FINGERPRINTS)
def test_the_fingerprint_is_that_of_the_file(key):
    arrays = np.load(FOLDER / f"{key}.npz")
    assert fetch.fingerprint(arrays["X"], arrays["y"]) == fetch.FINGERPRINTS[key]


@needs_files
@pytest.mark.parametrize("name", ["titanic", "breast_cancer", "ringnorm"])
def test_a_set_survives_the_layout_of_the_original(name, publish):
    arrays = np.load(FOLDER / f"ida_{name}.npz")
    X, y, train_idx, test_idx = (arrays[key] for key in ("X", "y", "train_idx", "test_idx"))
    publish(**{name: patterns(X, y, train_idx, test_idx)})
    assert_same_splits(load_ida(name), X, y, train_idx, test_idx)


def seed_openml(cache, data_id, description, features, qualities, arff, url):
    """Fill scikit-learn's cache, of bytes, as if the set had been downloaded."""
    api, download = "api/v1/json/data", f"data/v1/download/{data_id}"
    for place, content in {
        f"{api}/{data_id}": description,
        f"{api}/features/{data_id}": features,
        f"{api}/qualities/{data_id}": qualities,
        url: arff,
        download: arff,  # where older versions of scikit-learn keep it
    }.items():
        file = cache / "openml" / "openml.org" / f"{place}.gz"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def seed_table(cache, data_id, arff, features):
    """Fill scikit-learn's cache with a table made here."""
    url = f"data/v1/download/{data_id}/set.arff"
    description = {
        "id": str(data_id),
        "file_id": str(data_id),
        "name": "set",
        "version": "1",
        "format": "ARFF",
        "status": "active",
        "description": "",
        "url": f"https://www.openml.org/{url}",
        "md5_checksum": hashlib.md5(arff.encode()).hexdigest(),
    }
    count = {"name": "NumberOfInstances", "value": str(len(arff.split("@data\n")[1].splitlines()))}
    contents = [
        json.dumps({"data_set_description": description}),
        json.dumps({"data_features": {"feature": features}}),
        json.dumps({"data_qualities": {"quality": [count]}}),
        arff,
    ]
    seed_openml(cache, data_id, *(gzip.compress(text.encode()) for text in contents), url)


def feature(index, name, *values, **flags):
    """What OpenML says of a column: nominal if values are given."""
    kind = {"data_type": "nominal", "nominal_value": list(values)} if values else {}
    unset = dict.fromkeys(["is_target", "is_ignore", "is_row_identifier"], "false")
    unset["number_of_missing_values"] = "0"  # read of the target alone
    return {"index": str(index), "name": name, "data_type": "numeric", **kind, **unset, **flags}


def test_categories_are_coded_in_order_and_incomplete_rows_left_out(cache, monkeypatch):
    arff = """@relation credit
@attribute A1 {u, y, l, t}
@attribute A2 real
@attribute A3 {t, f}
@attribute class {+,-}
@data
u,1.5,t,+
l,2.5,f,-
t,?,f,-
?,3.5,t,+
y,4.5,?,+
y,-5.5,t,-
u,0,f,+
"""
    seed_table(
        cache,
        29,
        arff,
        [
            feature(0, "A1", "u", "y", "l", "t"),
            feature(1, "A2"),
            feature(2, "A3", "t", "f"),
            feature(3, "class", "+", "-", is_target="true"),
        ],
    )
    X = np.array([[1, 1.5, 1], [0, 2.5, 0], [2, -5.5, 1], [1, 0, 0]])
    y = np.array([1, 0, 0, 1])
    accept(monkeypatch, "uci_credit", X, y)
    bunch = load_uci("credit")
    np.testing.assert_array_equal(bunch.data, X)
    np.testing.assert_array_equal(bunch.target, y)
    np.testing.assert_array_equal(
        bunch.data_onehot,
        [[1.5, 0, 1, 0, 0, 1], [2.5, 1, 0, 0, 1, 0], [-5.5, 0, 0, 1, 0, 1], [0, 0, 1, 0, 1, 0]],
    )


def liver(cache):
    """A liver set whose default target is the drinks."""
    seed_table(
        cache,
        8,
        "@relation liver\n@attribute mcv integer\n@attribute drinks real\n"
        "@attribute selector {1,2}\n@data\n85,0.5,1\n86,6,2\n87,20,2\n",
        [
            feature(0, "mcv"),
            feature(1, "drinks", is_target="true"),
            feature(2, "selector", "1", "2", is_ignore="true"),
        ],
    )
    return np.array([[85, 0.5], [86, 6], [87, 20]]), np.array([0, 1, 1])


def test_the_class_of_liver_is_the_selector(cache, monkeypatch):
    X, y = liver(cache)
    accept(monkeypatch, "uci_liver", X, y)
    bunch = load_uci("liver")
    np.testing.assert_array_equal(bunch.data, X)
    np.testing.assert_array_equal(bunch.target, y)
    assert "data_onehot" not in bunch


def test_other_rows_than_those_of_the_papers_are_refused(cache):
    liver(cache)
    with pytest.raises(ValueError, match=r"openml.org/d/8 was read as 3 rows of 2 .* uci_liver"):
        load_uci("liver")


# scikit-learn carries OpenML's own files of this set for its tests, with a warning of its own
@pytest.mark.filterwarnings("ignore:OpenML raised a warning")
def test_chess_as_openml_publishes_it(cache):
    source = files("sklearn") / "datasets" / "tests" / "data" / "openml" / "id_3"
    if not source.is_dir():
        pytest.skip("this scikit-learn comes without the files of its tests")
    names = ["api-v1-jd-3.json", "api-v1-jdf-3.json", "api-v1-jdq-3.json", "data-v1-dl-3.arff"]
    contents = [(source / f"{name}.gz").read_bytes() for name in names]
    seed_openml(cache, 3, *contents, "data/v1/download/3/kr-vs-kp.arff")
    bunch = load_uci("chess")
    assert bunch.data.shape == (3196, 36)
    assert bunch.data_onehot.shape == (3196, 37)
    assert bunch.target.sum() == 1669
