# SPDX-License-Identifier: Apache-2.0
"""Processes under seccomp filters: traced where the filter allows all of it, else left alone."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from soscope.entry.isa import arch
from soscope.entry.seccomp import CALLS
from tests.support.machines.tools import for_admin, yama
from tests.support.processes import attached
from tests.support.processes.launching import compiled, environment, launch, launched
from tests.support.processes.others import as_nobody, drop
from tests.support.targets.matrix import REPOSITORY
from tests.support.time.lasting import Visited, assert_no_longer, await_half
from tests.support.time.patience import limit
from tests.support.time.progress import has_switched

ROOT = for_admin("reading seccomp filters")

# Installs the filter that RULES make, then allocates until a line comes in; or executes.
_TARGET = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOAD(at) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at)
#define NUMBER LOAD(offsetof(struct seccomp_data, nr))
#define ARGUMENT(n) LOAD(offsetof(struct seccomp_data, args[n]))
#define EQUAL(k, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, yes, no)
#define RETURN(k) BPF_STMT(BPF_RET | BPF_K, k)
#define ALLOW RETURN(SECCOMP_RET_ALLOW)
#define FORBID(nr, what) EQUAL(nr, 0, 1), RETURN(what)
#define PASS(nr) FORBID(nr, SECCOMP_RET_ALLOW)
#define FAIL(error) (SECCOMP_RET_ERRNO | (error))

static void install(void)
{
	struct sock_filter code[] = {RULES};
	struct sock_fprog program = {sizeof(code) / sizeof(*code), code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, 2, &program))
		_exit(99);
}

static long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ll + time.tv_nsec;
}

static void *thread(void *argument)
{
	install();
	for (;;)
		free(malloc(10));
	return argument;
}

int main(int argc, char **argv)
{
	struct pollfd input = {0, POLLIN, 0};
	pthread_t other;

	if (argc > 1 && !strcmp(argv[1], "thread"))
		pthread_create(&other, NULL, thread, NULL);
	else if (argc < 2 || strcmp(argv[1], "late"))
		install();
	if (argc > 2 && !strcmp(argv[1], "exec"))
		execl(argv[2], argv[2], "exit", "9", NULL);
	write(1, "ready\n", 6);
	if (argc > 1 && (!strcmp(argv[1], "wait") || !strcmp(argv[1], "late"))) {
		struct timespec left = {atoi(argv[2]), 0};
		long long began, ended;
		char line[8];

		if (argv[1][0] == 'l' && read(0, line, sizeof(line)) > 0)
			install();
		began = now();
		nanosleep(&left, NULL);
		ended = now();
		printf("%lld %lld\n", began, ended);
		fflush(stdout);
		_exit(7);
	}
	while (poll(&input, 1, 1) == 0)
		free(malloc(10));
	_exit(7);
}
"""

