"""Archives that may come from anybody: sizes, names and shapes are looked at before contents.

A model file is a zip archive with a tree of nodes in ``schema.json``, an array for each of some of
them, and ``fisherkit.json``. Nothing is believed that is not checked: an archive may say that it is
small and unfold into gigabytes, name one array a thousand times, or hold a tree whose branches
share their twigs so often that no one comes to its end. What is read stays within a budget, in
proportion to the file itself; `compact` writes whatever a model holds so that it is within it.
"""

from __future__ import annotations

import io
import json
import math
import re
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from fisherkit.interfaces import FilePath
from fisherkit.stored import TYPES

METADATA, SCHEMA = "fisherkit.json", "schema.json"
TAG = "fisherkit"  # the key of a dictionary that stands for an object: the name of its type
PLAIN = ("pairs", "list", "objects")  # names of containers

# What a file of so many bytes may unfold into: a few megabytes, and so many times its size.
_BYTES = 6 * 2**20, 4  # of all members together
_MEMORY = 24 * 2**20, 16  # of the values of a JSON text, once it is parsed
_NODES = 10_000, 0.02  # of the tree; a node takes about 100 bytes of it
_WORDS = 250_000, 0.25  # in all arrays together; a word takes at least four bytes
_LISTING = 4 * 2**20, 0.4  # of the list of members

_ARRAY = re.compile(r"[1-9]\d{0,19}\.npy")
_KINDS = "biufcUSmM"  # of arrays and of the fields of records: no objects
_HEAD = 12_000  # bytes, within which the header of an array ends
_CHUNK = 2**20
_DEPTH = 200

# Nodes and what each of them takes, in those of a plain value: each lists the types it trusts.
_LOADERS = {
    **dict.fromkeys(("JsonNode", "TypeNode", "ListNode", "TupleNode", "SetNode", "DictNode"), 1),
    **dict.fromkeys(("NdArrayNode", "MaskedArrayNode", "DTypeNode", "SliceNode"), 1),
    **dict.fromkeys(("DefaultDictNode", "RandomStateNode", "RandomGeneratorNode"), 1),
    **dict.fromkeys(("ObjectNode", "FunctionNode"), 3),
}
# Of scikit-learn, what transforms in NumPy: compiled trees and neighbours believe their arrays.
_LEARN = re.compile(
    r"sklearn\.(base|pipeline|compose|preprocessing|impute|decomposition|feature_selection|"
    r"feature_extraction|kernel_approximation|random_projection|linear_model|cluster|covariance|"
    r"cross_decomposition|discriminant_analysis|gaussian_process)\b"
)


class ModelFileError(ValueError):
    """A file that is no model, not a whole one, of another version, or not safe to open."""


@contextmanager
def opened(path: FilePath) -> Iterator[zipfile.ZipFile]:
    """A model file whose list of members is believable; errors are `ModelFileError`."""
    path = Path(path)
    if path.is_dir():
        raise ModelFileError(f"{path} is a folder, not a model file; name the file in it.")
    if not path.exists():
        raise ModelFileError(f"{path} does not exist.")
    if not path.is_file():
        raise ModelFileError(f"{path} is not a file.")
    size = path.stat().st_size
    with ExitStack() as stack:
        try:
            file = stack.enter_context(_Listing(path, _limit(_LISTING, size)))
            archive = stack.enter_context(zipfile.ZipFile(file))
        except ModelFileError as error:
            raise _named(path, error) from error
        except OSError:
            raise
        except Exception as error:  # zipfile has many for a list that makes no sense
            raise ModelFileError(_not_an_archive(path)) from error
        file.limit = None
        try:
            _check_members(archive, size)
            yield archive
        except ModelFileError as error:
            raise _named(path, error) from error


def _named(path: Path, error: ModelFileError) -> ModelFileError:
    return ModelFileError(f"{path} was not opened: {error}")


class _Listing(io.FileIO):
    """A file of which, at first, no more is read at once than a list of members may take."""

    def __init__(self, path: Path, limit: float | None) -> None:
        super().__init__(path)
        self.limit = limit

    def read(self, size: int | None = -1, /) -> bytes:
        if self.limit is not None and size is not None and size > self.limit:
            raise ModelFileError(f"its list of members claims {size:,} bytes.")
        return super().read(size)


