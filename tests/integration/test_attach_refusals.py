# SPDX-License-Identifier: Apache-2.0
"""Processes that take no agent: the reason is said, and they are what they were."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.machines.tools import namespaces, need, not_here
from tests.support.processes import attached, turns
from tests.support.processes.launching import compiled, environment
from tests.support.processes.others import as_nobody, assert_refused, drop
from tests.support.targets import build
from tests.support.targets.build import made
from tests.support.time.patience import limit, until
from tests.support.time.progress import has_switched

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")

_NOT_DUMPABLE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <poll.h>

int main(void)
{
	struct pollfd input = {0, POLLIN, 0};

	prctl(PR_SET_DUMPABLE, 0);
	puts("ready");
	fflush(stdout);
	while (poll(&input, 1, 1) == 0)
		free(malloc(10));
	return 7;
}
"""

_STRICT = r"""
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void)
{
	char line[8];

	prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
	write(1, "ready\n", 6);
	read(0, line, sizeof(line));
	syscall(SYS_exit, 7);
}
"""

# Given a line that begins with an s, it forbids itself all that it does not do.
_SEALED = r"""
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ALLOW(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##number, 0, 1), \
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static int seal(void)
{
	struct sock_filter rules[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(read), ALLOW(write), ALLOW(poll), ALLOW(restart_syscall), ALLOW(exit_group),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = {sizeof(rules) / sizeof(rules[0]), rules};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return 1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(void)
{
	struct pollfd input = {0, POLLIN, 0};
	char line[8] = "";

	write(1, "ready\n", 6);
	while (line[0] != 'e') {
		while (poll(&input, 1, 1) == 0)
			free(malloc(10));
		if (read(0, line, 8) > 0 && line[0] == 's')
			write(1, seal() ? "no\n" : "sealed\n", 7);
	}
	_exit(7);
}
"""

_SLEEPER32 = """
	.globl _start
_start:	mov $4, %eax
	mov $1, %ebx
	mov $text, %ecx
	mov $6, %edx
	int $0x80
	mov $3, %eax
	xor %ebx, %ebx
	mov $line, %ecx
	mov $4, %edx
	int $0x80
	mov $1, %eax
	mov $7, %ebx
	int $0x80
	.data
text:	.ascii "ready\\n"
	.bss
line:	.space 8
"""

_MUSL = r"""
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	struct pollfd input = {0, POLLIN, 0};

	puts("ready");
	fflush(stdout);
	while (poll(&input, 1, 1) == 0)
		free(malloc(10));
	return 7;
}
"""


def mappings(pid: int) -> list[str]:
    """Return the mappings of files: nothing of ours is to be left among them."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return [line for line in lines if "/" in line]


def refused(pid: int, status: int, *reasons: str, number: int = 0) -> None:
    """Make sure that tracing `number` (or `pid`) is refused, with `pid` left as it was."""
    before = mappings(pid), attached.snapshot(pid)
    done = attached.trace(number or pid, "-c", "--duration", "50ms")
    assert done.returncode == status, done.stderr
    for reason in reasons:
        assert reason in done.stderr
    assert done.stderr.count("soscope: error: ") == 1
    assert attached.differences(before[1], pid) == []
    assert mappings(pid) == before[0]


def is_traced(pid: int, *options: str) -> None:
    """Make sure that a process can be traced."""
    before = attached.snapshot(pid)
    done = attached.observe(pid, "-c", *options, until=has_switched(pid))
    assert done.returncode == 0, done.stderr
    assert "malloc" in done.stderr
    assert attached.differences(before, pid) == []


def child_of(pid: int) -> int:
    """Return the only child of a process."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    [child] = until(lambda: children.read_text().split(), "it has a child")
    return int(child)


def test_strict_seccomp() -> None:
    with attached.running([compiled("strict.c", text=_STRICT)]) as process:
        refused(process.pid, 1, "strict seccomp")
        assert attached.finish(process) == (7, "", "")


def test_a_program_that_seals_itself_while_it_is_hooked(tmp_path: Path) -> None:
    with attached.running([compiled("sealed.c", text=_SEALED)]) as process:
        before = attached.snapshot(process.pid)
        with turns.gated(process.pid, tmp_path, "--count-only") as (tracer, gate):
            gate.let(3)
            until(lambda: turns.stops(tmp_path) == 3, "three turns", running=tracer)
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("seal\n")
            process.stdin.flush()
            assert process.stdout.readline() == "sealed\n"
            gate.close()
            attached.wait_for_hooks(tracer)  # a turn has noticed the filter
            tracer.terminate()
            _, text = tracer.communicate(timeout=limit())
        assert tracer.returncode == 0
        assert "not hooked: it has installed another seccomp filter" in text
        assert attached.differences(before, process.pid) == []
        assert attached.finish(process) == (7, "", "")


