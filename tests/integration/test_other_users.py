# SPDX-License-Identifier: Apache-2.0
"""What another user, or the target itself, has put in the way of who looks at it."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from soscope.proc.status import read_stat
from soscope.verbs import onefile
from soscope.wire import layout
from tests.support.processes import attached
from tests.support.processes.others import NOBODY, drop
from tests.support.processes.run import run, soscope
from tests.support.processes.tracing import is_whole
from tests.support.targets import build
from tests.support.time.patience import limit, until
from tests.support.time.progress import has_switched

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")

REPOSITORY = Path(__file__).parents[2]
SECRET = "root's own\n"
LEFT = "1 event dropped: a process changed its rights"


def hostile(name: str) -> Path:
    """Return a program of tests/targets/hostile."""
    words = ["gcc", "-O1", f"-I{REPOSITORY / 'native' / 'include'}"]
    return build.compiled(name, words, [build.TARGETS / "hostile" / f"{name}.c"])


@pytest.fixture
def thief(public_path: Path) -> list[str]:
    return [*drop(), shutil.copy(hostile("descriptor_thief"), f"{public_path}/thief")]


@pytest.mark.parametrize("content", [SECRET, ""], ids=["blob", "control block"])
def test_a_file_that_takes_the_place_of_the_shared_memory(
    content: str, thief: list[str], public_path: Path
) -> None:
    """root traces a user's process, whose sibling has a file of root's that it may only read."""
    roots = public_path / "of_root"
    roots.write_text(content)
    before = roots.stat()
    with attached.running([*thief, "swap", str(roots)]) as process:
        for _ in range(5):
            done = attached.trace(process.pid, "-c", "--duration", "0.1s")
            assert "bug" not in done.stderr
            if done.returncode:
                assert "cannot trace process" in done.stderr
        assert roots.read_text() == content
        assert roots.stat().st_size == before.st_size
        assert attached.finish(process)[0] == 7


@pytest.mark.parametrize("mode", ["-c", "--count-only", "text", "--record"])
def test_the_shared_memory_cannot_be_cut(mode: str, thief: list[str], public_path: Path) -> None:
    """If it could, soscope would die of SIGBUS, as if the target had."""
    options = [] if mode == "text" else [mode]
    if mode == "--record":
        options.append(str(public_path / "recording"))
    with attached.running([*thief, "cut"]) as process:
        tracer = attached.begin(process.pid, "-e", "getenv", *options)
        until(has_switched(process.pid, 300), "calls after the cut")
        assert attached.finish(process)[0] == 7
        _, stderr = tracer.communicate(timeout=limit())
        assert tracer.returncode == 0, stderr


def others_file(path: Path) -> Callable[[], bool]:
    """Make a file that another user can read; the result says whether it is untouched."""
    path.write_text("his\n")
    path.chmod(0o666)
    os.chown(path, NOBODY, NOBODY)
    return lambda: path.read_text() == "his\n"


def others_link(path: Path) -> Callable[[], bool]:
    """Make another user's link to a file of root's; the result says whether that is untouched."""
    roots = path.with_name("of_root")
    roots.write_text(SECRET)
    path.symlink_to(roots)
    os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    return lambda: roots.read_text() == SECRET


def others_pipe(path: Path) -> Callable[[], bool]:
    """Make another user's pipe that nobody reads."""
    os.mkfifo(path, 0o666)
    os.chown(path, NOBODY, NOBODY)
    return path.is_fifo


WRITERS = {
    "trace --record": ["trace", "--record", "{}", "true"],
    "trace -o": ["trace", "-o", "{}", "true"],
    "trace --format md": ["trace", "--format", "md", "-o", "{}", "true"],
    "mem run": ["mem", "run", "-o", "{}", "--blocks", "--", "true"],
    "prof run": ["prof", "run", "-o", "{}", "--", "true"],
    "export": ["export", "--format", "csv", "-o", "{}", "recording"],
    "map --svg": ["map", "--svg", "{}", "-p", "{pid}"],
}


