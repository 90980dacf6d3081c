"""Commands that write, each ended by a fault at every step of writing: a program of its own.

It imports once, then forks for each fault. ``python faults.py FOLDER`` prints one JSON object: for
each command, what was found after each fault.
"""

import errno
import io
import json
import os
import resource
import signal
import sys
import zipfile
from contextlib import redirect_stdout, suppress
from pathlib import Path

import numpy as np
import pandas as pd

from fisherkit import whole_files
from fisherkit.cli import commands
from fisherkit.models import files
from fisherkit.report import page
from fisherkit.training import fitting

OLD = b"what was here before\n"
STRANGER = b"of somebody else\n"
ROWS = 40


def invocations(folder):
    data, new, model = (str(folder / name) for name in ("data.csv", "new.csv", "model"))
    common = [data, "--target", "kind", "-q"]
    given = {
        "fit --model": ["fit", *common, "--held-out", "none", "--model"],
        "fit --report": ["fit", *common, "--held-out", "none", "--report"],
        "predict": ["predict", model, new, "-q", "-o"],
        "audit": ["audit", *common, "-o"],
        "report": ["report", model, data, "-q", "-o"],
    }
    with suppress(ImportError):
        import onnx  # noqa: F401

        given["export"] = ["export", model, "-q", "--onnx"]
    return given


def is_whole(command, path):
    """Whether a file is all that the command writes."""
    content = path.read_bytes()
    if command == "fit --model":
        return len(files.load(path).model.classes_) == 2
    if command == "export":
        import onnx

        onnx.checker.check_model(onnx.load_model_from_string(content))
        return True
    if command in ("predict", "audit"):
        return content.endswith(b"\n") and len(pd.read_csv(path)) == ROWS
    return content.startswith(b"<!doctype html>") and content.rstrip().endswith(b"</html>")


class Steps:
    """Counts writes, fsyncs and replaces, and lets a fault happen before one of them."""

    def __init__(self, fault, at):
        self.fault, self.at, self.taken = fault, at, 0
        self.write, self.fsync, self.replace = whole_files._Named.write, os.fsync, os.replace
        whole_files._Named.write = lambda file, data: self.step(
            self.write,
            file,
            memoryview(data)[: max(len(data) // 2, 4000)],  # in several pieces
        )
        os.fsync = lambda *args: self.step(self.fsync, *args)
        os.replace = lambda *args: self.step(self.replace, *args)

    def step(self, do, *args):
        self.taken += 1
        if self.taken == self.at:
            if self.fault == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.fault == "interrupted":
                raise KeyboardInterrupt
            if self.fault == "full":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return do(*args)


def attempt(arguments, said, fault, at):
    """Run a command in a forked process; its exit code (-9: killed) and the steps it took."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with said.open("w") as words:
                os.dup2(words.fileno(), 1)
                os.dup2(words.fileno(), 2)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if fault == "too large":
                resource.setrlimit(resource.RLIMIT_FSIZE, (at, resource.RLIM_INFINITY))
            steps = Steps(fault, at)
            try:
                commands.app(arguments)
            except SystemExit as end:
                code = end.code or 0
            os.write(writing, str(steps.taken).encode())
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        taken = pipe.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), int(taken or 0)


def found(command, arguments, folder, fault, at):
    """What is in a folder after a command was ended by a fault."""
    room = folder / "room"
    room.mkdir()
    target, stranger, said = room / "out.csv", room / "out.csv.part", folder / "said"
    target.write_bytes(OLD)
    stranger.write_bytes(STRANGER)
    code, taken = attempt([*arguments, str(target)], said, fault, at)
    result = {
        "fault": fault,
        "at": at,
        "code": code,
        "steps": taken,
        "old": target.read_bytes() == OLD,
        "whole": target.read_bytes() != OLD and is_whole(command, target),
        "size": target.stat().st_size,
        "stranger": stranger.read_bytes() == STRANGER,
        "named": str(target) in said.read_text(),
        "unfinished": sum(path not in (target, stranger) for path in room.iterdir()),
        "said": said.read_text()[-2000:],
    }
    for path in room.iterdir():
        path.unlink()
    room.rmdir()
    return result


def remembered(module, name):
    """Let a function answer as it did the first time: faults are about the writing after it."""
    answers, ask = [], getattr(module, name)

    def answer(*args, **options):
        if not answers:
            answers.append(ask(*args, **options))
        return answers[0]

    setattr(module, name, answer)


def main(folder):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(ROWS, 3)), columns=["a", "b", "c"])
    table.drop(columns="c").to_csv(folder / "new.csv", index=False)
    table["kind"] = np.where(table["a"] + 0.3 * table["c"] > 0, "up", "down")
    table.drop(columns="c").to_csv(folder / "data.csv", index=False)
    given = invocations(folder)
    fit = [*given["fit --model"], str(folder / "model")]
    assert attempt(fit, folder / "said", None, 0)[0] == 0, (folder / "said").read_text()
    assert zipfile.is_zipfile(folder / "model")
    remembered(fitting, "train")
    remembered(fitting, "doubtful")
    remembered(page, "render")
    results = {}
    for command, arguments in given.items():
        with redirect_stdout(io.StringIO()), suppress(SystemExit):
            commands.app([*arguments, str(folder / "first")])
        results[command] = [found(command, arguments, folder, None, 0)]
        undisturbed = results[command][0]
        last = undisturbed["steps"]  # asks for the folder to be on the disk
        faults = [("killed", at) for at in range(1, last + 1)]
        faults += [(fault, at) for fault in ("interrupted", "full") for at in (1, last - 2, last)]
        faults.append(("too large", undisturbed["size"] // 2))
        for fault, at in faults:
            results[command].append(found(command, arguments, folder, fault, at))
    print(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
