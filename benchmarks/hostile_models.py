"""Damaged and hostile model files: each is refused, or loads and predicts finitely.

    python benchmarks/hostile_models.py [--files 2000] [--seed 0]

Files are made from models of every classifier, from a seed: flipped bits, ends cut off, members of
other files, archives that unfold into gigabytes or lie about it, metadata and trees with other
types, values and shapes, planted code. Each is inspected and opened in this one process, and asked
for predictions if it opens. Time is that of one file, growth that of the resident memory at its
peak. A file that plants code would leave a trace, for which the end looks.
"""

import argparse
import copy
import ctypes
import gc
import io
import json
import lzma
import os
import pickle
import struct
import sys
import tempfile
import time
import warnings
import zlib
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _common import Row, print_table, write_csv
from sklearn.datasets import load_iris, make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

# skops lets libraries ask whether there is one called sparse; the script of that name is none
sys.path[:] = [folder for folder in sys.path if Path(folder).resolve() != Path(__file__).parent]
from fisherkit import (  # noqa: E402
    BayesianFisherClassifier,
    FisherCommitteeClassifier,
    ForwardFisherClassifier,
    KernelFisherClassifier,
    KernelRidgeCV,
    SparseFisherClassifier,
)
from fisherkit.cli import console  # noqa: E402
from fisherkit.models import ModelFileError, files  # noqa: E402
from fisherkit.stored import TYPES  # noqa: E402
from fisherkit.training import fitting, intake, saved  # noqa: E402

MOST_SECONDS, MOST_MB = 2.0, 100.0
STATUS = Path("/proc/self/status")
LIBRARY = ctypes.CDLL(None) if os.name == "posix" else None
METADATA, SCHEMA = "fisherkit.json", "schema.json"
JUNK: list[Any] = [
    *(
        None,
        True,
        -1,
        0,
        1.5,
        10**30,
        -(10**400),
        1e999,
        float("nan"),
        "",
        "x",
        "\ud800",
        "1" * 5000,
    ),
    *([], {}, [None], [[[]]], {"a": []}, [1] * 5000, {"__id__": 1}, "../../etc/passwd"),
]


# --- archives, written by hand so that they may lie -----------------------------------------------


@dataclass
class Entry:
    """A member: what follows its header, and what the header says about it."""

    name: str
    data: bytes
    size: int
    crc: int
    method: int = 8
    flags: int = 0

    @classmethod
    def of(cls, name: str, content: bytes, method: int = 8) -> "Entry":
        data = deflated(content) if method == 8 else content
        return cls(name, data, len(content), zlib.crc32(content), method)


def deflated(content: bytes) -> bytes:
    coder = zlib.compressobj(1, wbits=-15)
    return coder.compress(content) + coder.flush()


def packed(entries: list[Entry]) -> bytes:
    out, listing = io.BytesIO(), io.BytesIO()
    for entry in entries:
        name, start = entry.name.encode(), out.tell()
        sizes = (len(entry.data), entry.size & 0xFFFFFFFF, len(name))
        about = (entry.flags | 0x800, entry.method, 0, 33, entry.crc, *sizes)
        out.write(struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 20, *about, 0) + name + entry.data)
        listing.write(
            struct.pack("<4sHHHHHHIIIHHHHHII", b"PK\1\2", 20, 20, *about, 0, 0, 0, 0, 0, start)
        )
        listing.write(name)
    start, lines = out.tell(), listing.getvalue()
    out.write(lines)
    count = len(entries) & 0xFFFF
    out.write(struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, count, count, len(lines), start, 0))
    return out.getvalue()


Members = dict[str, bytes]


def archive(members: Members) -> bytes:
    return packed([Entry.of(name, content) for name, content in members.items()])


def unpacked(path: Path) -> Members:
    import zipfile

    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


# --- what is damaged ------------------------------------------------------------------------------


@dataclass
class Base:
    """A model file that is in order, and rows to ask it about."""

    content: bytes
    members: Members
    X: Any

    def with_members(self, **changes: bytes) -> Members:
        return self.members | {name.replace("__", "."): value for name, value in changes.items()}


