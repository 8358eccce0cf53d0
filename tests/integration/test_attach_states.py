# SPDX-License-Identifier: Apache-2.0
"""Tracing processes in unusual states: stopped, without a first thread, sharing their memory."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from soscope.entry.stopping import Threads
from tests.support.processes import attached
from tests.support.processes.launching import compiled
from tests.support.targets import build
from tests.support.time import busy
from tests.support.time.patience import limit, until
from tests.support.time.progress import has_switched, state

_SHORT = ("-c", "--duration", "50ms")

_LEADERLESS = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <poll.h>

static void *work(void *argument)
{
	struct pollfd input = {0, POLLIN, 0};
	volatile int sink = 0;

	(void)argument;
	while (poll(&input, 1, 1) == 0)
		sink += abs(sink - 7);
	puts("end");
	exit(sink > 0 ? 7 : 8);
}

int main(void)
{
	pthread_t thread;

	puts("ready");
	fflush(stdout);
	pthread_create(&thread, NULL, work, NULL);
	pthread_exit(NULL);
}
"""

_SHARING = r"""
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
	int status;
	char byte;
	pid_t child;

	puts("ready");
	fflush(stdout);
	child = vfork();
	if (!child) {
		(void)!read(0, &byte, 1);
		_exit(3);
	}
	waitpid(child, &status, 0);
	return status == 3 << 8 ? 7 : 8;
}
"""

_EPOLL = r"""
#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>

int main(void)
{
	struct epoll_event event;
	int result, epoll = epoll_create1(0);

	puts("ready");
	fflush(stdout);
	result = epoll_wait(epoll, &event, 1, 60000);
	printf("%d %d\n", result, result < 0 ? errno : 0);
	return 7;
}
"""


def wait_for_state(pid: int, letter: str) -> None:
    until(lambda: state(pid) == letter, f"{pid} is in state {letter}")


def child_of(pid: int) -> int:
    [child] = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


def test_a_stopped_process_stays_stopped() -> None:
    """Its parent hears nothing of us either, and it goes on when somebody says so."""
    with attached.running([build.program("attached"), "3"]) as process:
        before = attached.snapshot(process.pid)
        process.send_signal(signal.SIGSTOP)
        waited = os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        assert waited is not None
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        done = attached.trace(process.pid, *_SHORT)
        assert done.returncode == 0, done.stderr
        assert attached.differences(before, process.pid) == []
        threads = [int(one.name) for one in Path(f"/proc/{process.pid}/task").iterdir()]
        until(lambda: {state(process.pid, tid) for tid in threads} == {"T"}, "all are stopped")
        assert os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOHANG) is None
        process.send_signal(signal.SIGCONT)
        assert attached.finish(process) == (7, "wrong 0\n", "")


def test_it_is_traced_from_when_it_goes_on() -> None:
    with attached.running([build.program("attached"), "2"]) as process:
        process.send_signal(signal.SIGSTOP)
        wait_for_state(process.pid, "T")
        tracer = attached.begin(process.pid, "-c")
        assert state(process.pid) == "T"
        process.send_signal(signal.SIGCONT)
        until(has_switched(process.pid), "it makes calls")
        tracer.send_signal(signal.SIGINT)
        _, text = tracer.communicate(timeout=limit())
        assert tracer.returncode == 0, text
        assert "malloc" in text
        assert attached.finish(process) == (7, "wrong 0\n", "")


def test_what_its_stop_has_interrupted_stays_so() -> None:
    """signal(7): epoll_wait ends with EINTR when a stopped process goes on."""
    results = []
    for traces in (False, True):
        with attached.running([compiled("epoll.c", text=_EPOLL)]) as process:
            wait_for_state(process.pid, "S")
            process.send_signal(signal.SIGSTOP)
            wait_for_state(process.pid, "T")
            if traces:
                done = attached.trace(process.pid, *_SHORT)
                assert done.returncode == 0, done.stderr
                wait_for_state(process.pid, "T")
            process.send_signal(signal.SIGCONT)
            results.append(process.communicate(timeout=limit(120))[0])
    assert results[0] == results[1]


def test_a_process_whose_first_thread_has_ended() -> None:
    with attached.running([compiled("leaderless.c", "-fno-builtin", text=_LEADERLESS)]) as process:
        wait_for_state(process.pid, "Z")
        for _ in range(2):
            # its mappings are shown for its other thread alone
            tracer = attached.start(process.pid, "-c")
            attached.wait_for_hooks(tracer)
            until(has_switched(process.pid), "it makes calls", running=tracer)
            tracer.send_signal(signal.SIGINT)
            _, text = tracer.communicate(timeout=limit())
            assert tracer.returncode == 0, text
            assert "abs" in text
            assert "has ended" not in text
        assert attached.detach(process.pid).returncode == 0
        assert attached.finish(process) == (7, "end\n", "")


def test_who_shares_its_memory_is_refused() -> None:
    """A child between vfork and exec: hooks would be its parent's, too, and stay there."""
    with attached.running([compiled("sharing.c", text=_SHARING)]) as process:
        wait_for_state(process.pid, "D")
        child = child_of(process.pid)
        before = Path(f"/proc/{process.pid}/maps").read_text()
        done = attached.trace(child, *_SHORT)
        assert done.returncode == 1, done.stderr
        assert f"shares its memory with process {process.pid}" in done.stderr
        done = attached.trace(process.pid, *_SHORT)
        assert done.returncode == 1, done.stderr
        assert f"shares its memory with process {child}" in done.stderr
        assert Path(f"/proc/{process.pid}/maps").read_text() == before
        assert attached.finish(process) == (7, "", "")