# As docker's default: a list of what is allowed, and EPERM for the rest; some by arguments.
_ALLOWED = (
    "read write close mmap mprotect munmap brk rt_sigaction rt_sigprocmask rt_sigreturn pread64"
    " pwrite64 mremap madvise getpid gettid futex restart_syscall clock_gettime openat open"
    " memfd_create poll exit exit_group execve access arch_prctl set_tid_address set_robust_list"
    " rseq prlimit64 newfstatat fstat getrandom prctl seccomp nanosleep clock_nanosleep dup clone3"
).split()
_DOCKER = ", ".join(
    [
        "LOAD(offsetof(struct seccomp_data, arch)), EQUAL(AUDIT_ARCH_X86_64, 1, 0)",
        "RETURN(SECCOMP_RET_KILL_PROCESS), NUMBER",
        *(f"PASS(SYS_{name})" for name in _ALLOWED),
        "EQUAL(SYS_personality, 0, 3), ARGUMENT(0), EQUAL(0, 0, 1), ALLOW, RETURN(FAIL(EPERM))",
    ]
)
_WX = (  # no memory that can be written and executed: what systemd's MemoryDenyWriteExecute does
    "NUMBER, EQUAL(SYS_mmap, 0, 4), ARGUMENT(2), BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 6),"
    " EQUAL(6, 0, 1), RETURN(FAIL(EPERM)),"
    " NUMBER, EQUAL(SYS_mprotect, 0, 3), ARGUMENT(2),"
    " BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 4, 0, 1), RETURN(FAIL(EPERM)), ALLOW"
)
_KILL = "RETURN(SECCOMP_RET_KILL_PROCESS)"
GOOD = {
    "docker": _DOCKER,
    "no memfd": "NUMBER, FORBID(SYS_memfd_create, FAIL(ENOSYS)), ALLOW",
    "logged": "NUMBER, FORBID(SYS_mmap, SECCOMP_RET_LOG), ALLOW",
    "never writable and executable": _WX,
    "no ptrace": "NUMBER, FORBID(SYS_process_vm_readv, FAIL(EPERM)),"
    " FORBID(SYS_ptrace, SECCOMP_RET_KILL_PROCESS), ALLOW",
}
BAD = {
    "errno": ("NUMBER, FORBID(SYS_mprotect, FAIL(EACCES)), ALLOW", "answers mprotect with EACCES"),
    "kill": (
        "NUMBER, FORBID(SYS_openat, SECCOMP_RET_KILL_PROCESS), ALLOW",
        "kills its process for openat",
    ),
    "thread": (
        "NUMBER, FORBID(SYS_process_vm_readv, SECCOMP_RET_KILL_THREAD), ALLOW",
        "kills its thread for process_vm_readv",
    ),
    "trap": ("NUMBER, FORBID(SYS_gettid, SECCOMP_RET_TRAP), ALLOW", "sends it SIGSYS for gettid"),
    "error": (
        "NUMBER, FORBID(SYS_process_vm_readv, FAIL(EIO)), ALLOW",
        "answers process_vm_readv with EIO",
    ),
    "argument": (
        f"NUMBER, EQUAL(SYS_munmap, 0, 3), ARGUMENT(1), EQUAL(4096, 0, 1), {_KILL}, ALLOW",
        "may depend on arguments, and kills its process for munmap",
    ),
    "restart": (
        "NUMBER, FORBID(SYS_restart_syscall, SECCOMP_RET_KILL_PROCESS), ALLOW",
        "kills its process for restart_syscall",
    ),
}


def target(rules: str) -> Path:
    return compiled("filtered.c", "-fno-builtin", f"-DRULES={rules}", text=_TARGET)


@pytest.mark.every(3)
@ROOT
@pytest.mark.parametrize("rules", GOOD.values(), ids=GOOD)
def test_a_filter_that_allows_it(rules: str) -> None:
    with attached.running([target(rules)]) as process:
        before = attached.snapshot(process.pid)
        for mode in (["-c"], ["-c", "--from", "all"], ["-e", "malloc", "-o", "/dev/null"]):
            done = attached.observe(process.pid, *mode, until=has_switched(process.pid))
            assert done.returncode == 0, done.stderr
            assert attached.differences(before, process.pid) == []
            assert process.poll() is None
        assert re.search(r"[1-9]\d* calls", done.stderr), done.stderr
        assert attached.finish(process) == (7, "", "")