def _limit(rule: tuple[float, float], size: int) -> float:
    return rule[0] + rule[1] * size


def _check_members(archive: zipfile.ZipFile, size: int) -> None:
    names = [member.filename for member in archive.infolist()]
    if METADATA not in names:
        raise ModelFileError(f"it is not a model file of fisherkit: it has no {METADATA}.")
    for member in archive.infolist():
        name = member.filename
        if name not in (METADATA, SCHEMA) and not _ARRAY.fullmatch(name):
            raise ModelFileError(f"it holds {name[:100]!r}, which is no part of a model.")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ModelFileError(f"{name} in it is compressed in a way that no model file is.")
    if len(set(names)) < len(names):
        raise ModelFileError("two of its members have the same name.")
    total = sum(member.file_size for member in archive.infolist())
    if total > _limit(_BYTES, size):
        raise ModelFileError(
            f"its {size:,} bytes claim to unfold into {total:,}, more than any model that was "
            "saved does."
        )


def member(archive: zipfile.ZipFile, name: str) -> bytes:
    """The content of a member: as long as it claims to be, never longer, and undamaged."""
    try:
        size = archive.getinfo(name).file_size
        with archive.open(name) as file:
            content = bytearray()
            while chunk := file.read(min(_CHUNK, size - len(content) + 1)):
                content += chunk
        if len(content) != size:
            raise ModelFileError(f"{name} in it is not whole.")
        return bytes(content)
    except ModelFileError:
        raise
    except Exception as error:  # zlib, zipfile and the system, each in its own words
        raise ModelFileError(f"{name} in it is damaged: {error}") from error


def parsed(text: bytes, size: int) -> object:
    """The values of a JSON text out of a file of ``size`` bytes.

    Names and lists without content take twenty times the memory of their text, and nesting takes
    the stack: both are bounded.
    """
    memory = 240 * text.count(b"{") + 72 * text.count(b"[") + 110 * text.count(b",") + len(text)
    if memory > _limit(_MEMORY, size):
        raise ModelFileError("the description in it is larger than that of any model.")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"the description in it cannot be read: {error}") from error
    if _depth_exceeds(value, _DEPTH):
        raise ModelFileError("the description in it is nested more deeply than that of any model.")
    return value


def _depth_exceeds(value: object, most: int) -> bool:
    level: list[object] = [value]
    for _ in range(most):
        level = [
            part
            for whole in level
            if isinstance(whole, (dict, list))
            for part in (whole.values() if isinstance(whole, dict) else whole)
        ]
        if not level:
            return False
    return True


def contents(archive: zipfile.ZipFile, size: int) -> bytes:
    """Tree and arrays of a model file, checked, as an archive that is what it claims to be."""
    names = set(archive.namelist())
    if SCHEMA not in names:
        raise ModelFileError(f"it holds no model: it has no {SCHEMA}.")
    tree = member(archive, SCHEMA)
    _check_tree(parsed(tree, size), size, names)
    copy, words = io.BytesIO(), 0
    with zipfile.ZipFile(copy, "w", zipfile.ZIP_STORED) as whole:
        whole.writestr(SCHEMA, tree)
        for name in names - {SCHEMA, METADATA}:
            array = member(archive, name)
            words += _check_array(name, array)
            if words > _limit(_WORDS, size):
                raise ModelFileError(f"its {size:,} bytes claim more words than any model has.")
            whole.writestr(name, array)
    return copy.getvalue()


def _check_tree(tree: object, size: int, members: set[str]) -> None:
    """Refuse what no saved model has: nodes of other kinds, too many, or sharing their parts.

    Nodes of one identity are one object, so that the second may be a mere reference. skops writes
    each of them in full. Where all of one identity have the same size, following references
    never makes a tree larger than its text, nor leads in circles.
    """
    sizes: dict[int, int] = {}
    weight = 0

    def measure(value: object) -> int:
        nonlocal weight
        if not isinstance(value, (dict, list)):
            return 1
        total = 1
        for part in value.values() if isinstance(value, dict) else value:
            total += measure(part)
        if isinstance(value, dict) and ("__loader__" in value or "__id__" in value):
            weight += _check_node(value, members)
            if sizes.setdefault(value["__id__"], total) != total:
                raise ModelFileError("one object in it is described in two ways.")
        return total

    measure(tree)
    if weight > _limit(_NODES, size):
        raise ModelFileError(f"its {size:,} bytes claim more objects than any model has.")


