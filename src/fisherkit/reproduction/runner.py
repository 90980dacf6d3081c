"""Do the tasks that are not in the journal yet, on several processes."""

import os
import platform
import subprocess
import threading
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from functools import lru_cache
from importlib.metadata import version
from multiprocessing import get_context, parent_process
from pathlib import Path

from threadpoolctl import threadpool_limits

from fisherkit.reproduction import catalogue
from fisherkit.reproduction.journal import SKIPPED, Journal, Record
from fisherkit.reproduction.tasks import Task

Done = Callable[[Task, Record | None], None]  # told of each task, and its record if there is one
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def open_journal(folder: Path) -> Journal:
    """The journal of a folder, which is made if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "journal.jsonl").open("ab").close()
    except OSError as error:
        raise OSError(
            error.errno, f"{folder} cannot be written to ({error.strerror}); choose another folder"
        ) from error
    return Journal(folder, catalogue.settings)


def missing(journal: Journal, tasks: Iterable[Task]) -> list[Task]:
    """Tasks to be done, each once, those first that others need."""
    todo = [task for task in dict.fromkeys(tasks) if task not in journal]
    return sorted(todo, key=lambda task: bool(catalogue.needs(task)))


def run_all(
    journal: Journal,
    tasks: Iterable[Task],
    *,
    jobs: int = 1,
    done: Done = lambda task, record: None,
) -> list[Task]:
    """Do what is missing; tell ``done`` of each; return what other processes are still at.

    The tables of results are written at the end, also after an interruption or a failure.
    """
    todo = missing(journal, tasks)
    elsewhere: list[Task] = []
    os.environ.update(dict.fromkeys(_THREADS, "1"))  # read by the libraries of spawned workers
    pool = ProcessPoolExecutor(
        jobs, mp_context=get_context("spawn"), initializer=_start, initargs=(journal.folder,)
    )
    try:
        for stage in (False, True):  # a task that needs others waits for all of the first stage
            tasks_of_stage = [task for task in todo if bool(catalogue.needs(task)) is stage]
            futures = {pool.submit(_work, task): task for task in tasks_of_stage}
            while futures:
                finished, _ = wait(futures, return_when=FIRST_COMPLETED)
                for future in finished:
                    task = futures.pop(future)
                    record = future.result()
                    if record is None:
                        elsewhere.append(task)
                    done(task, record)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        journal.refresh()
        journal.write_tables()
    return [task for task in elsewhere if task not in journal]


_journal: Journal


def _start(folder: Path) -> None:
    """Set up a worker, which ends when its parent does, however that ends."""
    global _journal
    threadpool_limits(1)
    warnings.filterwarnings("ignore", message=f".*{SKIPPED}")  # said by the parent
    _journal = Journal(folder, catalogue.settings)
    parent = parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def _work(task: Task) -> Record | None:
    """Do one task and journal it; None where another process has it, or has what it needs."""
    needed = catalogue.needs(task)
    if not _journal.claim(task):
        return _journal.records.get(task)
    if any(other not in _journal for other in needed):
        return None
    try:
        result, seconds = catalogue.run(task, [_journal.result(other) for other in needed])
    except (ValueError, ArithmeticError) as error:  # LinAlgError is a ValueError
        raise RuntimeError(f"{task} failed: {error}") from error
    record = Record(task, _journal.key(task), result, seconds, commit(), environment())
    _journal.append(record)
    return record


@lru_cache
def environment() -> str:
    """Versions that results may depend on, and the processor."""
    names = ("fisherkit", "numpy", "scipy", "scikit-learn")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    return f"{versions}, Python {platform.python_version()}, {processor()}"


def processor() -> str:
    """Name of the processor."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


@lru_cache
def commit() -> str:
    """The commit of a checkout that runs itself, with a plus if it was changed; else empty."""
    source = Path(__file__).resolve().parents[1]
    try:
        described = subprocess.run(
            [
                "git",
                "-C",
                str(source),
                "describe",
                "--always",
                "--abbrev=9",
                "--dirty=+",
                "--exclude=*",
            ],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
        tracked = subprocess.run(
            ["git", "-C", str(source), "ls-files", "--error-unmatch", "__init__.py"],
            capture_output=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return described.stdout.strip() if tracked.returncode == 0 else ""