def test_a_thread_is_no_process() -> None:
    with attached.running([build.program("attached"), "2"]) as process:
        threads = {int(one.name) for one in Path(f"/proc/{process.pid}/task").iterdir()}
        tid = (threads - {process.pid}).pop()
        refused(process.pid, 1, f"{tid} is a thread of process {process.pid}", number=tid)
        assert attached.finish(process) == (7, "wrong 0\n", "")


def test_a_32_bit_program() -> None:
    program = (
        made(
            {"sleeper.s": _SLEEPER32},
            "as --32 sleeper.s -o sleeper.o",
            "ld -m elf_i386 sleeper.o -o sleeper",
        )
        / "sleeper"
    )
    try:
        subprocess.run([program], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError:
        not_here("this kernel runs no 32-bit programs")
    with attached.running([program]) as process:
        refused(process.pid, 1, "it is statically linked: there are no slots")
        assert attached.finish(process) == (7, "", "")


@pytest.mark.every(2)
@pytest.mark.parametrize("tool", ["gdb", "strace"])
def test_who_traces_it_already_is_named(tool: str) -> None:
    with attached.running([build.program("attached"), "2"]) as process:
        quiet = {"gdb": ["-q", "-nx"], "strace": ["-f", "-o", "/dev/null"]}[tool]
        tracer = subprocess.Popen(
            [need(tool), *quiet, "-p", str(process.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            status = Path(f"/proc/{process.pid}/status")
            line = f"TracerPid:\t{tracer.pid}\n"
            until(lambda: line in status.read_text(), f"{tool} traces it", running=tracer)
            done = attached.trace(process.pid, "-c", "--duration", "50ms")
            assert done.returncode == 1, done.stderr
            assert f"process {tracer.pid} traces it already" in done.stderr
            assert process.poll() is None
        finally:
            tracer.terminate()
            tracer.communicate(timeout=limit())
        process.send_signal(signal.SIGCONT)  # one that is ended may leave it stopped
        is_traced(process.pid)
        assert attached.finish(process) == (7, "wrong 0\n", "")


# ---- rights ----------------------------------------------------------------


def as_its_user(words: Sequence[str], pid: int) -> subprocess.CompletedProcess[str]:
    """Trace a process as the user that has no rights."""
    return subprocess.run(
        [*words, "trace", "-c", "--duration", "50ms", "-p", str(pid)],
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=limit(),
        check=False,
    )


@ROOT
def test_not_dumpable(public_path: Path) -> None:
    """Its own user may not look into it; root may."""
    program = shutil.copy(
        compiled("hidden.c", "-fno-builtin", text=_NOT_DUMPABLE), public_path / "hidden"
    )
    soscope = as_nobody(public_path)
    with attached.running([*drop(), program]) as process:
        before = attached.snapshot(process.pid)
        done = as_its_user(soscope, process.pid)
        assert_refused(done, "it is not dumpable")
        assert attached.differences(before, process.pid) == []
        is_traced(process.pid)
        assert attached.finish(process) == (7, "", "")


@ROOT
def test_a_process_of_another_user(public_path: Path) -> None:
    soscope = as_nobody(public_path)
    with attached.running([build.program("attached"), "1"]) as process:
        before = attached.snapshot(process.pid)
        done = as_its_user(soscope, process.pid)
        assert_refused(done, "it belongs to user root")
        assert attached.differences(before, process.pid) == []
        assert attached.finish(process) == (7, "wrong 0\n", "")


@contextlib.contextmanager
def in_a_container(*more: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run the test program as pid 1 of a process namespace; yields (unshare, its pid)."""
    words = namespaces("--pid", "--mount-proc", "--fork", "--kill-child", *more)
    with attached.running([*words, build.program("attached"), "2"]) as process:
        yield process, child_of(process.pid)


@ROOT
def test_the_first_process_of_a_container(public_path: Path) -> None:
    soscope = as_nobody(public_path)
    with in_a_container() as (process, pid):
        done = as_its_user(soscope, pid)
        assert_refused(done, "it belongs to user root")
        is_traced(pid)
        assert attached.finish(process) == (7, "wrong 0\n", "")


@ROOT
def test_numbers_of_another_process_namespace() -> None:
    """Without a /proc of its own soscope would mix up two processes of one number."""
    with attached.running([build.program("attached"), "1"]) as process:
        before = attached.snapshot(process.pid)
        words = [*namespaces("--pid", "--fork", "--kill-child"), sys.executable, "-m", "soscope"]
        for verb in (["trace", "-c"], ["detach"]):
            done = subprocess.run(
                [*words, *verb, "-p", str(process.pid)],
                env=environment(),
                capture_output=True,
                text=True,
                timeout=limit(),
                check=False,
            )
            assert done.returncode == 1, done.stderr
            assert "another process namespace" in done.stderr
        assert attached.differences(before, process.pid) == []
        assert attached.finish(process) == (7, "wrong 0\n", "")


@ROOT
def test_a_number_that_only_the_container_knows() -> None:
    """Inside a container, the processes outside have no number at all."""
    with attached.running([build.program("attached"), "1"]) as process:
        words = namespaces("--pid", "--mount-proc", "--fork", "--kill-child")
        done = subprocess.run(
            [*words, sys.executable, "-m", "soscope", "trace", "-c", "-p", str(process.pid)],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=limit(),
            check=False,
        )
        assert done.returncode == 4, done.stderr
        assert f"no process {process.pid}" in done.stderr
        assert attached.finish(process) == (7, "wrong 0\n", "")


# ---- loaders and C libraries that are not where soscope's own are -------------


@ROOT
def test_a_musl_program_whose_library_is_gone(tmp_path: Path) -> None:
    """In a root folder of its own, which is then removed: what lies in memory is enough."""
    folder = tmp_path / "root"
    (folder / "lib").mkdir(parents=True)
    loader = need("/lib/ld-musl-x86_64.so.1")
    made_here = made({"program.c": _MUSL}, "musl-gcc -O0 -fno-builtin -o program program.c")
    shutil.copy(made_here / "program", folder)
    shutil.copy(loader, folder / "lib")
    with attached.running([need("chroot"), folder, "/program"]) as process:
        shutil.rmtree(folder)
        for _ in range(2):
            done = attached.observe(process.pid, "-c", until=has_switched(process.pid))
            assert done.returncode == 0, done.stderr
            assert "malloc" in done.stderr
        assert attached.finish(process) == (7, "", "")


@ROOT
def test_a_glibc_program_with_a_loader_of_its_own(tmp_path: Path) -> None:
    """Copies in another root folder: other inodes than those of soscope's own C library."""
    folder = tmp_path / "root"
    program = build.program("attached")
    listed = subprocess.run([need("ldd"), program], capture_output=True, text=True, check=True)
    files = [word for word in listed.stdout.split() if word.startswith("/")]
    for file in files:
        place = folder / file.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)
    shutil.copy(program, folder / "program")
    with attached.running([need("chroot"), folder, "/program", "2"]) as process:
        for _ in range(2):
            done = attached.observe(process.pid, "-c", until=has_switched(process.pid))
            assert done.returncode == 0, done.stderr
            assert "malloc" in done.stderr
            shutil.rmtree(folder, ignore_errors=True)  # the second time there is none
        assert attached.finish(process) == (7, "wrong 0\n", "")


@ROOT
def test_a_frozen_process_is_refused() -> None:
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    places = [line.split()[4] for line in mounts if " - cgroup2 " in line]
    if not places:
        not_here("no cgroup2 is mounted")
    folder = Path(places[0], f"soscope-test-{os.getpid()}")
    try:
        folder.mkdir()
    except OSError:
        not_here("no control group can be made")
    try:
        with attached.running([build.program("attached"), "2"]) as process:
            (folder / "cgroup.procs").write_text(str(process.pid))
            (folder / "cgroup.freeze").write_text("1")
            attached_to = attached.trace(process.pid, "-c", "--duration", "50ms")
            (folder / "cgroup.freeze").write_text("0")
            assert attached_to.returncode == 1
            assert f"it is frozen, as by docker pause ({folder})" in attached_to.stderr
            assert attached.finish(process) == (7, "wrong 0\n", "")
    finally:
        until(lambda: is_removed(folder), "its processes have ended")


def is_removed(group: Path) -> bool:
    """Remove a control group; return whether it has gone, which takes that nobody is in it."""
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.exists()