@pytest.fixture(scope="module")
def pid() -> Iterator[int]:
    """A process with few images."""
    with attached.running(["cat"], ready="") as process:
        yield process.pid


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a recording, to which all may write."""
    folder = tmp_path_factory.mktemp("shared")
    done = soscope("trace", "--record", folder / "recording", "true")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("make", [others_file, others_link, others_pipe])
@pytest.mark.parametrize("writer", WRITERS)
def test_a_file_of_somebody_else_is_not_written(
    writer: str, make: Callable[[Path], Callable[[], bool]], folder: Path, pid: int
) -> None:
    path = folder / f"{make.__name__}-{writer.replace(' ', '')}"
    is_untouched = make(path)
    done = soscope(*(word.format(path, pid=pid) for word in WRITERS[writer]), cwd=folder)
    is_replaced = path.stat().st_uid == 0 and not path.is_symlink()
    assert is_untouched() or is_replaced
    if is_replaced:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    else:
        assert done.returncode != 0
        assert f"'{path}'" in done.stderr
        assert f"to user {NOBODY}" in done.stderr


@pytest.mark.parametrize("writer", WRITERS)
def test_a_new_file_is_the_users_alone(writer: str, folder: Path, pid: int) -> None:
    path = folder / f"new-{writer.replace(' ', '')}"
    words = ["sh", "-c", 'umask 0; exec "$@"', "-", sys.executable, "-m", "soscope"]
    words += [word.format(path, pid=pid) for word in WRITERS[writer]]
    done = run(words, cwd=folder)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600, done.stderr


def test_nobody_else_can_replace_bytecode(public_path: Path) -> None:
    """Python itself makes its folders for all to write to where the umask is 0."""
    package = Path(onefile.__file__).parents[1]
    shutil.copytree(package, public_path / "soscope", ignore=shutil.ignore_patterns("__pycache__"))
    words = ["sh", "-c", 'umask 0; exec "$@"', "-", sys.executable, "-m", "soscope", "--version"]
    env = {"PYTHONPATH": str(public_path), "PYTHONDONTWRITEBYTECODE": ""}
    for _ in range(2):
        assert run(words, cwd="/", env=env).returncode == 0
    made = [path for path in public_path.rglob("*") if not path.is_symlink()]
    assert any(path.suffix == ".pyc" for path in made)
    assert [path for path in made if path.stat().st_mode & 0o022] == []


@pytest.mark.parametrize("target", ["/dev/stdout", "own link", "/dev/fd/1"])
def test_a_link_of_ones_own_is_followed(target: str, tmp_path: Path) -> None:
    path = tmp_path / "link"
    if target == "own link":
        (tmp_path / "file").touch()
        path.symlink_to("file")
    output = path if target == "own link" else target
    done = soscope("trace", "-e", "setlocale", "-o", output, "ls", "/")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "file").read_text() if target == "own link" else done.stdout
    assert "setlocale(" in text


def test_a_perf_map_is_no_link(public_path: Path) -> None:
    """A user's link in /tmp leads to a map that only root may read."""
    map_of_root = public_path / "of_root"
    map_of_root.write_text("1000 10 secret_name\n")
    map_of_root.chmod(0o600)
    with attached.running([*drop(), "cat"], ready="") as process:
        link = Path(f"/tmp/perf-{process.pid}.map")
        try:
            link.symlink_to(map_of_root)
            os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
            assert soscope("resolve", "-p", str(process.pid), "secret_name").returncode == 1
        finally:
            link.unlink()


APPEND_PYTHON = """
import sys
from soscope_mem._ownfile import opener
with open(sys.argv[1], "a", opener=opener) as file:
    file.write("a line\\n")
"""
APPEND_RUBY = (
    "require 'memprof'; Memprof::OwnFile.open(ARGV[0]) { |file| file.syswrite(\"a line\\n\") }"
)
APPENDERS = {
    "python": [sys.executable, "-c", APPEND_PYTHON],
    "ruby": ["ruby", "-I", str(REPOSITORY / "integrations/ruby/lib"), "-e", APPEND_RUBY],
}