def bases(folder: Path) -> list[Base]:
    X, y = make_moons(60, noise=0.2, random_state=0)
    iris, kinds = load_iris(return_X_y=True)
    models = [
        KernelFisherClassifier(),
        KernelFisherClassifier("polynomial", penalty="coefficients"),
        FisherCommitteeClassifier(n_widths=3),
        SparseFisherClassifier(gamma=1.0),
        ForwardFisherClassifier(gamma=1.0),
        BayesianFisherClassifier(n_restarts=1, random_state=0),
    ]
    fitted = [(make_pipeline(StandardScaler(), model).fit(X, y), X) for model in models]
    few = iris[::3], kinds[::3]
    fitted += [(KernelFisherClassifier(gamma=0.3).fit(*few), few[0])]
    fitted += [(KernelRidgeCV().fit(X, y), X)]
    found = []
    for number, (model, rows) in enumerate(fitted):
        files.save(model, folder / f"{number}")
        found.append((folder / f"{number}", rows))
    table = pd.DataFrame(X, columns=["a", "b"])
    table["town"] = np.where(np.arange(len(X)) % 3 == 0, "Ulm", "Bath")
    table["kind"] = np.where(y > 0, "up", "down")
    table.to_csv(folder / "table.csv", index=False)
    for method in ("fisher", "committee"):
        done = fitting.train(intake.read_data(folder / "table.csv", "kind"), method)
        saved.save(done, folder / method, console.describe(done))
        found.append((folder / method, done.X))
    return [Base(path.read_bytes(), unpacked(path), rows) for path, rows in found]


Rng = np.random.Generator
Maker = Callable[["Base", "Base", Rng], bytes]
KINDS: dict[str, Maker] = {}


def kind(make: Maker) -> Maker:
    KINDS[make.__name__.replace("_", " ")] = make
    return make


@kind
def flipped_bits(base: Base, other: Base, rng: Rng) -> bytes:
    content = bytearray(base.content)
    for place in rng.integers(0, len(content), rng.choice([1, 2, 10, 100])):
        content[place] ^= 1 << rng.integers(8)
    return bytes(content)


@kind
def cut_off(base: Base, other: Base, rng: Rng) -> bytes:
    return base.content[: rng.integers(len(base.content))]


@kind
def overwritten_or_shifted(base: Base, other: Base, rng: Rng) -> bytes:
    a, b = np.sort(rng.integers(0, len(base.content), 2))
    middle = [b"", bytes(int(b - a)), rng.bytes(100), other.content[a:b]][rng.integers(4)]
    return base.content[:a] + middle + base.content[b:]


@kind
def members_of_another_model(base: Base, other: Base, rng: Rng) -> bytes:
    members = dict(base.members)
    how = rng.integers(3)
    if how == 0:
        members[SCHEMA] = other.members[SCHEMA]
    elif how == 1:
        members = other.members | {METADATA: base.members[METADATA]}
    else:
        ours, theirs = arrays(base), arrays(other)
        for name in rng.permutation(ours)[: rng.integers(1, 4)]:
            members[name] = other.members[rng.choice(theirs)]
    return archive(members)


@kind
def arrays_of_each_other(base: Base, other: Base, rng: Rng) -> bytes:
    members = dict(base.members)
    a, b = rng.choice(arrays(base), 2, replace=False)
    members[a], members[b] = members[b], members[a]
    return archive(members)


def zeros(count: int) -> tuple[bytes, int]:
    """So many megabytes of zeros, deflated, and their checksum."""
    if count not in _ZEROS:
        coder, crc, piece, block = zlib.compressobj(9, wbits=-15), 0, [], bytes(2**20)
        for _ in range(count):
            piece.append(coder.compress(block))
            crc = zlib.crc32(block, crc)
        _ZEROS[count] = b"".join([*piece, coder.flush()]), crc
    return _ZEROS[count]


_ZEROS: dict[int, tuple[bytes, int]] = {}


@kind
def bombs(base: Base, other: Base, rng: Rng) -> bytes:
    count = int(rng.choice([30, 300, 600]))
    data, crc = zeros(count)
    name = rng.choice([METADATA, SCHEMA, "77.npy", arrays(base)[0]])
    rest = [Entry.of(n, c) for n, c in base.members.items() if n != name]
    return packed([*rest, Entry(str(name), data, count * 2**20, crc)])


