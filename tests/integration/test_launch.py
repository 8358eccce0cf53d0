# SPDX-License-Identifier: Apache-2.0
"""The launch: a program with the agent in it is the program that it is without."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from soscope.wire import layout
from tests.support.machines.tools import need, not_here
from tests.support.processes import launching
from tests.support.processes.launching import Outcome, launch, launched, mini_agent, plain
from tests.support.processes.run import imported
from tests.support.targets import build
from tests.support.time.patience import limit

MODES = ("plain", "stay", "follow")


def same(*command: str | os.PathLike[str], **options: object) -> Outcome:
    """Run a command with and without; what a shell sees must be equal."""
    reference = plain(*command)
    outcome = launch(*command, **options)  # type: ignore[arg-type]  # as launch() takes them
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (
        reference.returncode,
        reference.stdout,
        reference.stderr,
    )
    return outcome


# ---- how it ends -------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("status", [0, 7, 255])
def test_the_exit_status_is_passed_on(mode: str, status: int) -> None:
    outcome = same(launched(), "exit", str(status), mode=mode)
    assert outcome.reason is None
    assert outcome.report["exit"] == [status, None]
    pid = outcome.programs[0]["pid"]
    assert outcome.events("start") == [[pid, None, 0, None]]
    assert outcome.events("exit") == [[pid, status, None]]


@pytest.mark.covering(1)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGABRT, signal.SIGPIPE])
def test_the_signal_that_kills_is_passed_on(mode: str, number: int) -> None:
    outcome = same(launched(), "die", str(int(number)), mode=mode)
    assert outcome.returncode == -number
    assert outcome.report["exit"] == [None, number]


@pytest.mark.parametrize("mode", MODES)
def test_a_crash_is_passed_on(mode: str) -> None:
    outcome = same(launched(), "segv", mode=mode)
    assert outcome.returncode == -signal.SIGSEGV
    pid = outcome.programs[0]["pid"]
    wanted = [] if mode == "plain" else [[pid, pid, int(signal.SIGSEGV)]]
    assert outcome.events("signal") == wanted


def test_the_loaders_own_failure_is_passed_on() -> None:
    """A missing library: ld.so ends the program with 127 before its last start-up event."""
    there = build.made(
        {
            "gone.c": "void gone(void) {}\n",
            "wants.c": "void gone(void); int main(void) { gone(); }\n",
        },
        "gcc -shared -fPIC gone.c -o libgone.so",
        "gcc -pthread wants.c libgone.so -o wants",
        "rm libgone.so",
    )
    program = there / "wants"
    for mode in MODES:
        outcome = same(program, mode=mode)
        assert outcome.returncode == 127
        assert outcome.reason == "ended while it was loaded"
        assert [event[1] for event in outcome.events("exit")] == [127]


# ---- what cannot be started --------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_a_command_that_is_not_there_is_127(mode: str) -> None:
    for word in ("no-such-command", "./no/such/file", ""):
        outcome = launch(word, mode=mode)
        assert outcome.returncode == 127
        assert outcome.report["error"][:2] == ["LaunchError", "not-found"]
        assert outcome.report["events"] == []


@pytest.mark.parametrize("mode", MODES)
def test_what_cannot_be_executed_is_126(tmp_path: Path, mode: str) -> None:
    text = tmp_path / "text"
    text.write_text("echo no\n")
    orphan = tmp_path / "orphan"
    orphan.write_text("#!/no/such/interpreter\n")
    orphan.chmod(0o755)
    binary = tmp_path / "binary"
    binary.write_bytes(b"\x7fELF" + bytes(100))
    binary.chmod(0o755)
    for file in (text, tmp_path, orphan, binary):
        outcome = launch(file, mode=mode)
        assert outcome.returncode == 126, file
        assert outcome.report["error"][:2] == ["LaunchError", "not-executable"]


def test_path_is_searched_as_execvp_does(tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    for folder in (first, second, third):
        folder.mkdir()
    (first / "thing").write_text("not executable")
    (second / "thing").mkdir()
    (third / "thing").write_text("#!/bin/sh\necho found $0 $1\n")
    (third / "thing").chmod(0o755)
    path = f"{first}:{second}::{third}:{os.environ['PATH']}"
    outcome = launch("thing", "x", env={"PATH": path})
    assert outcome.stdout == f"found {third}/thing x\n"
    assert launch("thing", env={"PATH": f"{first}:{second}"}).returncode == 126


# ---- kinds of programs -------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_of_a_script_the_interpreter_is_the_program(tmp_path: Path, mode: str) -> None:
    inner, outer, bare = (tmp_path / name for name in ("inner", "outer", "bare"))
    inner.write_text("#! /bin/sh -e\necho inner $0 $1 $2; exit 3\n")
    outer.write_text(f"#!{inner} word\n")
    bare.write_text("echo bare $0 $1; exit 4\n")
    for file in (inner, outer, bare):
        file.chmod(0o755)
    for file, status in ((inner, 3), (outer, 3), (bare, 4)):
        outcome = launch(file, "x", mode=mode)
        assert outcome.returncode == status
        assert str(file) in outcome.stdout
        assert outcome.reason is None
        assert outcome.programs[0]["path"] == os.path.realpath("/bin/sh")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("flags", [("-static",), ("-static-pie",)])
def test_a_static_program_runs_without_the_agent(mode: str, flags: tuple[str, ...]) -> None:
    outcome = same(launched(*flags), "exit", "7", mode=mode)
    assert outcome.reason == "static"
    assert len(outcome.events("start")) == 1


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "flags",
    [
        ("-no-pie",),
        ("-no-pie", "-Wl,-Ttext-segment=0x10000000"),
        ("-pie", "-Wl,-z,now"),
        ("-Wl,--hash-style=sysv",),
    ],
)
def test_programs_at_any_address_take_the_agent(flags: tuple[str, ...]) -> None:
    outcome = same(launched(*flags), "exit", "7")
    assert outcome.reason is None


def test_a_static_program_of_32_bits_runs_without_the_agent() -> None:
    text = 'void _start(void) { __asm__("mov $1, %eax; mov $9, %ebx; int $0x80"); }\n'  # exit(9)
    try:
        program = launching.compiled("foreign.c", "-m32", "-nostdlib", "-static", text=text)
        if plain(program).returncode != 9:
            not_here("the kernel runs no 32-bit programs")
    except (subprocess.CalledProcessError, OSError):
        not_here("the compiler makes no 32-bit programs")
    for mode in MODES:
        outcome = same(program, mode=mode)
        assert outcome.reason == "static"  # a dynamic one would be traced by breakpoints


@pytest.mark.parametrize("mode", MODES)
def test_under_an_unknown_loader_nothing_is_left_behind(mode: str) -> None:
    loader = launched("-static-pie")
    text = "int main(void) { return 0; }\n"
    program = launching.compiled("odd.c", f"-Wl,--dynamic-linker={loader}", text=text)
    outcome = launch(program, "state", mode=mode)
    reference = plain(program, "state")
    assert outcome.reason == "unknown loader"
    if mode == "plain":
        assert outcome.stdout == reference.stdout
    descriptors = [line for line in outcome.stdout.splitlines() if "fd " in line]
    assert descriptors == [line for line in reference.stdout.splitlines() if "fd " in line]


# ---- what the program sees ---------------------------------------------------


def states(text: str) -> list[str]:
    """The lines of the state, without what says that there is a tracer."""
    return [line for line in text.splitlines() if not line.startswith("TracerPid")]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_the_program_sees_the_state_it_would_see(mode: str, locale: str) -> None:
    env = {"LC_ALL": "", "LANG": locale, "EMPTY": "", "ODD": "a=b\nc"}
    outcome = launch(launched(), "state", "a b", "", mode=mode, env=env)
    reference = plain(launched(), "state", "a b", "", env=env)
    assert outcome.reason is None
    if mode == "plain":
        assert outcome.stdout == reference.stdout
    assert states(outcome.stdout) == states(reference.stdout)


# A shell function would do, but shells cannot block signals or make odd environments.
PREPARE = """
import os, resource, signal, sys
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGCHLD, signal.SIGUSR2):
    signal.signal(number, signal.SIG_IGN)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