def _check_node(node: dict[str, object], members: set[str]) -> int:
    loader, module, kind = (str(node.get(f"__{key}__")) for key in ("loader", "module", "class"))
    if loader not in _LOADERS:
        raise ModelFileError(
            f"it asks for {module}.{kind} by a {loader}, which no model of fisherkit needs."
        )
    if module.startswith("sklearn.") and not _LEARN.match(module):
        raise ModelFileError(
            f"it asks for {module}.{kind}, which is no preparation in NumPy; the steps before "
            "the classifier must be."
        )
    identity = node.get("__id__")
    if type(identity) is not int or identity < 1:
        raise ModelFileError("an object in it has no identity.")
    content = node.get("content")
    if isinstance(content, dict) and TAG in content:
        _check_name(content[TAG])
    if "file" in node and (node["file"] != f"{identity}.npy" or node["file"] not in members):
        raise ModelFileError("an object in it asks for the array of another one.")
    return _LOADERS[loader]


def _check_name(node: object) -> None:
    """Refuse the node of a name that no type is registered under."""
    text = str(node.get("content")) if isinstance(node, dict) else ""
    if text not in map(json.dumps, (*PLAIN, *TYPES)):
        raise ModelFileError(
            f"it asks for an object of type {text[:100]}, which this version of fisherkit does not "
            "know; nothing was built."
        )


def _check_array(name: str, content: bytes) -> int:
    """Refuse an array whose header claims other than what follows it, or what is not numbers.

    Returns how many words it holds, each of which may become an object of its own.
    """
    try:
        head = io.BytesIO(content[:_HEAD])
        version = np.lib.format.read_magic(head)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, _, dtype = read(head)
    except Exception as error:  # whatever NumPy stumbles over
        raise ModelFileError(f"{name} in it is not an array.") from error
    if not all(part.kind in _KINDS for part in _parts(dtype)):
        raise ModelFileError(f"{name} in it holds something other than numbers and words.")
    follows = len(content) - head.tell()
    values = math.prod([int(length) for length in shape])
    if min(shape, default=0) < 0 or values * dtype.itemsize != follows:
        raise ModelFileError(f"{name} in it claims another size than it has.")
    if not follows and (values or dtype.itemsize > _HEAD):
        raise ModelFileError(f"{name} in it claims values and has none.")
    return values if dtype.kind == "U" else 0


def _parts(dtype: np.dtype) -> list[np.dtype]:
    """The types of a record's fields, which are no records themselves; or the type itself."""
    return [dtype] if dtype.fields is None else [field[0] for field in dtype.fields.values()]


def compact(archive: bytes, metadata: bytes) -> bytes:
    """An archive of skops with the metadata, compressed unless it were then taken for hostile."""
    for compression in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):
        file = io.BytesIO()
        with (
            zipfile.ZipFile(io.BytesIO(archive)) as old,
            zipfile.ZipFile(file, "w", compression, compresslevel=1) as new,
        ):
            for name in old.namelist():
                content = old.read(name)
                if name == SCHEMA:  # skops indents it, which doubles it
                    content = json.dumps(json.loads(content), separators=(",", ":")).encode()
                new.writestr(name, content)
            new.writestr(METADATA, metadata)
        size = file.getbuffer().nbytes
        try:
            with zipfile.ZipFile(file) as new:
                _check_members(new, size)
                parsed(metadata, size)
                contents(new, size)
        except ModelFileError as error:
            refused = error
        else:
            return file.getvalue()
    raise ModelFileError(f"The model cannot be saved: {refused}") from refused


def _not_an_archive(path: Path) -> str:
    with path.open("rb") as file:
        start = file.read(4)
    if start[:1] == b"\x80" or start[:2] in (b"\x1f\x8b", b"(d", b"cp"):
        return (
            f"{path} was not opened: it looks like a pickle, which runs code when opened. Models "
            "of fisherkit are never pickles."
        )
    if start == b"PK\x03\x04":
        return f"{path} is not a whole model file: its end is missing. Copy or write it again."
    return f"{path} is not a model file of fisherkit."
