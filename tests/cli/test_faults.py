"""Whatever ends a command that writes: what stood there stays, or all of the new file is there."""

import json
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fisherkit import whole_files
from fisherkit.whole_files import check, written, written_text

OLD = "what was here before\n"
COMMANDS = ["fit --model", "fit --report", "predict", "audit", "report", "export"]

posix = pytest.mark.skipif(os.name != "posix", reason="links, pipes and modes of POSIX")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    pytest.importorskip("resource", reason="forks, kills and limits of POSIX")
    program = Path(__file__).parents[1].joinpath("support", "faults.py")
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path_factory.mktemp("faults"))],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def of(outcomes, command, *faults):
    if command not in outcomes:
        pytest.skip("an extra is missing")
    found = [outcome for outcome in outcomes[command] if outcome["fault"] in faults]
    assert found
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_an_undisturbed_command_writes_all_and_leaves_nothing_else(outcomes, command):
    (outcome,) = of(outcomes, command, None)
    assert outcome["code"] == 0 and outcome["whole"] and not outcome["unfinished"]
    assert outcome["steps"] >= 4, "one write, the file to the disk, the replacement, the folder"


@pytest.mark.parametrize("command", COMMANDS)
def test_killed_before_any_step_the_file_is_the_old_one_or_a_whole_one(outcomes, command):
    killed = of(outcomes, command, "killed")
    assert all(outcome["code"] == -signal.SIGKILL for outcome in killed)
    assert all(outcome["old"] or outcome["whole"] for outcome in killed)
    assert {outcome["old"] for outcome in killed} == {True, False}
    assert all(outcome["unfinished"] <= 1 for outcome in killed)


@pytest.mark.parametrize("command", COMMANDS)
def test_ctrl_c_and_a_full_disk_leave_the_old_file_and_nothing_unfinished(outcomes, command):
    for outcome in of(outcomes, command, "interrupted", "full", "too large"):
        done = outcome["at"] == of(outcomes, command, None)[0]["steps"]
        assert outcome["whole" if done else "old"], outcome["said"]
        assert outcome["code"] == {"interrupted": 130}.get(outcome["fault"], 0 if done else 2)
        assert not outcome["unfinished"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_does_not_fit_is_named_as_the_user_named_it(outcomes, command):
    (outcome,) = of(outcomes, command, "too large")
    assert outcome["named"] and "too large" in outcome["said"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_of_somebody_else_called_part_survives(outcomes, command):
    assert all(outcome["stranger"] for outcome in outcomes.get(command, []))


def write(path, words):
    with written(path) as file:
        file.write(words.encode())


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "answers.csv"
    path.write_text(OLD)
    return path


@pytest.mark.parametrize(
    "error", [OSError("the input broke"), KeyboardInterrupt(), ValueError("?")]
)
def test_an_error_in_the_middle_is_passed_on_as_it_is(path, error):
    with pytest.raises(type(error)) as raised, written_text(path) as file:
        file.write("x" * 100_000)
        raise error
    assert raised.value is error
    assert path.read_text() == OLD and os.listdir(path.parent) == [path.name]


def test_nothing_is_seen_of_a_new_file_before_it_is_whole(tmp_path):
    path = tmp_path / "new"
    with written(path) as file:
        file.write(b"x" * 100_000)
        assert not path.exists()
        (beside,) = os.listdir(tmp_path)
        assert beside.startswith(".new.") and beside.endswith(".part")
    assert path.stat().st_size == 100_000 and os.listdir(tmp_path) == ["new"]


def test_a_name_of_the_greatest_length(tmp_path):
    path = tmp_path / ("é" * 127)  # 254 bytes
    write(path, "new")
    assert path.read_text() == "new"


@pytest.mark.parametrize("gone", ["fsync", "replace"])
def test_the_error_of_the_disk_carries_the_name_the_user_gave(path, monkeypatch, gone):
    def fail(*_):
        raise OSError(5, "Input/output error", "another name", None, "a second one")

    monkeypatch.setattr(os, gone, fail)
    with pytest.raises(OSError, match="Input/output error") as raised:
        write(path, "new")
    assert raised.value.filename == str(path) and raised.value.filename2 is None
    assert path.read_text() == OLD and os.listdir(path.parent) == [path.name]


def test_the_file_is_on_the_disk_before_it_replaces_the_old_one(path, monkeypatch):
    steps = []
    for name in ("fsync", "replace"):
        do = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *args, name=name, do=do: (steps.append(name), do(*args))[1]
        )
    write(path, "new")
    assert steps == ["fsync", "replace", "fsync"] or os.name != "posix"


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_the_mode_of_the_old_file_is_kept(path, mode):
    path.chmod(mode)
    write(path, "new")
    assert path.read_text() == "new" and stat.S_IMODE(path.stat().st_mode) == mode


@posix
def test_a_new_file_gets_the_usual_mode(tmp_path):
    (tmp_path / "usual").write_text("")
    write(tmp_path / "new", "new")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="root gives files away")
def test_the_owner_of_the_old_file_is_kept(path):
    os.chown(path, 12345, 54321)
    write(path, "new")
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 54321)