os.umask(0o27)
resource.setrlimit(resource.RLIMIT_NOFILE, (700, 5000))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
os.set_inheritable(os.open("/dev/null", os.O_RDONLY), True)
os.dup2(os.open("/dev/zero", os.O_RDONLY), 77)
os.chdir("/")
signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGTRAP, signal.SIGUSR1, 40))
os.kill(os.getpid(), signal.SIGUSR1)
os.execvpe(sys.argv[1], sys.argv[1:], os.environ)
"""


@pytest.mark.parametrize("mode", MODES)
def test_an_unusual_state_is_inherited_too(mode: str) -> None:
    prefix = (sys.executable, "-c", PREPARE)
    reference = plain(launched(), "state", prefix=prefix)
    assert "fd 77 /dev/zero" in reference.stdout
    outcome = launch(launched(), "state", mode=mode, prefix=prefix)
    assert outcome.reason is None
    # A pending signal belongs to the process that got it, and soscope is another one.
    ours = [line for line in states(outcome.stdout) if not line.startswith(("Shd", "SigPnd"))]
    assert ours == [
        line for line in states(reference.stdout) if not line.startswith(("Shd", "SigPnd"))
    ]


@pytest.mark.every(2)
@pytest.mark.parametrize("mode", MODES)
def test_a_timer_that_runs_over_exec_acts(mode: str) -> None:
    text = """
        #include <sys/time.h>
        #include <unistd.h>
        #include <stdlib.h>
        int main(int argc, char **argv)
        {
            struct itimerval timer = {{0, 0}, {0, atoi(argv[1])}};
            setitimer(ITIMER_REAL, &timer, 0);
            return execv(argv[2], argv + 2) + argc;
        }"""
    armed = launching.compiled("armed.c", text=text)
    for microseconds in (300, 1500, 3000, 20000):
        outcome = launch(armed, str(microseconds), launched(), "pause", mode=mode)
        assert outcome.returncode == -signal.SIGALRM


def test_the_agent_is_told_what_it_needs() -> None:
    outcome = same(launched(), "exit", "0")
    words = outcome.programs[0]["answer"][: layout.START.size // 8]
    fields = layout.START.struct.unpack(b"".join(word.to_bytes(8, "little") for word in words))
    answer = dict(zip(layout.START.fields, fields, strict=True))
    assert abs(answer["base"] - answer["loader"]) < 1 << 30
    assert answer["base"] % 4096 == 0
    assert answer["loader"] < answer["r_debug"] < answer["loader"] + (1 << 20)
    assert answer["loader"] < answer["brk"] < answer["loader"] + (1 << 20)
    assert answer["phnum"] > 5
    assert answer["control_fd"] != answer["blob_fd"]
    assert min(answer["control_fd"], answer["blob_fd"]) >= 900
    assert answer["pages_offset"] % 4096 == 0
    assert -(1 << 16) < answer["errno_offset"] < 1 << 16
    assert answer["tid_offset"] == 0x2D0  # of glibc on x86-64, since 2.4
    events, rsp, entry_page, site_page = outcome.programs[0]["answer"][layout.START.size // 8 :][:4]
    assert events == 1  # the event at which we came in
    assert rsp % 16 == 0
    assert (entry_page, site_page) == (0x1111_1111, 0x2222_2222)


def test_the_loaders_events_reach_the_agent() -> None:
    """dlopen by libc itself: iconv loads its modules so."""
    text = """
        #include <dlfcn.h>
        int main(void) { return dlopen("libm.so.6", RTLD_NOW) ? 0 : 1; }"""
    program = launching.compiled("opens.c", "-ldl", text=text)
    outcome = same(program)
    events = outcome.programs[0]["answer"][layout.START.size // 8]
    assert events >= 3  # the last one of the start, and two of dlopen
    assert outcome.programs[0]["note"] is None


# ---- when the agent does not get in ------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_an_agent_that_refuses_leaves_nothing_behind(mode: str) -> None:
    agent = mini_agent("-DMINI_FAIL")
    outcome = launch(launched(), "state", mode=mode, agent=agent)
    assert outcome.reason == "the agent's start: Invalid argument"
    assert states(outcome.stdout) == states(plain(launched(), "state").stdout)
    assert "memfd:soscope" not in launch(launched(), "maps", mode=mode, agent=agent).stdout


@pytest.mark.parametrize("mode", MODES)
def test_an_agent_that_crashes_does_not_hurt_the_program(mode: str) -> None:
    outcome = same(launched(), "exit", "7", mode=mode, agent=mini_agent("-DMINI_FAULT"))
    assert "signal 11" in (outcome.reason or "")
    assert "agent+0x" in (outcome.reason or "")


def test_a_missing_or_wrong_agent_is_an_error(tmp_path: Path) -> None:
    text = tmp_path / "agent.so"
    text.write_text("no")
    for agent in (tmp_path / "none.so", text, Path("/bin/true")):
        outcome = launch("/bin/true", agent=agent)
        assert outcome.returncode == 125
        assert outcome.report["error"][0] == "AgentError"


def test_where_somebody_else_traces_the_program_runs() -> None:
    strace = need("strace")
    with_strace = (strace, "-f", "-qq", "-o", "/dev/null")
    outcome = launch(launched(), "exit", "7", prefix=with_strace)
    assert outcome.returncode == 7
    assert (outcome.reason or "").startswith("no ptrace: process")


# ---- limits ------------------------------------------------------------------


@pytest.mark.parametrize(
    "limit", ["-n 16", "-n 11", "-n 10", "-f 0", "-f 100", "-l 0", "-v 400000"]
)
def test_limits_of_the_shell_do_not_matter(limit: str) -> None:
    command = ("/bin/sh", "-c", f'ulimit -S {limit}; exec "$@"', "sh")
    # The report is a file: with no file size left, it is the launcher that fails, afterwards.
    outcome = launch(launched(), "exit", "7", prefix=command)
    if limit.startswith("-f"):
        assert outcome.returncode != 125
    else:
        assert (outcome.returncode, outcome.reason) == (7, None)


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        ("-n 9", "too many open files"),
        ("-n 8", "too many open files"),
        ("-f 100", "the limit on file sizes"),
    ],
)
def test_where_the_agent_finds_no_room_the_program_runs(limit: str, why: str) -> None:
    command = ("/bin/sh", "-c", f'ulimit {limit}; exec "$@"', "sh")
    for mode in MODES:
        outcome = launch(launched(), "exit", "7", mode=mode, prefix=command)
        if outcome.reason is None and limit.startswith("-f"):
            return  # we may raise it
        assert outcome.returncode == 7
        assert why in (outcome.reason or "").lower()


@pytest.mark.parametrize("limit", ["-n 12", "-f 1000", "-v 400000"])
def test_limits_are_inherited_as_they_were(limit: str) -> None:
    command = ("/bin/sh", "-c", f'ulimit -S {limit}; exec "$@"', "sh")
    outcome = launch(launched(), "state", prefix=command)
    assert outcome.stdout == plain(launched(), "state", prefix=command).stdout
    assert outcome.reason is None


# ---- many at once ------------------------------------------------------------


def test_twenty_launches_at_once(tmp_path: Path) -> None:
    running = []
    for index in range(20):
        argv = launching.words(
            tmp_path / f"report{index}", [launched(), "exit", str(index)], MODES[index % 3], None
        )
        running.append(
            subprocess.Popen(argv, env=launching.environment(), stdin=subprocess.DEVNULL)
        )
    assert [process.wait(timeout=limit(100)) for process in running] == list(range(20))
    for index in range(20):
        assert '"reason": null' in (tmp_path / f"report{index}").read_text()


@pytest.mark.parametrize("notes", [[], ["-q"]], ids=["notes", "quiet"])
def test_a_trace_imports_no_heavy_module(tmp_path: Path, notes: list[str]) -> None:
    words = ["trace", "-c", *notes, "-o", str(tmp_path / "table"), need("true")]
    found = imported(f"from soscope.verbs.main import main; main({words!r})")
    assert "soscope.instruments.trace.instrument" in found
    heavy = {"argparse", "dataclasses", "enum", "json", "logging", "numpy", "re", "typing"}
    assert not (heavy | {"collections", "functools"}) & found
