# SPDX-License-Identifier: Apache-2.0
"""Processes in every state, and those that may not be looked at."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import soscope
from soscope.entry import ptrace
from soscope.errors import NoSuchProcess, NotPermitted, SoscopeError
from soscope.live.process import Process
from tests.support.machines.tools import kernel_thread, need, not_here
from tests.support.processes import launching
from tests.support.processes.launching import wait_state
from tests.support.processes.others import assert_refused
from tests.support.processes.resolving import LIBRARY, Teller, made, teller
from tests.support.schemas import checked as schema
from tests.support.time.patience import limit, until
from tests.support.time.progress import state

PLAIN = ("-pie", "-fPIE")


@pytest.fixture
def running() -> Iterator[Teller]:
    with Teller(teller(*PLAIN)) as one:
        yield one


def resolve(
    *words: str, prefix: tuple[str, ...] = (), text: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run `soscope resolve`."""
    return subprocess.run(
        [*prefix, sys.executable, "-m", "soscope", "resolve", *words],
        capture_output=True,
        text=True,
        input=text,
        env=launching.environment(),
        timeout=limit(),
        check=False,
    )


# ---- states ----


def test_a_stopped_process_stays_stopped(running: Teller) -> None:
    truth = running.tell("default", "malloc")
    os.kill(running.pid, signal.SIGSTOP)
    assert wait_state(running.pid, "T") == "T"
    running.check("malloc", truth)
    assert state(running.pid) == "T"
    os.kill(running.pid, signal.SIGCONT)
    assert running.tell("default", "malloc") == truth


def test_a_process_that_another_traces(running: Teller) -> None:
    truth, local = running.tell("default", "malloc"), running.tell("own", "own_tls")
    ptrace.seize(running.pid, 0)
    ptrace.interrupt(running.pid)
    os.waitpid(running.pid, ptrace.WALL)
    try:
        running.check("malloc", truth)
        running.check("own_tls", local)
    finally:
        ptrace.detach(running.pid)


def test_a_process_without_its_first_thread(running: Teller) -> None:
    truth = running.tell("default", "malloc")
    data = running.tell("own", "own_data")
    running.give("leave")
    assert wait_state(running.pid, "Z") == "Z"
    running.check("malloc", truth)
    running.check("own_data", data)
    running.check("own_tls", running.tell("own", "own_tls"))
    assert running.pid not in running.process.threads
    assert len(running.process.threads) == 1
    with Process(running.pid) as process:
        assert process.read(data, 4) == (42).to_bytes(4, "little")


def test_threads_are_listed(running: Teller) -> None:
    tids = [running.in_thread("own-in-thread", "own_tls")[0] for _ in range(3)]
    assert running.process.threads == [running.pid, *tids]


@contextmanager
def stopped_at_exec(program: Path) -> Iterator[int]:
    """Start a program and stop it before its first instruction, its loader's included."""
    pid = os.fork()
    if not pid:
        try:
            ctypes.CDLL(None).ptrace(0, 0, 0, 0)  # PTRACE_TRACEME
            os.execv(program, [str(program)])
        finally:
            os._exit(127)
    try:
        os.waitpid(pid, ptrace.WALL)
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, ptrace.WALL)


def test_before_the_loader_has_run() -> None:
    more = "static const void *own_more(const char *n) { return 0; } int exported_data = 5;"
    program = teller(*PLAIN, "-rdynamic", more=more)
    with stopped_at_exec(program) as pid, Process(pid) as process:
        assert [image.name for image in process.images[:2]] == [
            "teller",
            os.path.basename(os.path.realpath("/lib64/ld-linux-x86-64.so.2")),
        ]
        answer = process.resolve("exported_data")
        assert answer.addr is not None
        assert process.read(answer.addr, 4) == (5).to_bytes(4, "little")
        assert any("guessed" in line for line in answer.why)
        assert process.resolve("own_private").rule == "static"
        assert process.resolve("malloc").status == "none"
        assert process.resolve("own_tls").status != "ok"
        assert process.answer("puts", seen_from="teller").status in ("unbound", "none")


BLOCKER = """
#include <link.h>
#include <unistd.h>
unsigned la_version(unsigned v) { return LAV_CURRENT; }
static int armed;
void la_activity(uintptr_t *cookie, unsigned flag)
{
	if (flag == LA_ACT_ADD && armed) { char c; write(7, "x", 1); read(8, &c, 1); }
	if (flag == LA_ACT_CONSISTENT) armed = 1;
}
"""


