# SPDX-License-Identifier: Apache-2.0
"""An agent whose start fails in a running process leaves nothing changed there."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.files.elffiles import built
from tests.support.processes import attached
from tests.support.processes.launching import environment
from tests.support.targets import build
from tests.support.targets.covering import sizes
from tests.support.targets.matrix import REPOSITORY
from tests.support.time.patience import limit, until
from tests.support.time.progress import has_run

FAILING = f"""\
import sys
from soscope.entry.tracee import Faulted, Tracee

def call(self, function, *arguments, **words):
    made(self, function, *arguments, **words)
    raise Faulted({int(signal.SIGSEGV)}, function)

made, Tracee.call = Tracee.call, call
sys.argv[0] = "soscope"
from soscope.verbs.main import start
start()
"""


def test_what_a_start_has_changed_is_put_back() -> None:
    with attached.running([build.program("attached_mixed")]) as process:
        before = attached.snapshot(process.pid, without="libanl")
        done = subprocess.run(
            [sys.executable, "-c", FAILING, "trace", "-c", "-p", str(process.pid)],
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=attached.LIMIT,
            check=False,
        )
        assert done.returncode == 1, done.stderr
        assert "the agent's start: signal 11" in done.stderr
        assert attached.differences(before, process.pid, without="libanl") == []
        done = attached.trace(process.pid, "-c", "--duration", "50ms")
        assert done.returncode == 0, done.stderr
        assert attached.differences(before, process.pid, without="libanl") == []
        assert attached.finish(process) == (7, "wrong 0, some 1\n", "")


# In soscope and its children: one call of a function of the kernel's fails, or all of them.
BROKEN = """\
import os, sys, _signal as signal
module, name, first, last = sys.argv[1:5]
of, count = {"os": os, "signal": signal}[module], 0

def call(*arguments):
    global count
    count += 1
    if int(first) <= count <= int(last):
        raise PermissionError(1, "Operation not permitted")
    return made(*arguments)

made = getattr(of, name)
setattr(of, name, call)
sys.argv[:5] = ["soscope"]
from soscope.verbs.main import start
start()
"""

MANY = 1 << 30


@pytest.mark.parametrize(
    ("function", "first", "last"),
    [
        *(("os.waitpid", number, number) for number in (3, 6, 9, 10, 11, 12)),
        ("os.waitpid", 1, MANY),
        ("os.waitpid", 10, MANY),
        ("signal.sigtimedwait", 1, 1),
        ("signal.sigtimedwait", 1, MANY),
    ],
)
def test_a_thread_that_makes_our_calls_outlives_an_error_of_ours(
    function: str, first: int, last: int
) -> None:
    """Somebody may forbid soscope to wait: the thread gets its own registers back all the same."""
    module, name = function.split(".")
    with attached.running([build.program("attached_mixed")]) as process:
        subprocess.run(
            [
                *(sys.executable, "-c", BROKEN, module, name, str(first), str(last)),
                *("trace", "-c", "--duration", "50ms", "-p", str(process.pid)),
            ],
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=attached.LIMIT,
            check=False,
        )
        done = attached.trace(process.pid, "-c", "--duration", "50ms")
        assert done.returncode == 0, done.stderr
        assert attached.finish(process) == (7, "wrong 0, some 1\n", "")


_TRACE, _TRIM = ["trace", "-c", "--duration", "50ms"], ["mem", "trim"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        *((name, _TRACE) for name in ("wait4", "rt_sigtimedwait", "rt_sigprocmask")),
        *((name, _TRIM) for name in ("wait4", "rt_sigprocmask")),  # limitations.md has the third
    ],
)
def test_a_refused_call_of_ours_is_told_by_its_name(name: str, words: list[str]) -> None:
    """A seccomp filter may forbid soscope a call; the process has not ended, and it is no bug."""
    with attached.running([build.program("attached_mixed")]) as process:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "tests.support.processes.forbid", name),
                *(sys.executable, "-m", "soscope", *words, "-p", str(process.pid)),
            ],
            env=environment(),
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=attached.LIMIT,
            check=False,
        )
        assert done.returncode == 3, done.stderr
        assert f"system call {name}: operation not permitted" in done.stderr
        assert "seccomp" in done.stderr
        assert attached.finish(process) == (7, "wrong 0, some 1\n", "")


# The n-th child that does soscope's work is killed before its m-th request to the kernel; the
# requests that it has made are counted.
KILLED = """\
import os, signal, sys
from soscope.entry import ptrace
children, last, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
soscope, forks, count = os.getpid(), 0, 0

def forked():
    global forks
    forks += 1
    return fork()

def dying(made):
    def call(*arguments):
        global count
        if forks == children and os.getpid() != soscope:
            count += 1
            if count == last:
                os.kill(os.getpid(), signal.SIGKILL)
        return made(*arguments)
    return call