@kind
def bombs_that_claim_to_be_small(base: Base, other: Base, rng: Rng) -> bytes:
    data, crc = zeros(int(rng.choice([30, 300, 600])))
    claim = int(rng.choice([0, 1, 100, 100_000]))
    crc = int(rng.choice([crc, zlib.crc32(bytes(claim))]))
    name = rng.choice([METADATA, SCHEMA, "77.npy", arrays(base)[0]])
    rest = [Entry.of(n, c) for n, c in base.members.items() if n != name]
    return packed([*rest, Entry(str(name), data, claim, crc)])


@kind
def lying_headers(base: Base, other: Base, rng: Rng) -> bytes:
    entries = [Entry.of(name, content) for name, content in base.members.items()]
    entry = entries[rng.integers(len(entries))]
    lie = rng.integers(6)
    if lie == 0:
        entry.size = int(rng.choice([0, entry.size - 1, entry.size + 1, 2**32 - 2]))
    elif lie == 1:
        entry.crc ^= 1
    elif lie == 2:
        entry.method = int(rng.choice([0, 9, 12, 14, 93, 99]))
    elif lie == 3:
        entry.flags = int(rng.choice([1, 0x20, 0x40, 0x2000]))
    elif lie == 4:
        entry.data = lzma.compress(base.members[entry.name], format=lzma.FORMAT_ALONE)
        entry.method = 14
    content = bytearray(packed(entries))
    if lie == 5:  # the record of the end
        place = content.rindex(b"PK\5\6") + int(rng.choice([4, 8, 10, 12, 16, 20]))
        content[place : place + 2] = rng.bytes(2)
    return bytes(content)


@kind
def other_members(base: Base, other: Base, rng: Rng) -> bytes:
    names = [
        "../../../tmp/trace",
        "/etc/cron.d/trace",
        "model.pkl",
        "trace.py",
        "C:\\trace",
        "a/b.npy",
    ]
    name = rng.choice([*names, METADATA, SCHEMA, arrays(base)[0], "0.npy", "x" * 60000])
    entries = [Entry.of(n, c) for n, c in base.members.items()]
    return packed([*entries, Entry.of(str(name), rng.bytes(100))])


@kind
def too_many_members(base: Base, other: Base, rng: Rng) -> bytes:
    entries = [Entry.of(n, c) for n, c in base.members.items()]
    empty = [Entry(f"{k + 1}.npy", b"", 0, 0, 0) for k in range(int(rng.choice([3000, 30000])))]
    return packed(entries + empty)


@kind
def metadata_of_other_types(base: Base, other: Base, rng: Rng) -> bytes:
    about = json.loads(base.members[METADATA])
    for _ in range(rng.integers(1, 4)):
        change(about, rng)
    return archive(base.with_members(fisherkit__json=json.dumps(about).encode()))


@kind
def metadata_out_of_bounds(base: Base, other: Base, rng: Rng) -> bytes:
    texts = [
        *(b"", b"[]", b"null", b"{", b"[" * 100_000, b'{"a":' * 100_000, b"\xff\xfe"),
        *(b"[" + b"[]," * 700_000 + b"[]]", b"[" + b'{"a":1},' * 200_000 + b"1]"),
        *(b'{"format":' + b"9" * 5000 + b"}", b'{"format":2}', b'{"format":true,"versions":{}}'),
        *(b'{"format":2,"versions":[]}', b'{"format":2,"versions":{"fisherkit":[1]}}'),
    ]
    return archive(base.with_members(fisherkit__json=texts[rng.integers(len(texts))]))


