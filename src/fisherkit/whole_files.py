"""Files that are written whole: the old file stays until all of the new one is on the disk.

Everything that the project writes for its users goes through `written`.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, TextIO

from fisherkit.interfaces import FilePath

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_SHOWN = 50  # characters of the name in that of its unfinished file: the system limits lengths


@contextmanager
def written(path: FilePath) -> Iterator[IO[bytes]]:
    """Open a file for writing that takes the place of ``path`` once it is complete.

    Until then it stands beside ``path`` under the name ``.<name>.<random>.part``, so that a full
    disk, an interruption or a second process leaves the old file or a whole new one.
    The unfinished file is removed if anything fails; only a killed process leaves it.

    The new file has the mode of the old one, and its owner where the system allows that. A
    symbolic link stays, and the file that it leads to is replaced. A path that is no regular file
    (a device, a named pipe, ``/dev/stdout``) is written to directly.

    Parameters
    ----------
    path : str or path

    Raises
    ------
    OSError
        If the file cannot be written; it names ``path``. Nothing has changed then.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from fisherkit.whole_files import written
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "answer"
    ...     with written(path) as file:
    ...         _ = file.write(b"42")
    ...         path.exists()
    ...     path.read_bytes()
    False
    b'42'
    """
    name = os.fspath(path)
    with _naming(name):
        descriptor = _descriptor(name)
        straight = descriptor is not None or _exists_but_not_regular(name)
    with _straight(name, descriptor) if straight else _beside(name) as file:
        yield file


@contextmanager
def written_text(path: FilePath) -> Iterator[TextIO]:
    """Open a file as `written` does, for text in UTF-8; compressed if the name ends in ``.gz``.

    Line ends are written as they are given.
    """
    with written(path) as file:
        if os.fspath(path).endswith(".gz"):
            with gzip.open(file, "wt", encoding="utf-8", newline="") as words:
                yield words
        else:
            words = io.TextIOWrapper(file, encoding="utf-8", newline="")
            yield words
            words.detach()  # flushes; `written` closes the file


def check(path: FilePath) -> None:
    """Raise now what `written` would raise at once, before hours of work depend on it."""
    name = os.fspath(path)
    with _naming(name):
        if _descriptor(name) is None and not _exists_but_not_regular(name):
            _check(name, os.path.realpath(name))


@contextmanager
def _straight(name: str, descriptor: int | None) -> Iterator[IO[bytes]]:
    """The device, pipe or open file itself."""
    with _naming(name):
        stream = _Named(name, name if descriptor is None else os.dup(descriptor), "w")
    with io.BufferedWriter(stream) as file:
        yield file


@contextmanager
def _beside(name: str) -> Iterator[IO[bytes]]:
    """A new file beside the one that it then replaces."""
    target = os.path.realpath(name)
    folder, last = os.path.split(target)
    part = os.path.join(folder, f".{last[:_SHOWN]}.{secrets.token_hex(8)}.part")
    file: io.BufferedWriter | None = None
    try:
        with _naming(name):
            _check(name, target)
            file = io.BufferedWriter(_Named(name, part, "x"))
            _take_after(target, part)
        yield file
        file.flush()
        with _naming(name):
            os.fsync(file.fileno())
            file.close()
            os.replace(part, target)
    except BaseException:
        with suppress(OSError):
            if file is not None:
                file.close()  # tries once more to write what is left
        with suppress(OSError):
            os.unlink(part)
        raise
    _keep_name(folder)


def _check(name: str, target: str) -> None:
    """Raise an OSError if a file cannot be made beside the target, or the target is protected."""
    folder = os.path.dirname(target)
    if os.path.exists(target) and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "the file is write-protected", name)
    if os.path.isdir(folder) and not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(
            errno.EACCES,
            f"the folder {folder} is write-protected, and the new file is first written beside "
            "the old one; choose another folder",
            name,
        )


class _Named(io.FileIO):
    """A file that is written, whose errors carry the name that the user gave."""

    def __init__(self, given: str, file: str | int, mode: str) -> None:
        super().__init__(file, mode)
        self.given = given

    def write(self, data: ReadableBuffer, /) -> int:
        with _naming(self.given):
            return super().write(data)


@contextmanager
def _naming(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.filename == path:
            raise
        raise OSError(error.errno, error.strerror, path) from error


def _exists_but_not_regular(path: str) -> bool:
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return False


def _descriptor(path: str) -> int | None:
    """The open file of this process that ``path`` stands for, as ``/dev/stdout`` does for 1.

    Opening it by that name would begin a second time at its first byte.
    """
    folders = {os.path.realpath("/proc/self/fd"), "/dev/fd"}
    for _ in range(40):  # links may lead in circles
        folder, last = os.path.split(path)
        if last.isdecimal() and os.path.realpath(folder) in folders:
            return int(last)
        if not os.path.islink(path):
            break
        path = os.path.join(folder, os.readlink(path))
    return None


def _take_after(target: str, part: str) -> None:
    """Give the new file the owner and the mode of the old one, if there is one."""
    with suppress(FileNotFoundError):
        old = os.stat(target)
        if hasattr(os, "chown"):
            with suppress(PermissionError):
                os.chown(part, old.st_uid, old.st_gid)
        os.chmod(part, stat.S_IMODE(old.st_mode))


def _keep_name(folder: str) -> None:
    """Wait until the new name is on the disk, where folders can be asked for that."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