@pytest.mark.every(3)
@ROOT
@pytest.mark.parametrize(("rules", "reason"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("how", ["leader", "thread"])
def test_a_filter_that_does_not(rules: str, reason: str, how: str) -> None:
    """It is named what for, and the process does not make that call. One thread is enough."""
    with attached.running([target(rules), *([how] if how == "thread" else [])]) as process:
        before = attached.snapshot(process.pid)
        maps = Path(f"/proc/{process.pid}/maps").read_text().count("/")
        for _ in range(3):
            done = attached.trace(process.pid, "-c", "--duration", "50ms")
            assert done.returncode == 1, done.stderr
            assert f"its seccomp filter {reason}" in done.stderr
            assert process.poll() is None
        assert attached.differences(before, process.pid) == []
        assert Path(f"/proc/{process.pid}/maps").read_text().count("/") == maps
        assert attached.finish(process) == (7, "", "")


@ROOT
@pytest.mark.parametrize("name", ["docker", "restart"])
def test_a_wait_goes_on_under_a_filter(name: str) -> None:
    """Also where restart_syscall is deadly, and the stop to read the filter breaks a wait."""
    rules = GOOD.get(name) or BAD[name][0]

    def visit(seconds: int) -> list[Visited]:
        with attached.running([target(rules), "wait", str(seconds)]) as process:
            came = await_half(seconds)
            words = ["-c", "--duration", "50ms"]
            done = [attached.trace(process.pid, *words) for _ in range(2)]
            wait = the_wait(process, came)
        status = 0 if name in GOOD else 1
        assert {one.returncode for one in done} == {status} or wait.ended < wait.left, done
        return [wait]

    assert_no_longer(visit)


def test_a_filter_that_came_later() -> None:
    """Nobody has asked it when the agent is taken out: the waits go on by their own calls."""

    def visit(seconds: int) -> list[Visited]:
        with attached.running([target(BAD["restart"][0]), "late", str(seconds)]) as process:
            tracer = attached.begin(process.pid, "-c")
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
            came = await_half(seconds)
            tracer.send_signal(signal.SIGINT)
            _, notes = tracer.communicate(timeout=limit())
            assert tracer.returncode == 0, notes
            done = attached.detach(process.pid)
            wait = the_wait(process, came)
        assert done.returncode == 0 or wait.ended < wait.left, done.stderr
        return [wait]

    assert_no_longer(visit)


def the_wait(process: subprocess.Popen[str], came: int) -> Visited:
    """Return the wait of a program in which somebody came at `came`, and has left."""
    left = time.monotonic_ns()
    out, _ = process.communicate(timeout=limit())
    assert process.returncode == 7
    began, ended = map(int, out.split())
    return Visited(began, came, left, ended)


@ROOT
def test_which_right_is_missing_is_said(public_path: Path) -> None:
    soscope = as_nobody(public_path)
    program = public_path / "filtered"
    program.write_bytes(target(GOOD["docker"]).read_bytes())
    program.chmod(0o755)
    with attached.running([*drop(), program]) as process:
        done = subprocess.run(
            [*soscope, "trace", "-c", "-p", str(process.pid)],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=limit(),
            check=False,
        )
        assert done.returncode == 3, done.stderr
        why = "Yama" if yama() else "cannot be read: soscope has no CAP_SYS_ADMIN"
        assert why in done.stderr
        assert attached.finish(process) == (7, "", "")


@ROOT
@pytest.mark.parametrize(
    ("rules", "reason"), [(GOOD["docker"], None), BAD["kill"]], ids=["docker", "kill"]
)
def test_a_program_that_is_executed_under_a_filter(rules: str, reason: str | None) -> None:
    outcome = launch(target(rules), "exec", launched(), mode="follow")
    assert outcome.returncode == 9 if reason is None else True
    said = [program["reason"] for program in outcome.programs]
    assert said[0] is None
    if reason is None:
        assert said == [None, None]
    else:
        assert reason in said[1]


# ---- the list of calls -------------------------------------------------------


def test_nobody_makes_other_calls() -> None:
    """There is one place where the agent enters the kernel, with numbers that have names.

    But for one more, where a program itself asks for a child (soscope_mem). Where it has its own
    calls counted, it is asked who its connections lead to.
    """
    sources = {
        path.name: re.sub(r"//.*", "", path.read_text())
        for path in (REPOSITORY / "native" / "agent").rglob("*.[chS]*")
    }
    sources.pop("arch_x86_64_apart.S")
    sources.pop("tallypeers.c")
    # there soscope's own calls return: by rt_sigreturn, which each signal needs, and without a
    # filter by a signal to the thread
    sources.pop("arch_x86_64_loader.S")
    header = sources.pop("arch_x86_64.h")
    wrappers = sources.pop("sys.h")
    assert header.count('"syscall"') == 1
    numbers = {name: int(at) for name, at in re.findall(r"SYS_(\w+) = (\d+)", header)}
    used = set(re.findall(r"sosc_sys[36]\(SYS_(\w+)", wrappers))
    for name, text in sources.items():
        assert not re.search(r"^\s*syscall\s*$|\"syscall\"\s*:", text, re.MULTILINE), name
        for number in re.findall(r"sosc_sys[36]\(\s*(\w+)", text):
            assert number.startswith("SYS_"), (name, number)
            used.add(number.removeprefix("SYS_"))
    used.remove("EXIT_GROUP")  # a program's last one, which no filter can do without
    known = {call.name: call.number for call in CALLS}
    assert {name.lower(): numbers[name] for name in used}.items() <= known.items()
    ours = {
        name.removeprefix("NR_").lower(): value
        for name, value in vars(arch).items()
        if name.startswith("NR_")
    }
    assert ours.items() <= known.items()
    assert len(used | set(ours)) > 15