BUSY = f"""{busy.SHARE}
print("ready", flush=True)
while True:
    pass
"""


def test_one_that_has_no_processor_is_waited_for() -> None:
    """It stops as soon as it gets one, and has not refused to until then."""
    with (
        busy.processor() as number,
        attached.running([sys.executable, "-c", BUSY, number]) as process,
    ):
        threads = Threads(process.pid)
        for _ in range(20):
            threads.stop(limit=0.0)
            assert [one.is_stopped for one in threads.stopped.values()] == [True]
            threads.resume()
            wait_for_state(process.pid, "R")


def test_a_process_that_gives_up_its_memory_has_executed_nothing() -> None:
    """Much memory takes long to give back: the process has none by then, and is no zombie yet."""
    code = "import sys; much = b'1' * (400 << 20); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        tracer = attached.begin(process.pid, "-c")
        process.kill()
        tracer.terminate()
        _, said = tracer.communicate(timeout=limit())
    assert "executed" not in said


_DROPPED = r"""
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* the addresses are taken: instructions of the calls are changed, not the slots */
void *(*volatile keep)(size_t);
void (*volatile keep_other)(void *);

int main(void)
{
	char line[8];

	if (setgroups(0, NULL) || setgid(65534) || setuid(65534))
		return 1;
	keep = malloc;
	keep_other = free;
	puts("ready");
	fflush(stdout);
	for (int i = 0; read(0, line, 4) > 0; i++) {
		for (int at = 0; at < 100; at++) {
			char *volatile block = malloc(100);
			block[0] = 1;
			free(block);
		}
		(void)!write(1, "done\n", 5);
	}
	return 7;
}
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up rights")
def test_a_daemon_that_has_given_up_its_rights_is_hooked(tmp_path: Path) -> None:
    """Its own /proc/self/mem is closed to it, so soscope changes the code."""
    program = compiled("dropped.c", text=_DROPPED)
    with attached.running([program]) as process:
        before = attached.snapshot(process.pid)
        tracer = attached.start(
            process.pid,
            "-c",
            "--json",
            "-e",
            "malloc,free",
            "-o",
            str(tmp_path / "o"),
        )
        attached.wait_for_hooks(tracer)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("more")
        process.stdin.flush()
        assert process.stdout.readline() == "done\n"
        tracer.send_signal(signal.SIGINT)
        _, errors = tracer.communicate(timeout=limit())
        assert tracer.returncode == 0, errors
        rows = json.loads((tmp_path / "o").read_text())["rows"]
        assert {row["symbol"]: row["calls"] for row in rows} == {"malloc": 100, "free": 100}
        assert attached.differences(before, process.pid) == []
        process.stdin.write("more")
        process.stdin.flush()
        assert process.stdout.readline() == "done\n"


_LOADS_LATER = r"""
#include <dlfcn.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	void (*work)(int);
	void *library;
	char line[8];

	if (!strcmp(argv[1], "refused"))
		prctl(65, 1, 0, 0, 0); /* PR_SET_MDWE */
	if (setgroups(0, NULL) || setgid(65534) || setuid(65534))
		return 1;
	puts("ready");
	fflush(stdout);
	while (read(0, line, 4) > 0) {
		library = dlopen(argv[2], RTLD_NOW);
		work = (void (*)(int))dlsym(library, "work");
		work(100);
		dprintf(1, "done\n");
	}
	return 7;
}
"""
_LOADED = r"""
#include <stdlib.h>

/* the addresses are taken: instructions of the calls are changed, not the slots */
void *(*volatile keep)(size_t);
void (*volatile keep_other)(void *);

void work(int times)
{
	keep = malloc;
	keep_other = free;
	for (int i = 0; i < times; i++) {
		char *volatile block = malloc(100);
		block[0] = 1;
		free(block);
	}
}
"""


def _loading_later(how: str, folder: Path) -> list[str]:
    program = compiled("loads_later.c", text=_LOADS_LATER)
    there = build.made({"late.c": _LOADED}, "gcc -O1 -fPIC -shared -o liblate.so late.c")
    return [str(program), how, str(shutil.copy(there / "liblate.so", folder))]


def _text_of(pid: int, name: str) -> tuple[str, bool]:
    """Return the rights of the code of an image, and whether that is what the file has."""
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        addrs, rights, offset, _, _, *path = line.split()
        if "x" in rights and path and path[0].endswith(name):
            start, end = (int(addr, 16) for addr in addrs.split("-"))
            with open(f"/proc/{pid}/mem", "rb") as memory, open(path[0], "rb") as file:
                memory.seek(start)
                file.seek(int(offset, 16))
                wanted = file.read(end - start)
                return rights, memory.read(len(wanted)) == wanted
    raise AssertionError(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up rights")
@pytest.mark.parametrize("how", ["", "refused"])
def test_what_such_a_daemon_loads_later_is_hooked(how: str, public_path: Path) -> None:
    """A process may also forbid itself code that can be written: then that is said."""
    with attached.running(_loading_later(how, public_path)) as process:
        tracer = attached.begin(process.pid, "-c", "--from", "liblate.so", "-e", "malloc,free")
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("more")
        process.stdin.flush()
        assert process.stdout.readline() == "done\n"
        tracer.send_signal(signal.SIGINT)
        _, errors = tracer.communicate(timeout=limit())
        if how:
            assert "not hooked in liblate.so (calling code that cannot be changed)" in errors
            assert "not complete" in errors
        else:
            assert "200 calls through 2 slots of liblate.so" in errors
        assert _text_of(process.pid, "liblate.so") == ("r-xp", True)
        process.stdin.write("more")
        process.stdin.flush()
        assert process.stdout.readline() == "done\n"