def test_in_the_middle_of_dlopen() -> None:
    audit = made("libaudit.so", BLOCKER, *LIBRARY, "-D_GNU_SOURCE")
    library = made("libslow.so", "int slow = 3;", *LIBRARY)
    said, saying = os.pipe()
    answered, answering = os.pipe()
    script = f"exec 7>&{saying} 8<&{answered}; exec '{teller(*PLAIN)}'"
    child = subprocess.Popen(
        ["/bin/bash", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        pass_fds=[saying, answered],
        env={**os.environ, "LD_AUDIT": str(audit)},
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "ready\n"
        child.stdin.write("default\tmalloc\n")
        child.stdin.flush()
        truth = int(child.stdout.readline(), 16)
        child.stdin.write(f"open\tnow,global\t{library}\n")
        child.stdin.flush()
        assert os.read(said, 1) == b"x"
        with Process(child.pid) as process:
            assert process.resolve("malloc").addr == truth
            slow = process.resolve("slow")
            assert slow.status in ("none", "ok")
            os.write(answering, b"y")
            assert child.stdout.readline() == "0\n"
            child.stdin.write("handle\t0\tslow\n")
            child.stdin.flush()
            truth = int(child.stdout.readline(), 16)
            assert slow.addr in (None, truth)
            assert process.resolve("slow").addr == truth
    finally:
        child.kill()
        child.wait()
        child.stdin.close()
        child.stdout.close()
        for one in (said, saying, answered, answering):
            os.close(one)


def test_after_exec_the_old_picture_answers_nothing(running: Teller) -> None:
    truth = running.tell("default", "malloc")
    running.check("malloc", truth)
    running.give("exec", "sleep", "60")
    until(lambda: "teller" not in os.readlink(f"/proc/{running.pid}/exe"), "another program")
    with pytest.raises(NoSuchProcess, match="another program"):
        running.process.resolve("malloc")
    with pytest.raises(NoSuchProcess):
        running.process.read(truth, 8)
    with Process(running.pid) as process:
        assert process.picture.main.name == "sleep"


def test_a_zombie_is_said_to_be_one(running: Teller) -> None:
    os.kill(running.pid, signal.SIGKILL)
    assert wait_state(running.pid, "Z") == "Z"
    with pytest.raises(NoSuchProcess, match="zombie"):
        Process(running.pid)
    done = resolve("-p", str(running.pid), "malloc")
    assert done.returncode == 4
    assert "zombie" in done.stderr


def test_nobody_has_this_id() -> None:
    done = resolve("-p", "4194304", "malloc")
    assert (done.returncode, done.stdout) == (4, "")
    with pytest.raises(NoSuchProcess):
        soscope.Process(4194304)


# ---- rights ----


def as_nobody(*words: str) -> subprocess.CompletedProcess[str]:
    """Run `soscope resolve` as somebody without rights."""
    if os.geteuid() != 0:
        not_here("only root can become somebody else")
    return resolve(*words, prefix=nobody())


def nobody() -> tuple[str, ...]:
    """Return what starts a command as somebody without rights."""
    return need("setpriv"), "--reuid=65534", "--regid=65534", "--clear-groups"


def may_nobody_run() -> bool:
    """Return whether an unprivileged user can start this interpreter at all."""
    done = subprocess.run(
        [*nobody(), sys.executable, "-c", "import soscope.live.process"],
        env=launching.environment(),
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="not here: only root can become somebody else")
def test_somebody_elses_process_is_refused_with_the_reason(running: Teller) -> None:
    if not may_nobody_run():
        not_here("an unprivileged user cannot start this interpreter")
    done = as_nobody("-p", str(running.pid), "malloc")
    assert_refused(done, "belongs to user root")
    assert_refused(as_nobody("-p", "1", "malloc"), "")


def test_what_is_not_dumpable_is_named() -> None:
    """The reason is decided by what /proc shows; here we are root and may look."""
    from soscope.proc.rights import missing_right

    with Teller(teller(*PLAIN)) as running:
        assert running.say("undumpable") == "0"
        error = missing_right(running.pid, "the memory", 13)
        assert isinstance(error, NotPermitted)
        assert error.exit_status == 3
        if os.geteuid() == 0:
            running.check("malloc", running.tell("default", "malloc"))
        else:
            with pytest.raises(NotPermitted, match="not dumpable"):
                Process(running.pid)


def test_maps_and_files_stand_in_where_memory_is_refused(
    running: Teller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Yama's ptrace_scope 1 leaves: mappings and files, but not /proc/PID/mem."""
    from soscope.live.images import space

    def refused(_tid: int) -> None:
        raise PermissionError(13, "refused")

    monkeypatch.setattr(space, "ProcessMemory", refused)
    with Process(running.pid) as process:
        for name in ("malloc", "environ", "puts"):
            answer = process.resolve(name)
            if name == "environ":
                assert answer.status in ("ok", "none")
                continue
            assert answer.addr == running.tell("default", name)
            assert any("guessed" in line for line in answer.why)
        assert process.resolve("own_private").addr == running.tell("own", "own_private")
        for name in ("memcpy", "own_tls"):
            assert process.resolve(name).status == "no-permission"
        assert process.answer("puts", seen_from="teller").status == "no-permission"
        data = process.resolve("own_data").addr
        assert data == running.tell("own", "own_data")
        with pytest.raises(NotPermitted):  # what the file has there may be old
            process.read(data, 4)


def test_a_kernel_thread_has_no_symbols() -> None:
    with pytest.raises(SoscopeError, match="kernel thread"):
        Process(kernel_thread())


# ---- the command ----


def test_the_command_answers_in_order_and_says_what_it_did_not_find(running: Teller) -> None:
    malloc, puts = (running.tell("default", name) for name in ("malloc", "puts"))
    done = resolve("-p", str(running.pid), "malloc", "nosuch", "-", text="puts\n\nstdout\n")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[:2]] == [hex(malloc), hex(puts)]
    assert len(lines) == 3
    assert "soscope: symbol 'nosuch' not found in any image\n" in done.stderr
    done = resolve("malloc", "-p", str(running.pid), "--all", "--why")
    assert done.returncode == 0
    assert f"  * {malloc:#x}" in done.stdout
    assert "global scope of namespace 0" in done.stdout


def test_an_image_on_the_wrong_side_of_a_name(running: Teller) -> None:
    """How gdb and other tools write it: the message says how it is written here."""
    right = resolve("-p", str(running.pid), "teller!own_data")
    assert right.stdout.split()[0] == hex(running.tell("own", "own_data"))
    for wrong in ("own_data@teller", "teller:own_data"):
        done = resolve("-p", str(running.pid), wrong)
        assert done.returncode == 1
        assert "None" not in done.stderr
        assert "an image stands in front: teller!own_data\n" in done.stderr


def test_values_are_read(running: Teller) -> None:
    pid = str(running.pid)
    assert resolve("-p", pid, "--read", "i32", "own_data").stdout == "42\n"
    assert resolve("-p", pid, "--read", "2i", "own_data").stdout.startswith("42 ")
    assert (
        resolve("-p", pid, "--read", "*str", "program_invocation_short_name").stdout == "teller\n"
    )
    assert resolve("-p", pid, "--read", "i32", "own_tls").stdout == "7\n"
    done = resolve("-p", pid, "--read", "nonsense", "own_data")
    assert done.returncode == 2


def test_the_document_is_what_was_promised(running: Teller) -> None:
    library = made("libtwice1.so", "int twice = 1;", *LIBRARY)
    other = made("libtwice2.so", "int twice = 2;", *LIBRARY)
    running.open(library)
    running.open(other)
    truth = running.tell("default", "malloc")
    words = ["malloc", "twice", "nosuch", hex(truth + 1), "own_tls", "memcpy", "libtwice2.so!twice"]
    done = resolve("-p", str(running.pid), "--json", "--read", "u8", *words)
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert schema.wrong_members(document, schema.RESOLVE) == []
    assert document["pid"] == running.pid
    results = document["results"]
    assert [one["query"] for one in results] == words
    statuses = [one["status"] for one in results]
    assert statuses == ["ok", "ambiguous", "none", "ok", "ok", "ok", "ok"]
    assert int(results[0]["addr"], 16) == truth
    assert results[1]["addr"] is None
    assert len(results[1]["candidates"]) == 2
    assert (results[3]["symbol"], results[3]["offset"]) in [("malloc", 1), ("__libc_malloc", 1)]
    assert results[4]["value"] == 7
    assert results[6]["value"] == 2


def test_many_names_are_answered_as_one_is(running: Teller) -> None:
    names = ["malloc", "memcpy", "stdout", "nosuch", "own_data", "errno", "time", "malloc"]
    names += ["libc.so.6!free", "free@GLIBC_2.2.5", hex(running.tell("default", "malloc"))]
    together = running.process.answers(names)
    for name, one in zip(names, together, strict=True):
        alone = running.process.answer(name)
        assert (one.status, one.addr, one.version, one.rule) == (
            alone.status,
            alone.addr,
            alone.version,
            alone.rule,
        )
        assert one.image is alone.image


def test_many_names_that_no_scope_has(running: Teller) -> None:
    """Static ones, ambiguous ones, those of other images and versions, and none at all."""
    text = "static volatile int inner%d = 1, twin = 2; int apart%d = 3; int a(void) "
    text += "{ return inner%d + twin; }"
    for number in (1, 2):
        running.open(made(f"libmany{number}.so", text.replace("%d", str(number)), *LIBRARY))
    names = ["own_private", "own_data", "own_tls", "inner1", "inner2", "twin", "apart1", "apart2"]
    names += ["a", "__malloc_hook", "main_arena", "malloc", *(f"nosuch{one}" for one in range(9))]
    names += ["twin", "nosuch1", "pthread_cond_wait", "i", "frame_dummy", "_start", "choose"]
    together = running.process.answers(names)
    for name, one in zip(names, together, strict=True):
        alone = running.process.answer(name)
        for word in ("status", "addr", "symbol", "version", "rule", "kind", "size"):
            assert getattr(one, word) == getattr(alone, word), (name, word)
        assert [item.addr for item in one.candidates] == [item.addr for item in alone.candidates]
        if one.rule != "dlsym":
            assert one.why == alone.why
    found = dict(zip(names, together, strict=True))
    assert found["own_data"].addr == running.tell("own", "own_data")
    assert found["twin"].status == "ambiguous"
    assert found["nosuch3"].status == "none"


def test_bindings_are_what_the_slots_hold(running: Teller) -> None:
    library = made("libcalls.so", "int getppid(void); int c(void) { return getppid(); }", *LIBRARY)
    running.open(library)
    (found,) = running.process.bindings(image="libcalls.so", symbol="getppid")
    assert found.state == "bound"
    assert found.value == running.tell("default", "getppid")
    assert int.from_bytes(running.process.read(found.addr, 8), "little") == found.value
    every = running.process.bindings(symbol="getppid")
    assert found.addr in [one.addr for one in every]


def test_it_is_a_public_name(running: Teller) -> None:
    with soscope.Process(running.pid) as process:
        assert process.resolve("malloc", image="libc.so.6").addr == running.tell(
            "default", "malloc"
        )
        assert process.resolve("memcpy", version="GLIBC_2.2.5").addr == running.tell(
            "default", "memcpy", "GLIBC_2.2.5"
        )
        assert process.images[0].is_main
        assert not process.resolve("nosuch")


def test_lines_stand_in_the_order_of_the_queries(running: Teller) -> None:
    """On one pipe for both: what is not found stands where it was asked for."""
    start = running.tell("default", "malloc")
    words = [hex(start + at) for at in range(12)]
    words[3:3] = ["nosuch"]
    words[9:9] = ["0x10", "malloc"]
    words.append("nosuch")
    done = subprocess.run(
        [sys.executable, "-m", "soscope", "resolve", "-p", str(running.pid), "-"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        input="\n".join(words),
        env=launching.environment(),
        timeout=limit(),
        check=False,
    )
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert len(lines) == len(words)
    for word, line in zip(words, lines, strict=True):
        if word in ("nosuch", "0x10"):
            assert line.startswith("soscope: ")
            assert word in line
        else:
            addr = hex(start) if word == "malloc" else word
            assert line.split()[0] == addr
            assert "malloc" in line.split()[1]


def test_one_wrong_query_among_many_says_nothing_else(running: Teller) -> None:
    start = running.tell("default", "malloc")
    words = [*(hex(start + at) for at in range(12)), "0xzz", "malloc"]
    done = resolve("-p", str(running.pid), "-", text="\n".join(words))
    assert (done.returncode, done.stdout) == (2, "")
    assert "'0xzz' is not an address" in done.stderr