@kind
def trees_out_of_bounds(base: Base, other: Base, rng: Rng) -> bytes:
    tree = json.loads(base.members[SCHEMA])
    how = rng.integers(7)
    node = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode"}
    if how == 0:  # nested
        inner: Any = {**node, "__id__": 1, "content": []}
        for k in range(int(rng.choice([50, 150, 300]))):
            inner = {**node, "__id__": k + 2, "content": [inner]}
        tree["content"]["extra"] = inner
    elif how == 1:  # every level twice, by reference: 2^40 leaves
        inner = {**node, "__id__": 1, "content": []}
        for k in range(40):
            inner = {**node, "__id__": k + 2, "content": [inner, {**node, "__id__": k + 1}]}
        tree["content"]["extra"] = inner
    elif how == 2:  # in a circle
        tree["content"]["extra"] = {**node, "__id__": 1, "content": [{**node, "__id__": 1}]}
    elif how == 3:  # the same array, a thousand times
        name = rng.choice(arrays(base))
        array = {"__class__": "ndarray", "__module__": "numpy", "__loader__": "NdArrayNode"}
        array |= {"type": "numpy", "file": str(name)}
        many = [{**array, "__id__": k + 1} for k in range(1000)]
        tree["content"]["extra"] = {**node, "__id__": 10**6, "content": many}
    elif how == 4:  # a hundred thousand objects
        kind = {
            "__class__": "StandardScaler",
            "__module__": "sklearn.preprocessing._data",
            "__loader__": "ObjectNode",
        }
        many = [{**kind, "__id__": k + 1} for k in range(100_000)]
        tree["content"]["extra"] = {**node, "__id__": 10**6, "content": many}
    elif how == 5:
        tree["protocol"] = JUNK[rng.integers(len(JUNK))]
    else:
        tree = JUNK[rng.integers(len(JUNK))]
    return archive(base.with_members(schema__json=json.dumps(tree).encode()))