@pytest.mark.parametrize("make", [others_file, others_link, others_pipe])
@pytest.mark.parametrize("language", APPENDERS)
def test_lines_of_a_service_go_to_no_file_of_somebody_else(
    language: str, make: Callable[[Path], Callable[[], bool]], tmp_path: Path
) -> None:
    path = tmp_path / "requests.json"
    is_untouched = make(path)
    done = run([*APPENDERS[language], path])
    assert done.returncode != 0
    assert is_untouched()


@pytest.mark.parametrize("language", APPENDERS)
def test_lines_of_a_service_go_to_a_file_of_its_own(language: str, tmp_path: Path) -> None:
    path, link = tmp_path / "requests.json", tmp_path / "link"
    link.symlink_to(path)
    words = ["sh", "-c", 'umask 0; exec "$@"', "-", *APPENDERS[language]]
    for place in (path, path, link):
        assert run([*words, place]).returncode == 0
    assert path.read_text() == "a line\n" * 3
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert run([*words, "/dev/stdout"]).stdout == "a line\n"


@pytest.mark.parametrize("option", ["-I", "-E", "-s"])
def test_a_profiled_program_runs_nothing_of_the_current_folder(option: str, tmp_path: Path) -> None:
    """soscope_prof starts soscope, in whatever folder the program is."""
    for name in ("struct", "numpy", "selectors"):
        (tmp_path / f"{name}.py").write_text("open('was_run', 'w').close()\n")
    program = tmp_path / "program" / "program.py"
    program.parent.mkdir()
    program.write_text(
        "import soscope_prof, zlib\n"
        "with soscope_prof.profile() as result:\n"
        "    zlib.crc32(b'x')\n"
        "print(len(result.functions) > 0)\n"
    )
    done = run([sys.executable, option, program], cwd=tmp_path)
    assert done.stdout == "True\n", done.stderr
    assert not (tmp_path / "was_run").exists()


def false_agent(count: int, owner: int, started: int) -> list[str]:
    return [str(hostile("false_agent")), str(count), str(owner), str(started)]


@pytest.mark.parametrize("count", [0, 1 << 28, 1 << 62, (1 << 64) - 1])
def test_a_process_that_pretends_to_have_an_agent(count: int) -> None:
    with attached.running(false_agent(count, 0, 0)) as process:
        done = attached.detach(process.pid)
        assert done.returncode == 0, done.stderr
        assert "1 word restored" in done.stderr + done.stdout
        traced = attached.trace(process.pid, "-c", "--duration", "0.1s")
        assert traced.returncode == 0, traced.stderr
        assert attached.finish(process)[0] == 7


@pytest.mark.parametrize("verb", [["trace", "-c"], ["mem", "snapshot"], ["detach"]])
def test_a_process_that_says_that_all_of_it_is_changed(verb: list[str]) -> None:
    """To put so much back would take minutes, a moment of which it stands still again and again."""
    with attached.running([*false_agent(0, 0, 0), str(layout.MAX_CHANGES)]) as process:
        done = soscope(*verb, "-p", str(process.pid))
        assert done.returncode == 1, done.stderr
        assert "655,360 pages of its memory are changed, which no agent does" in done.stderr
        assert attached.finish(process)[0] == 7


def test_a_process_does_not_choose_whom_detach_ends() -> None:
    with attached.running(["cat"], ready="") as other:
        started = read_stat(other.pid).start
        with attached.running(false_agent(0, other.pid, started)) as process:
            done = attached.detach(process.pid)
            assert done.returncode == 0, done.stderr
            assert attached.finish(process)[0] == 7
        assert other.poll() is None


@pytest.mark.parametrize("how", ["cycle", "itself", "many"])
@pytest.mark.parametrize("verb", [["trace", "-c"], ["mem", "attach"], ["mem", "snapshot"]])
def test_a_list_of_libraries_without_an_end(how: str, verb: list[str]) -> None:
    with attached.running([str(hostile("damaged_list")), how]) as process:
        done = soscope(*verb, "-p", str(process.pid))
        assert done.returncode == 1, done.stderr
        assert "list of libraries " in done.stderr  # has no end, or is damaged
        assert attached.finish(process)[0] == 7


