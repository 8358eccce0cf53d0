# SPDX-License-Identifier: Apache-2.0
"""Stacks of calls (-k), against what the program, the interpreter and a debugger say of them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from soscope.frames.interpreters import PythonFrames, is_python
from soscope.frames.names import stack_at
from soscope.model.call import STACK_ITEM, Entry
from soscope.recording.names import in_image
from soscope.recording.reader import RecordingFile
from soscope.recording.stream import events
from tests.integration.test_mem_ruby_stacks import is_own
from tests.integration.test_mem_stacks import told
from tests.support.machines.pythons import DISTRIBUTION, few_pythons
from tests.support.machines.tools import need
from tests.support.processes import attached
from tests.support.processes.run import run
from tests.support.schemas.checked import STACK
from tests.support.targets.accounts import SOSCOPE, built
from tests.support.targets.build import made_in
from tests.support.targets.stackprograms import TARGETS, stack_program
from tests.support.time.patience import until
from tests.support.time.progress import has_switched

MOST = 64

Frames = list[list[object]]


def traced(tmp_path: Path, *words: str, select: str = "malloc", status: int = 0) -> str:
    """Record calls that allocate with their stacks; return what the program has printed."""
    file = str(tmp_path / "run.sosr")
    done = run([*SOSCOPE, "trace", "-fk", "-e", select, "--record", file, "--", *words])
    assert done.returncode == status, done.stderr
    assert "dropped" not in done.stderr
    return str(done.stdout)


def stacks_of(
    path: Path,
) -> tuple[dict[int, list[tuple[int, ...]]], dict[int, list[Frames]]]:
    """Return the return addresses, and the interpreter's frames, by what malloc was asked for."""
    native: dict[int, list[tuple[int, ...]]] = defaultdict(list)
    own: dict[int, list[Frames]] = defaultdict(list)
    with RecordingFile.open(str(path)) as recording:
        names: dict[int, PythonFrames] = {}
        known: dict[tuple[int, int], tuple[tuple[int, ...], Frames]] = {}  # by program and number
        for event in events(recording):
            if not isinstance(event, Entry):
                continue
            index, size = event.slot.process, event.captured.words[0]
            number = int.from_bytes(event.captured.data[STACK_ITEM][2], "little")
            assert number
            if (index, number) not in known:
                program = recording.programs[index]
                _, words, is_cut = stack_at(program, number)
                addrs = tuple(in_image(word)[1] for word in words if not is_python(word))
                assert is_cut <= (MOST in (len(addrs), len(words) - len(addrs)))
                names.setdefault(index, PythonFrames(program))
                found = [names[index].of(word) for word in words if is_python(word)]
                rows: Frames = [[frame.symbol, frame.file, frame.line] for frame in found]
                known[index, number] = addrs, rows
            addrs, frames = known[index, number]
            assert addrs[0] == event.return_addr
            native[size].append(addrs)
            own[size].append(frames)
    return native, own


def test_stacks_are_those_of_backtrace(tmp_path: Path) -> None:
    words = stack_program("gcc", "-O2", "-fomit-frame-pointer")
    truth = told(traced(tmp_path, *words))
    assert len(truth) == 31
    native, _ = stacks_of(tmp_path / "run.sosr")
    for size, stacks in truth.items():
        assert stacks <= {addrs[1:] for addrs in native[size]}, size


def test_stacks_are_right_while_exceptions_pass(tmp_path: Path) -> None:
    made_in(tmp_path, "g++", "-O2", "-w", TARGETS / "stacks_throw.cc", "-o", "throw")
    truth = told(traced(tmp_path, str(tmp_path / "throw"), select="_Znwm+_Znam"))
    native, _ = stacks_of(tmp_path / "run.sosr")
    assert len(truth) == 13
    for size, stacks in truth.items():
        assert stacks <= {addrs[1:] for addrs in native[size]}, size


@pytest.mark.every(2)
@pytest.mark.parametrize("python", few_pythons())
def test_frames_of_python_are_those_of_the_interpreter(python: str, tmp_path: Path) -> None:
    said = traced(tmp_path, python, str(TARGETS / "pystacks.py"))
    truth = [json.loads(line) for line in said.splitlines()]
    assert len(truth) > 25
    _, own = stacks_of(tmp_path / "run.sosr")
    for size, frames in truth:
        if frames:
            assert frames[:MOST] in own[size], size
        else:  # the program's account is that of `soscope mem`: the thread has let go of the lock
            assert [stack[0][0] for stack in own[size]] == ["without_lock"]