@kind
def up_to_the_limits(base: Base, other: Base, rng: Rng) -> bytes:
    """Megabytes that nothing compresses pay for as much memory as a file is ever given."""
    tree = json.loads(base.members[SCHEMA])
    members = base.members | {"1.npy": npy(np.frombuffer(rng.bytes(2**21), np.int8))}
    node = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode"}
    array = {"__class__": "ndarray", "__module__": "numpy", "__loader__": "NdArrayNode"}
    array |= {"type": "numpy", "file": "2.npy", "__id__": 2}
    how = rng.integers(4)
    if how == 0:
        members["2.npy"] = npy(np.zeros(11 * 2**17))
        tree["content"]["extra"] = array
    elif how == 1:  # a list of words, each of which becomes an object
        members["2.npy"] = npy(np.array([f"{k % 97:02d}" for k in range(760_000)]))
        texts = {"__class__": "str", "__module__": "builtins", "__loader__": "TypeNode"}
        name = {**texts, "__loader__": "JsonNode", "content": '"list"', "__id__": 5}
        keys = {**node, "__id__": 3, "content": [{**texts, "__id__": 4}, {**texts, "__id__": 4}]}
        state = {"__class__": "dict", "__module__": "builtins", "__loader__": "DictNode"}
        state |= {"key_types": keys, "content": {"fisherkit": name, "state": array}, "__id__": 6}
        tree["content"]["extra"] = state
    elif how == 2:
        plain = {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode"}
        plain["content"] = "1.5"
        some = [{**plain, "__id__": k + 10} for k in range(48_000)]
        tree["content"]["extra"] = {**node, "__id__": 9, "content": some}
    else:
        about = json.loads(members[METADATA]) | {"mine": [[k, {}] for k in range(95_000)]}
        members[METADATA] = json.dumps(about).encode()
    members[SCHEMA] = json.dumps(tree).encode()
    return archive(members)


@kind
def values_of_the_tree(base: Base, other: Base, rng: Rng) -> bytes:
    """A scalar of the model is another one."""
    tree = json.loads(base.members[SCHEMA])
    plain = [node for node in nodes(tree) if node["__loader__"] == "JsonNode"]
    for _ in range(rng.integers(1, 4)):
        node = plain[rng.integers(len(plain))]
        node["content"] = json.dumps(JUNK[rng.integers(len(JUNK))])
    return archive(base.with_members(schema__json=json.dumps(tree).encode()))


@kind
def parts_of_the_tree(base: Base, other: Base, rng: Rng) -> bytes:
    """An attribute is missing, another one's, or anything."""
    tree = json.loads(base.members[SCHEMA])
    for _ in range(rng.integers(1, 4)):
        holders = [n for n in nodes(tree) if n["__loader__"] == "DictNode" and n["content"]]
        content = holders[rng.integers(len(holders))]["content"]
        key = str(rng.choice(list(content)))
        how = rng.integers(3)
        if how == 0:
            del content[key]
        elif how == 1:
            content[key] = copy.deepcopy(content[str(rng.choice(list(content)))])
        else:
            some = [n for n in nodes(json.loads(other.members[SCHEMA])) if "file" not in n]
            content[key] = some[rng.integers(len(some))]
    return archive(base.with_members(schema__json=json.dumps(tree).encode()))


@kind
def names_of_the_tree(base: Base, other: Base, rng: Rng) -> bytes:
    """Objects of ours are other ones, or none that anybody knows."""
    tree = json.loads(base.members[SCHEMA])
    names = [n["content"]["fisherkit"] for n in nodes(tree) if "fisherkit" in n.get("content", ())]
    words = [*TYPES, "pairs", "list", "objects", "os.system", "builtins.eval", "__main__", ""]
    for _ in range(rng.integers(1, 4)):
        name = names[rng.integers(len(names))]
        name["content"] = json.dumps(str(rng.choice(words)))
    return archive(base.with_members(schema__json=json.dumps(tree).encode()))


@kind
def types_of_the_tree(base: Base, other: Base, rng: Rng) -> bytes:
    tree = json.loads(base.members[SCHEMA])
    types = [
        *(("os", "system"), ("posix", "system"), ("builtins", "eval"), ("builtins", "exec")),
        *(("subprocess", "Popen"), ("functools", "partial"), ("operator", "methodcaller")),
        *(
            ("fisherkit.cli.commands", "app"),
            ("fisherkit.core.kernels", "Kernel"),
            ("numpy", "dtype"),
        ),
        *(("sklearn.tree._tree", "Tree"), ("sklearn.svm._classes", "SVC"), ("numpy", "float64")),
        *(("sklearn.preprocessing._data", "StandardScaler"), ("collections", "OrderedDict")),
        *(
            ("fisherkit.estimators.fisher", "KernelRidgeCV"),
            ("builtins", "int"),
            ("builtins", "list"),
        ),
    ]
    loaders = sorted({node["__loader__"] for node in nodes(tree)})
    loaders += ["FunctionNode", "MethodNode", "PartialNode", "OperatorFuncNode", "TreeNode"]
    loaders += ["BytesNode", "SparseMatrixNode", "ConstructorFromReduceNode", "CachedNode", "None"]
    some = nodes(tree)
    for _ in range(rng.integers(1, 3)):
        node = some[rng.integers(len(some))]
        if rng.integers(2):
            node["__module__"], node["__class__"] = types[rng.integers(len(types))]
        else:
            node["__loader__"] = str(rng.choice(loaders))
    return archive(base.with_members(schema__json=json.dumps(tree).encode()))


@kind
def planted_code(base: Base, other: Base, rng: Rng) -> bytes:
    """Nodes that would leave a trace if anything called what they name."""
    tree = json.loads(base.members[SCHEMA])
    words = {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "__id__": 11}
    words["content"] = json.dumps(f"touch {TRACE}")
    args = {"__class__": "tuple", "__module__": "builtins", "__loader__": "TupleNode"}
    args |= {"__id__": 12, "content": [words]}
    call = {"__class__": "system", "__module__": "os", "__loader__": "FunctionNode", "__id__": 13}
    none = {**words, "content": "null", "__id__": 14}
    part = {"func": call, "args": args, "kwds": none, "namespace": none}
    planted = [
        call,
        {"__class__": "partial", "__module__": "functools", "__loader__": "PartialNode",
         "__id__": 15, "content": part},
        {"__class__": "system", "__module__": "os", "__loader__": "ConstructorFromReduceNode",
         "__id__": 16, "content": args},
        {"__class__": "system", "__module__": "os", "__loader__": "TypeNode", "__id__": 17},
        {"__class__": "methodcaller", "__module__": "operator", "__loader__": "OperatorFuncNode",
         "__id__": 18, "attrs": args},
    ][rng.integers(5)]  # fmt: skip
    holders = [n for n in nodes(tree) if n["__loader__"] == "DictNode" and n["content"]]
    content = holders[rng.integers(len(holders))]["content"]
    content[str(rng.choice(list(content)))] = planted
    return archive(base.with_members(schema__json=json.dumps(tree).encode()))


@kind
def arrays_of_other_values(base: Base, other: Base, rng: Rng) -> bytes:
    members = dict(base.members)
    for name in rng.permutation(arrays(base))[: rng.integers(1, 4)]:
        array = np.load(io.BytesIO(members[name]))
        if array.dtype.kind != "f" or not array.size:
            continue
        values = rng.choice([np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 0.0])
        if array.ndim and rng.integers(2):
            array.flat[rng.integers(array.size)] = values
        else:
            array = np.full_like(array, values)
        members[name] = npy(array)
    return archive(members)


@kind
def arrays_of_other_shapes(base: Base, other: Base, rng: Rng) -> bytes:
    members = dict(base.members)
    for name in rng.permutation(arrays(base))[: rng.integers(1, 3)]:
        array = np.load(io.BytesIO(members[name]))
        how = rng.integers(10)
        if how == 0:
            changed = array.T.copy() if array.ndim > 1 else array[None]
        elif how == 1:
            changed = array[:-1] if array.ndim else array[None]
        elif how == 2:
            changed = array.ravel()[:0]
        elif how == 3:
            changed = np.repeat(array.ravel(), 2)
        elif how == 4:
            changed = (
                array.astype(str) if array.dtype.names is None else array[array.dtype.names[0]]
            )
        elif how == 5:
            changed = np.zeros(array.shape, dtype=rng.choice(["c16", "i1", "?", "f2", "U1", "S3"]))
        elif how == 6:
            changed = np.full(array.shape, -(2**62))
        elif how == 7:
            changed = np.zeros(array.shape, dtype="M8[ns]")
        elif how == 8:
            changed = array[..., None]
        else:
            changed = np.zeros((1,) * 30 + (3,))
        members[name] = npy(changed)
    return archive(members)


@kind
def headers_of_arrays(base: Base, other: Base, rng: Rng) -> bytes:
    name = rng.choice(arrays(base))
    shapes = [
        "(10**15,)",
        "(1000000000000,)",
        "(-1, -8)",
        "(2, 3, 4)",
        "()",
        "3",
        "(True,)",
        "(0,)",
    ]
    kinds = ["'<f8'", "'|O'", "'<U0'", "'<U500000000'", "'|V8'", "[('a', '|O')]", "'f8, f8'", "1"]
    kinds += [repr([(f"f{k}", "<f8", (10**6,)) for k in range(100)]), "('<f8', (10**12,))"]
    head = (
        f"{{'descr': {rng.choice(kinds)}, 'fortran_order': False, 'shape': {rng.choice(shapes)}}}"
    )
    if rng.integers(5) == 0:
        head = str(
            rng.choice(
                ["(" * 9000, "[" * 60000, "__import__('os').system('x')", "{" + "1:1," * 9000]
            )
        )
    version = [(1, 0), (2, 0), (3, 0), (9, 9)][rng.integers(4)]
    length = len(head).to_bytes(2 if version == (1, 0) else 4, "little")
    content = (
        b"\x93NUMPY" + bytes(version) + length + head.encode() + bytes(int(rng.choice([0, 8, 64])))
    )
    if rng.integers(4) == 0:
        content = pickle.dumps(Trap())
    return archive(base.members | {str(name): content})


@kind
def other_files(base: Base, other: Base, rng: Rng) -> bytes:
    import gzip

    some = [
        b"",
        b"PK",
        b"PK\5\6" + bytes(18),
        b"a,b\n1,2\n",
        rng.bytes(5000),
        gzip.compress(base.content),
    ]
    some += [pickle.dumps(Trap(), protocol=p) for p in (0, 2, 5)]
    some += [base.content * 2, rng.bytes(300) + base.content, base.content + rng.bytes(300)]
    return some[rng.integers(len(some))]


class Trap:
    """Leaves a trace when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.system, (f"touch {TRACE}",)


TRACE = Path(tempfile.gettempdir()) / f"hostile-{os.getpid()}"


def arrays(base: Base) -> list[str]:
    return [name for name in base.members if name.endswith(".npy")]


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def nodes(tree: Any) -> list[dict[str, Any]]:
    found, level = [], [tree]
    while level:
        value = level.pop()
        if isinstance(value, dict):
            if "__loader__" in value:
                found.append(value)
            level += value.values()
        elif isinstance(value, list):
            level += value
    return found


def change(value: Any, rng: Rng) -> None:
    """Put something else at some place of a description."""
    while value:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = keys[rng.integers(len(keys))]
        inner = value[key]
        if isinstance(inner, (dict, list)) and inner and rng.integers(3):
            value = inner
            continue
        if isinstance(value, dict) and rng.integers(5) == 0:
            del value[key]
        else:
            value[key] = JUNK[rng.integers(len(JUNK))]
        return


# --- what becomes of them -------------------------------------------------------------------------


def resident(field: str) -> float:
    """VmRSS or VmHWM of this process in megabytes; 0 where the system does not say."""
    if not STATUS.exists():
        return 0.0
    (line,) = [line for line in STATUS.read_text().splitlines() if line.startswith(f"{field}:")]
    return int(line.split()[1]) / 1024


def forget_peak() -> None:
    """Give back what is free, and let the peak of the resident memory begin anew."""
    gc.collect()
    if LIBRARY is not None and hasattr(LIBRARY, "malloc_trim"):
        LIBRARY.malloc_trim(0)
    if STATUS.exists():
        Path("/proc/self/clear_refs").write_text("5")


def outcome(path: Path, *tables: Any) -> str:
    """Say "refused" or "predicts"; whatever else happens is raised.

    The model is asked about the first table that has as many columns as it was trained on.
    """
    with redirect_stdout(io.StringIO()):
        try:
            about = files.read_metadata(path)
            json.dumps(about, indent=1)
            if "summary" in about:
                console.show(about["summary"])
                console.show_columns(saved.described(about), about["versions"])
        except ModelFileError:
            pass
    try:
        file = files.load(path)
    except ModelFileError:
        return "refused"
    if "columns" in file.metadata:
        saved.columns(file)
    X = next(table for table in tables if table.shape[1] == file.model.n_features_in_)
    answers = [file.model.predict(X)]
    if hasattr(file.model, "predict_proba"):
        answers.append(file.model.predict_proba(X))
    for values in answers:
        if len(values) != len(X):
            raise AssertionError("other rows")
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise AssertionError("not finite")
    return "predicts"


def run(files: int, seed: int, folder: Path) -> list[Row]:
    """One row for each kind; raises if any file does anything but being refused or predicting."""
    rng = np.random.default_rng(seed)
    models = bases(folder)
    for base in models:  # they are in order, and what they need is imported
        (folder / "model").write_bytes(base.content)
        assert outcome(folder / "model", base.X) == "predicts"
    gc.freeze()  # what is there stays, and need not be looked through again
    rows: dict[str, dict[str, Any]] = {
        name: dict.fromkeys(("files", "refused", "predicts", "seconds", "growth_mb"), 0)
        for name in KINDS
    }
    path, faults = folder / "model", []
    for number in range(files):
        name = list(KINDS)[number % len(KINDS)]
        base, other = (models[k] for k in rng.choice(len(models), 2, replace=False))
        path.write_bytes(KINDS[name](base, other, rng))
        forget_peak()
        before, start = resident("VmRSS"), time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = outcome(path, base.X, other.X)
        except Exception as error:
            found = "faults"
            faults.append(f"file {number} ({name}): {type(error).__name__}: {str(error)[:200]}")
        row = rows[name]
        row["seconds"] = max(row["seconds"], time.perf_counter() - start)
        row["growth_mb"] = max(row["growth_mb"], resident("VmHWM") - before)
        row["files"] += 1
        row[found] = row.get(found, 0) + 1
    gc.unfreeze()
    if TRACE.exists():
        TRACE.unlink()
        faults.append("planted code ran")
    if faults:
        raise AssertionError("\n".join(faults))
    found_rows: list[Row] = [{"kind": name, **row} for name, row in rows.items()]
    sums = {key: sum(row[key] for row in rows.values()) for key in ("files", "refused", "predicts")}
    worst = {key: max(row[key] for row in rows.values()) for key in ("seconds", "growth_mb")}
    for row in [*found_rows, all_of := {"kind": "all", **sums, **worst}]:
        row["holds"] = row["seconds"] <= MOST_SECONDS and row["growth_mb"] <= MOST_MB
    return [*found_rows, all_of]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            rows = run(options.files, options.seed, Path(folder))
        except AssertionError as error:
            sys.exit(str(error))
    print_table(rows)
    write_csv("hostile_models", rows)


if __name__ == "__main__":
    main()