def end(status):
    if count:
        with open(path, "w") as file:
            file.write(str(count))
    leave(status)

fork, os.fork, leave, os._exit = os.fork, forked, os._exit, end
ptrace.request, os.waitpid, os.pwrite = map(dying, (ptrace.request, os.waitpid, os.pwrite))
sys.argv[:4] = ["soscope"]
from soscope.verbs.main import start
start()
"""

# It notices if a register or a signal mask is not its own: registers that a call may change, too,
# as a thread may be stopped anywhere. Half the time it waits with a time-out.
HOLDING = """\
#include <fenv.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int hold(void)
{
    double in[4] = {1.25, -2.5, 3.75, 5.5}, out[4] = {0};
    unsigned long a = 0, b = 0;
    __asm__ volatile("movupd (%[in]), %%xmm9; movupd 16(%[in]), %%xmm15; "
                     "mov $0x1234567890, %%r11; mov $0x987654321, %%r13; mov $3000, %%ecx; "
                     "1: pause; dec %%ecx; jnz 1b; "
                     "movupd %%xmm9, (%[out]); movupd %%xmm15, 16(%[out]); "
                     "mov %%r11, %[a]; mov %%r13, %[b]"
                     : [a] "=&r"(a), [b] "=&r"(b)
                     : [in] "r"(in), [out] "r"(out)
                     : "rcx", "r11", "r13", "xmm9", "xmm15", "memory");
    return memcmp(in, out, sizeof in) || a != 0x1234567890 || b != 0x987654321;
}

int main(void)
{
    struct pollfd input = {0, POLLIN, 0};
    sigset_t blocked, now;
    long wrong = 0;
    int turn = 0, found;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    fesetround(FE_UPWARD);
    puts("ready");
    fflush(stdout);
    while (!(found = poll(&input, 1, turn++ % 64 ? 0 : 5))) {
        wrong += hold();
        sigprocmask(SIG_SETMASK, NULL, &now);
        wrong += memcmp(&now, &blocked, 8) || fegetround() != FE_UPWARD;
    }
    printf("wrong %ld, found %d", wrong, found);
    return 7;
}
"""


@pytest.mark.parametrize("step", sizes(67, 1))
@pytest.mark.parametrize(
    ("child", "words"),
    [
        (1, ["trace", "-c", "--duration", "50ms"]),  # attach
        (2, ["trace", "-c", "--duration", "50ms"]),  # detach
        (1, ["mem", "live", "--blocks", "--duration", "50ms"]),
        (1, ["mem", "snapshot", "--blocks", "--duration", "50ms"]),
    ],
)
def test_a_program_outlives_the_child_that_makes_calls_in_it(
    child: int, words: list[str], step: int, tmp_path: Path
) -> None:
    """Whenever the child is killed, the program goes on with its own registers and signals."""
    program, path = built(tmp_path, "holding", HOLDING, "-lm"), tmp_path / "count"
    moment, count = 1, -1
    while count < 0 and moment < 5000:
        with attached.running([program]) as process:
            soscope = subprocess.run(
                [
                    *(sys.executable, "-c", KILLED, str(child), str(moment), str(path)),
                    *(*words, "-p", str(process.pid)),
                ],
                env=environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=attached.LIMIT,
                check=False,
            )
            assert path.exists() or "was killed" in soscope.stderr or child > 1, soscope.stderr
            if path.exists():
                count = int(path.read_text())
                assert count < moment, soscope.stderr
            until(has_run(process.pid, cpu=0.02), f"it goes on after {moment}", running=process)
            assert attached.tracer_of(process.pid) == 0
            assert attached.finish(process) == (7, "wrong 0, found 1", ""), moment
        moment += step
    assert count > 50


@pytest.mark.parametrize("most", range(8, 13))
def test_who_has_no_descriptor_left_does_not_say_that_the_process_has_ended(most: int) -> None:
    script = f'ulimit -n {most}; exec "$@"'
    words = ["sh", "-c", script, "-", sys.executable, "-m", "soscope", "mem", "snapshot", "-p"]
    with attached.running([build.program("attached_mixed")]) as process:
        looking = subprocess.Popen(
            [*words, str(process.pid)], env=environment(), stderr=subprocess.PIPE, text=True
        )
        # who has enough of them watches the process for ten seconds
        maps, goes_on = Path(f"/proc/{process.pid}/maps"), has_run(process.pid, cpu=0.1)
        until(
            lambda: (
                looking.poll() is not None or ("memfd:soscope" in maps.read_text() and goes_on())
            ),
            "soscope has failed, or the program goes on",
        )
        looking.send_signal(signal.SIGINT)
        _, said = looking.communicate(timeout=limit())
        assert "has ended" not in said
        assert "too many open files" in said or most > 8
        assert attached.finish(process) == (7, "wrong 0, some 1\n", "")