def test_frames_of_ruby_are_those_of_the_interpreter(tmp_path: Path) -> None:
    said = traced(tmp_path, need("ruby"), str(TARGETS / "rbstacks.rb"))
    truth = [json.loads(line) for line in said.splitlines()]
    assert len(truth) > 300
    _, own = stacks_of(tmp_path / "run.sosr")
    for size, frames in truth:
        if frames[0][0] == "take_by_extension":  # Ruby's own function adds to the size
            continue
        found = [[frame for frame in stack if not is_own(frame)] for stack in own[size]]
        is_cut = max(map(len, own[size]), default=0) == MOST
        assert (frames[: len(found[0])] if is_cut else frames) in found, size


NESTED = """
static int compare(const void *a, const void *b)
{
    static char *volatile seen;
    seen = getenv("HOME");
    return *(const int *)a - *(const int *)b;
}
__attribute__((noinline)) static void sort(int *numbers)
{
    qsort(numbers, 2, sizeof *numbers, compare);
}
int main(void)
{
    int numbers[] = {2, 1};
    sort(numbers);
    return 0;
}
"""


def test_a_debugger_sees_the_same_frames(tmp_path: Path) -> None:
    """qsort is hooked, too: its frame returns through a trampoline, which is no frame."""
    program = built("nested_stack.c", NESTED, "-g", "-O0")
    words = ["-nx", "-batch", "-ex", "set breakpoint pending on", "-ex", "break getenv"]
    said = run([need("gdb"), *words, "-ex", "run", "-ex", "bt", program]).stdout
    truth = [match[1] for match in re.finditer(r"^#\d+ .*?(?:in )?(\S+) \(", said, re.MULTILINE)]
    assert truth[0].endswith("getenv")
    assert truth[1] == "compare"
    file = tmp_path / "calls"
    done = run(
        [*SOSCOPE, "trace", "-k", "--json", "-o", str(file), "-e", "getenv+qsort", "--", program]
    )
    assert done.returncode == 0, done.stderr
    calls = [json.loads(line) for line in file.read_text().splitlines()]
    (stack,) = [call["stack"] for call in calls if call.get("symbol") == "getenv"]
    assert STACK(stack)
    # what the debugger says of functions that libc has inlined depends on its debug information
    ours = [frame["symbol"] for frame in stack]
    assert ours[0] == "compare"
    assert [name for name in ours if name in truth] == [name for name in truth[1:] if name in ours]
    assert {"compare", "sort", "main"} <= set(ours)
    truth_lines = {
        match[1]: (match[2], int(match[3]))
        for match in re.finditer(r"(\w+) \([^\n]*\) at \S*?([^/\s]+):(\d+)$", said, re.MULTILINE)
    }
    lines = {frame["symbol"]: (Path(frame["file"] or "").name, frame["line"]) for frame in stack}
    for symbol in ("compare", "sort", "main"):
        assert lines[symbol] == truth_lines[symbol]


def test_text_report_and_json_say_the_same(tmp_path: Path) -> None:
    program = built("nested_stack.c", NESTED, "-g", "-O0")
    live, record = str(tmp_path / "live"), str(tmp_path / "run.sosr")
    words = ["-e", "getenv+qsort", "-k", "-o", live, "--record", record, "--", program]
    done = run([*SOSCOPE, "trace", *words])
    assert done.returncode == 0, done.stderr
    text = Path(live).read_text()
    assert run([*SOSCOPE, "report", "-k", record]).stdout == text
    lines = text.splitlines()
    assert re.fullmatch(r"nested\S*->qsort\(.* <unfinished ...>", lines[0])
    assert re.fullmatch(r" > \S+\(sort\+0x[0-9a-f]+\) \[0x[0-9a-f]+\] nested_stack.c:\d+", lines[1])
    assert " > " not in run([*SOSCOPE, "report", record]).stdout
    few = run([*SOSCOPE, "report", "-k", "--stack-depth", "1", record]).stdout.splitlines()
    at = [number for number, line in enumerate(few) if line.startswith(" > ")]
    assert len(at) == 2
    assert few[at[0]] == lines[1]
    tree = run([*SOSCOPE, "report", "--tree", "-k", record]).stdout
    rows = [line.partition(" | ")[2] for line in tree.splitlines()]
    assert [row.strip() for row in rows if " > " in row] == [
        line.strip() for line in lines if line.startswith(" > ")
    ]
    assert re.fullmatch(r"nested\S*->qsort\(.*{", rows[0])
    assert rows[1] == lines[1]