@pytest.mark.parametrize("how", ["fewer", "name"])
def test_a_list_of_libraries_with_damage_at_its_end(how: str) -> None:
    """The agent walks along it while the process stands still."""
    with attached.running([str(hostile("damaged_list")), how]) as process:
        done = attached.observe(process.pid, "-c", "-e", "getenv", until=has_switched(process.pid))
        assert done.returncode == 0, done.stderr
        assert "calls through 1 slot of damaged_list" in done.stderr
        assert not is_whole(done.stderr)
        assert attached.finish(process)[0] == 7


def options_of(mode: str, tmp_path: Path) -> list[str]:
    words = {"text": [], "--record": ["--record", str(tmp_path / "recording")]}
    return words.get(mode, [mode])


@pytest.mark.parametrize("follow", [False, True], ids=["alone", "followed"])
@pytest.mark.parametrize("mode", ["text", "-k", "-c", "--count-only", "--record"])
def test_a_child_has_no_right_over_its_parent(mode: str, follow: bool, tmp_path: Path) -> None:
    """A child without privileges writes what it likes into memory that soscope shares with it."""
    options = [*options_of(mode, tmp_path), *(["-f"] if follow else [])]
    done = soscope("trace", *options, "-e", "getenv", "--", hostile("privileges"))
    assert done.returncode == 7, done.stderr
    # without -f it keeps the page in which it counts what it executes, and nothing else
    assert done.stdout == ("0 0 0\n" if follow else "1 0 0\n")
    if follow:
        assert LEFT in done.stderr
        assert not is_whole(done.stderr)
    else:
        assert "3,300 calls" in done.stderr if mode != "--record" else is_whole(done.stderr)


# How privileges are dropped, and the calls that are seen with -f: 300, 10 of a child, 3,000.
DROPPED = {"raw": 3310, "handler": 3310, "seccomp": 3310, "unshare": 3310, "parent": 300}


@pytest.mark.parametrize("how", DROPPED)
def test_who_changes_its_rights_leaves_the_shared_memory(how: str) -> None:
    done = soscope("trace", "-f", "-c", "-e", "getenv", "--", hostile("privileges"), how)
    assert done.returncode == 7, done.stderr
    assert done.stdout == "0 0 0\n"
    assert LEFT in done.stderr
    assert f"{DROPPED[how]:,} calls" in done.stderr


def test_who_shares_all_memory_with_its_parent_leaves_it_the_block() -> None:
    done = soscope("trace", "-f", "-c", "-e", "getenv", "--", hostile("privileges"), "vfork")
    assert done.returncode == 7, done.stderr
    assert "3,300 calls" in done.stderr
    assert is_whole(done.stderr)


@pytest.mark.parametrize("follow", [False, True], ids=["alone", "followed"])
def test_a_child_that_has_left_its_parents_block_can_be_attached_to(follow: bool) -> None:
    with attached.running([str(hostile("privileges")), "stay"]) as process:
        tracer = attached.begin(process.pid, "-c", "-e", "getenv", *(["-f"] if follow else []))
        process.send_signal(signal.SIGUSR1)
        assert process.stdout is not None
        child = int(process.stdout.readline())
        if follow:  # the tracer of the parent is the child's
            tracer.send_signal(signal.SIGINT)
            assert LEFT in tracer.communicate(timeout=limit())[1]
        done = attached.trace(child, "-c", "-e", "getenv", "--duration", "0.1s")
        assert done.returncode == 0, done.stderr
        assert "calls through 1 slot of privileges" in done.stderr
        assert "dropped" not in done.stderr
        assert attached.finish(process)[:2] == (7, "0 0 0\n" if follow else "1 0 0\n")
        if not follow:
            assert is_whole(tracer.communicate(timeout=limit())[1])
