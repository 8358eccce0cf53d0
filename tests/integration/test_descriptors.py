# SPDX-License-Identifier: Apache-2.0
"""The agent writes into its process's memory alone, whatever becomes of its descriptor.

It opens a file to change code. Another thread may close all descriptors that it does not know,
and open a file that gets the same number. Here the program does both in the instant behind the
agent's open: nobody else uses that system call, and a filter has the program told of it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.processes.run import run
from tests.support.processes.tracing import SOSCOPE
from tests.support.targets.build import made

LIBRARY = r"""
#include <stdlib.h>
int (*volatile taken)(int);

void take(void)
{
	taken = abs; /* so that the slot itself has to stay */
}

__attribute__((noinline)) static int once(int number)
{
	return abs(number) + 1;
}

int calls(int count)
{
	int sum = 0;

	for (int i = 0; i < count; i++)
		sum += once(-i);
	return sum;
}
"""
PROGRAM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { MOST = 64 };
static int opened, times, victims[MOST], count;

static long call(long nr, long a, long b, long c, long d)
{
	register long r10 __asm__("r10") = d;

	__asm__ volatile("syscall"
			: "+a"(nr)
			: "D"(a), "S"(b), "d"(c), "r"(r10)
			: "rcx", "r11", "memory");
	return nr;
}

static void told(int number, siginfo_t *info, void *context)
{
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
	long fd = call(SYS_openat, AT_FDCWD, regs[REG_RDI], regs[REG_RSI], regs[REG_RDX]);

	opened++;
	if (times > 0 && count < MOST) {
		times--;
		call(SYS_close, fd, 0, 0, 0);
		victims[count] = (int)call(SYS_memfd_create, (long)"mine", 0, 0, 0);
		if (victims[count++] != fd)
			_exit(98);
	}
	regs[REG_RAX] = fd;
}

int main(int argc, char **argv)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_open, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {4, code};
	struct sigaction action = {.sa_sigaction = told, .sa_flags = SA_SIGINFO | SA_NODEFER};
	struct rlimit limit = {(rlim_t)atoi(argv[3]), (rlim_t)atoi(argv[3])};
	struct stat state;
	int damaged = 0, closed = 0, before = 0, after = 0;

	times = atoi(argv[2]);
	if (setrlimit(RLIMIT_NOFILE, &limit))
		return 97;
	sigaction(SIGSYS, &action, NULL);
	/* raw: the agent is not to know that the filter is there */
	if (call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0))
		return 99;
	if (call(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, (long)&program, 0))
		return 99;
	for (int fd = 0; fd < (int)limit.rlim_cur; fd++)
		before += fcntl(fd, F_GETFD) >= 0;
	void *library = dlopen(argv[1], RTLD_NOW);
	int (*calls)(int) = (int (*)(int))dlsym(library, "calls");
	int sum = calls(10);
	for (int i = 0; i < count; i++) {
		closed += fstat(victims[i], &state) != 0;
		damaged += state.st_size != 0;
	}
	for (int fd = 0; fd < (int)limit.rlim_cur; fd++)
		after += fcntl(fd, F_GETFD) >= 0;
	printf("opened %d\nvictims %d\ndamaged %d\nclosed %d\n", opened, count, damaged, closed);
	printf("left %d\nsum %d\n", after - before - count, sum);
	return 0;
}
"""


@pytest.fixture(scope="module")
def program() -> list[str]:
    folder = made(
        {"calls.c": LIBRARY, "main.c": PROGRAM},
        "gcc -O1 -fno-builtin -fPIC -shared -fno-plt -Wl,-z,now calls.c -o libcalls.so",
        "gcc -O1 -fno-builtin main.c -o main -ldl",
    )
    return [str(folder / "main"), str(folder / "libcalls.so")]


@pytest.mark.parametrize("limit", ["1000", "64"])  # with and without room for high numbers
@pytest.mark.parametrize("times", ["0", "1", "1000"])
def test_a_file_that_gets_the_agents_descriptor_is_left_alone(
    program: list[str], times: str, limit: str, tmp_path: Path
) -> None:
    output = tmp_path / "out.json"
    options = ["--count-only", "--json", "-o", str(output), "-e", "abs", "--from", "libcalls.so"]
    done = run([*SOSCOPE, *options, "--", *program, times, limit])
    assert done.returncode == 0, done.stderr
    told = {name: int(value) for name, value in map(str.split, done.stdout.splitlines())}
    assert told["opened"] > 0
    assert told["victims"] == (told["opened"] if times == "1000" else int(times))
    assert {told[name] for name in ("damaged", "closed", "left")} == {0}
    assert told["sum"] == 55
    # if no descriptor stays what it is, the page is made writable for a moment
    assert json.loads(output.read_text())["totals"]["calls"] == 10