def test_few_frames_are_the_innermost_ones(tmp_path: Path) -> None:
    program = built("nested_stack.c", NESTED, "-g", "-O0")
    seen = []
    for depth in ("2", "64"):
        file = tmp_path / depth
        words = ["-k", "--stack-depth", depth, "--json", "-o", str(file), "-e", "getenv"]
        done = run([*SOSCOPE, "trace", *words, "--", program])
        assert done.returncode == 0, done.stderr
        calls = [json.loads(line) for line in file.read_text().splitlines()]
        seen.append(next(call["stack"] for call in calls if call["type"] == "call"))
    few, every = seen
    assert len(few) == 2 < len(every)
    assert few == every[:2]


SERVER = """
import os, sys, threading, time

def leaf():
    os.getppid()  # here
    time.sleep(0.02)

def serve():
    while True:
        leaf()

thread = threading.Thread(target=serve)
thread.start()
sys.stdout.write("ready\\n")
sys.stdout.flush()
thread.join()
"""


def test_stacks_of_a_process_that_runs_already(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    with subprocess.Popen([DISTRIBUTION, str(script)], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == "ready\n"
            file = tmp_path / "calls"
            words = ["-k", "--json", "-e", "getppid", "-o", str(file)]
            done = attached.observe(server.pid, *words, until=has_switched(server.pid, 5))
            assert done.returncode == 0, done.stderr
            until(has_switched(server.pid, 2), "it goes on", running=server)
        finally:
            server.kill()
    calls = [json.loads(line) for line in file.read_text().splitlines()]
    stacks = [call["stack"] for call in calls if call["type"] == "call"]
    assert stacks
    here = SERVER[: SERVER.index("# here")].count("\n") + 1
    for stack in stacks:
        own = [(frame["symbol"], frame["line"]) for frame in stack if frame["image"] is None]
        assert own[:2] == [("leaf", here), ("serve", here + 5)]
        assert stack[-1]["image"] == "libc.so.6"  # where threads begin


WAITS = """
import os, select, threading

def wait(fd):
    select.select([fd], [], [])

def thread(fd):
    wait(fd)

read, write = os.pipe()
other = threading.Thread(target=thread, args=[read])
other.start()
os.write(write, b"x")
other.join()
"""


@pytest.mark.every(3)
@pytest.mark.parametrize("python", few_pythons())
def test_calls_that_wait_have_the_frames_of_their_thread(python: str, tmp_path: Path) -> None:
    """The interpreter has let go of its lock when it calls select."""
    script, file = tmp_path / "waits.py", tmp_path / "calls"
    script.write_text(WAITS)
    words = ["-k", "--json", "-e", "select", "-o", str(file), "--", python, str(script)]
    done = run([*SOSCOPE, "trace", *words])
    assert done.returncode == 0, done.stderr
    (call,) = [call for call in members(file) if call["type"] == "call"]
    own = [(frame["symbol"], frame["line"]) for frame in call["stack"] if frame["image"] is None]
    assert own[:2] == [("wait", 5), ("thread", 8)]
    assert "run" in {symbol for symbol, _ in own}  # of threading.Thread


WAITS_IN_RUBY = """
def wait(pipe)
  pipe.read(5)
end

read, write = IO.pipe
other = Thread.new { wait(read) }
write << "other"
other.join
"""


def test_calls_of_ruby_that_wait_have_their_frames(tmp_path: Path) -> None:
    script, file = tmp_path / "waits.rb", tmp_path / "calls"
    script.write_text(WAITS_IN_RUBY)
    words = ["-k", "--json", "-e", "read", "-o", str(file), "--", need("ruby"), str(script)]
    done = run([*SOSCOPE, "trace", *words])
    assert done.returncode == 0, done.stderr
    waits = [
        [(frame["symbol"], frame["line"]) for frame in call["stack"] if frame["image"] is None]
        for call in members(file)
        if call["type"] == "call" and "rb_thread_io_blocking_region" in str(call["stack"])
    ]
    assert [("wait", 3), ("block in <main>", 7)] in waits


def printed(*words: str) -> str:
    done = run(list(words))
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


# The first call that Python is asked at has numbers in vector registers.
POWERS = "import math; print(*(math.pow(number / 7, number / 3) for number in range(40)))"


@pytest.mark.every(3)
@pytest.mark.parametrize("python", few_pythons())
def test_arguments_are_what_they_were(python: str) -> None:
    truth = printed(python, "-c", POWERS)
    traced = [*SOSCOPE, "trace", "-qk", "-e", "pow@*", "-o", "/dev/null", "--", python]
    assert printed(*traced, "-c", POWERS) == truth


# A handler that runs on as little stack as is usual, with nothing behind that.
HANDLED = """
static int handled;
static void handle(int number) { handled += getpgid(0) > 0; }
int run(void)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK};
    size_t size = 8192; /* as SIGSTKSZ was for decades */
    char *room = mmap(0, 4096 + size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t stack = {.ss_sp = room + 4096, .ss_size = size};
    if (mprotect(room, 4096, PROT_NONE) || sigaltstack(&stack, NULL) ||
        sigaction(SIGUSR1, &action, NULL))
        return -1;
    raise(SIGUSR1);
    return handled;
}
"""


def test_a_handler_has_little_stack(tmp_path: Path) -> None:
    library = built("handled.c", HANDLED, "-shared", "-fPIC", "-Wl,-z,now")
    script, file = tmp_path / "handled.py", tmp_path / "calls"
    script.write_text(f"import ctypes\nprint(ctypes.CDLL({library!r}).run())\n")
    words = ["-qk", "--json", "-e", "getpgid@*", "-o", str(file), "--", DISTRIBUTION, str(script)]
    assert printed(*SOSCOPE, "trace", *words) == "1\n"
    (call,) = [call for call in members(file) if call["type"] == "call"]
    assert {frame["symbol"] for frame in call["stack"]} >= {"handle", "run", "<module>"}


def test_a_recording_without_stacks_says_so(tmp_path: Path) -> None:
    record = str(tmp_path / "run.sosr")
    done = run(
        [*SOSCOPE, "trace", "-e", "getenv", "--record", record, "--", sys.executable, "-c", ""]
    )
    assert done.returncode == 0, done.stderr
    shown = run([*SOSCOPE, "report", "-k", record])
    assert shown.returncode == 0
    assert "the recording has no stacks" in shown.stderr


def members(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_children_that_are_followed_have_stacks(tmp_path: Path) -> None:
    script = "import os\ndef child():\n  os.getppid()\nif not os.fork(): child()\nelse: os.wait()\n"
    (tmp_path / "forks.py").write_text(script)
    file = tmp_path / "calls"
    words = ["-fk", "--json", "-e", "getppid", "-o", str(file), "--", DISTRIBUTION]
    done = run([*SOSCOPE, "trace", *words, str(tmp_path / "forks.py")])
    assert done.returncode == 0, done.stderr
    (call,) = [call for call in members(file) if call["type"] == "call"]
    own = [(frame["symbol"], frame["line"]) for frame in call["stack"] if frame["image"] is None]
    assert own == [("child", 3), ("<module>", 4)]


DAEMON = """
import threading, time
has_begun = threading.Event()
def again():
    while True:
        time.sleep(0)
        has_begun.set()
threading.Thread(target=again, daemon=True).start()
has_begun.wait()
print(5)
"""
ENDS = {
    "ruby": ("--disable=gems", "-e", "p Fiber.new { 4 }.resume"),
    "python3": ("-c", DAEMON),
}


@pytest.mark.every(2)
@pytest.mark.parametrize("name", ENDS)
def test_interpreters_end_as_they_would(name: str, tmp_path: Path) -> None:
    """Calls go on when an interpreter has taken itself down, and nobody must ask it then."""
    command = [need(name) if name == "ruby" else DISTRIBUTION, *ENDS[name]]
    truth = printed(*command)
    words = ["-qk", "--from", "all", "--when-full", "drop", "--record", str(tmp_path / "run.sosr")]
    assert printed(*SOSCOPE, "trace", *words, "--", *command) == truth
