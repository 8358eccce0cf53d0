# SPDX-License-Identifier: Apache-2.0
"""A thread in whose place calls are made."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from soscope.entry.stopping import Threads
from soscope.entry.tracee import Borrowed, Faulted, Gone
from soscope.proc import maps
from soscope.proc.status import read_status
from tests.support.time.patience import limit


def address_of_vdso(pid: int) -> int:
    """Return where the code of the kernel's is that every process has."""
    return next(one.start for one in maps.read(pid) if one.path == "[vdso]")


def kill(process: subprocess.Popen[bytes], moment: str = "step") -> None:
    """Kill a process that is stopped, and let it go on."""
    with Borrowed(process.pid) as tracee:
        process.kill()
        while True:
            if moment == "registers":
                tracee.registers()
            else:
                tracee.run_to_trap(step=True, limit=0.2 if moment == "limit" else None)


def test_one_that_is_killed_meanwhile_is_gone_and_nothing_else() -> None:
    words = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(words) as process:
        threads = Threads(process.pid)
        try:
            threads.stop()
        except PermissionError:
            process.kill()
            raise
        with pytest.raises(Gone):
            kill(process)
        threads.resume()
    assert not os.path.exists(f"/proc/{process.pid}/exe")


MANY = """
import threading, time
for _ in range(4):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("moment", ["step", "limit", "registers"])
def test_one_of_many_threads_that_is_killed_meanwhile_is_gone(moment: str) -> None:
    """The end of the first thread is told when all others have been waited for, which are ours."""
    words = [sys.executable, "-c", MANY]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        threads = Threads(process.pid)
        threads.stop()
        try:
            with pytest.raises(Gone):
                kill(process, moment)
        finally:
            threads.resume()
    assert not os.path.exists(f"/proc/{process.pid}/exe")


HANDLES = """
import os, signal
found = []
signal.signal(signal.SIGSEGV, lambda number, frame: found.append(number))
print("ready", flush=True)
while len(found) < 1:
    signal.pause()
print(found, flush=True)
"""


def test_a_fault_of_ours_leaves_the_handler_and_a_signal_that_was_sent_arrives() -> None:
    with subprocess.Popen([sys.executable, "-c", HANDLES], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        caught = read_status(process.pid)["SigCgt"]
        threads = Threads(process.pid)
        threads.stop()
        try:
            with Borrowed(process.pid) as tracee:
                registers = tracee.registers()
                registers.pc = 16
                registers.orig_rax = -1  # no call that would begin again
                tracee.set_registers(registers)
                with pytest.raises(Faulted, match="signal 11"):
                    tracee.run_to_trap()
                assert tracee.find_syscall([(address_of_vdso(process.pid), 8192)])
                process.send_signal(signal.SIGSEGV)
                assert tracee.syscall(39) == process.pid  # getpid
            assert read_status(process.pid)["SigCgt"] == caught
        finally:
            threads.resume()
        assert process.stdout.readline() == b"[11]\n"
        assert process.wait(limit()) == 0
        assert int(caught, 16) >> signal.SIGSEGV - 1 & 1