@posix
def test_a_link_stays_and_what_it_leads_to_is_replaced(path, tmp_path):
    folder = tmp_path / "links"
    folder.mkdir()
    link, further = folder / "link", folder / "further"
    further.symlink_to(path)
    link.symlink_to("further")
    write(link, "new")
    assert link.is_symlink() and further.is_symlink() and path.read_text() == "new"
    assert sorted(os.listdir(folder)) == ["further", "link"]
    path.unlink()
    write(link, "again")  # leads to a file that is not there
    assert link.is_symlink() and path.read_text() == "again"


@posix
def test_a_pipe_is_written_to(tmp_path):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write(pipe, "new")
    reader.join()
    assert read == ["new"] and stat.S_ISFIFO(pipe.stat().st_mode)


@posix
def test_a_device_is_written_to():
    pty = pytest.importorskip("pty")
    master, slave = pty.openpty()
    try:
        name = os.ttyname(slave)
        write(name, "new")
        assert os.read(master, 100) == b"new" and stat.S_ISCHR(os.stat(name).st_mode)
    finally:
        os.close(master)
        os.close(slave)


def program(*lines):
    return [sys.executable, "-c", "\n".join(["from fisherkit.whole_files import *", *lines])]


PRINT = "with written(NAME) as file: file.write(b'new, ')"


@pytest.mark.skipif(not os.path.exists("/proc/self/fd/1"), reason="needs /proc")
@pytest.mark.parametrize("name", ["/dev/stdout", "/proc/self/fd/1", "/dev/fd/1", "link"])
def test_the_standard_output_goes_on_where_it_stood(tmp_path, name):
    """Also where it leads to a file, which is neither replaced nor begun again."""
    link, out = tmp_path / "link", tmp_path / "out"
    link.symlink_to("/proc/self/fd/1")
    place = str(link) if name == "link" else name
    with out.open("w") as file:
        file.write("first, ")
        file.flush()
        subprocess.run(program(f"NAME = {place!r}", PRINT, PRINT), stdout=file, check=True)
        file.write("last")
    assert out.read_text() == "first, new, new, last"
    assert link.is_symlink() and sorted(os.listdir(tmp_path)) == ["link", "out"]
    piped = subprocess.run(program(f"NAME = {place!r}", PRINT), capture_output=True, check=True)
    assert piped.stdout == b"new, "


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_device_is_named(path):
    link = path.with_name("link")
    link.symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as raised:
        write(link, "new")
    assert raised.value.filename == str(link)


def test_two_processes_that_write_one_file_both_end_well(path):
    lines = (
        "import sys",
        "for round in range(60):",
        "    with written(sys.argv[1]) as file:",
        "        for piece in range(5): file.write(sys.argv[2].encode() * 20_000)",
    )
    both = [subprocess.Popen([*program(*lines), str(path), letter]) for letter in "ab"]
    seen = set()
    while any(process.poll() is None for process in both):
        seen.add(path.read_text())
    assert [process.returncode for process in both] == [0, 0]
    assert seen <= {OLD, "a" * 100_000, "b" * 100_000} and path.read_text() != OLD
    assert os.listdir(path.parent) == [path.name]


def test_a_table_is_compressed_if_its_name_says_so(tmp_path):
    import gzip

    path = tmp_path / "answers.csv.gz"
    with written_text(path) as file:
        file.write("a,b\n1,2\n")
    assert gzip.decompress(path.read_bytes()) == b"a,b\n1,2\n"


@pytest.fixture
def may_not_write(monkeypatch):
    """As it is for those who are not root."""
    closed = set()
    may = os.access
    monkeypatch.setattr(os, "access", lambda name, mode: name not in closed and may(name, mode))
    return closed


@pytest.mark.parametrize("attempt", [check, lambda path: write(path, "new")])
def test_protected_files_and_folders_are_refused_by_name_and_left(path, may_not_write, attempt):
    may_not_write.add(str(path))
    with pytest.raises(PermissionError, match="the file is write-protected") as raised:
        attempt(path)
    assert raised.value.filename == str(path)
    may_not_write.clear()
    may_not_write.add(str(path.parent))
    with pytest.raises(PermissionError, match=r"the folder .* is write-protected") as raised:
        attempt(path)
    assert raised.value.filename == str(path) and path.read_text() == OLD
    may_not_write.clear()
    attempt(path)


def test_a_command_asks_before_any_work_whether_it_may_write(path, may_not_write, monkeypatch):
    from typer.testing import CliRunner

    from fisherkit.cli import commands
    from fisherkit.training import fitting

    monkeypatch.setattr(fitting, "train", None)  # must not be reached
    may_not_write.add(str(path.parent))
    answer = CliRunner().invoke(commands.app, ["fit", "-q", "--model", str(path)])
    assert answer.exit_code == 2 and f"{path}: the folder " in answer.stderr


def test_one_function_writes_all_results():
    """What else opens files to write: temporary files, and the journal, which only grows."""
    package = Path(whole_files.__file__).parent
    openings = ("write_text(", "write_bytes(", '.open("w', '"wb")', '"ab"', "os.replace(")
    writers = {
        module.relative_to(package).as_posix()
        for module in package.rglob("*.py")
        for line in module.read_text(encoding="utf-8").splitlines()
        if not line.strip().startswith((">>>", "...")) and any(word in line for word in openings)
    }
    journal = {"reproduction/journal.py", "reproduction/runner.py"}
    assert writers == {"whole_files.py", "training/out_of_core.py", *journal}
