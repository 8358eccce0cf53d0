# SPDX-License-Identifier: Apache-2.0
"""Accounts of threads, against the thread's own clock."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from soscope.proc import status
from soscope.proc.status import ThreadAccount, machine_ns, process_ns
from tests.support.time.patience import until

SPINS = "print(flush=True)\nwhile True: pass"
WAITS = "import sys\nprint(flush=True)\nsys.stdin.read()"


@contextmanager
def running(code: str) -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


@pytest.mark.parametrize("most", [400, 0])
def test_the_time_is_that_of_the_thread_itself(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "_MOST_KEPT", most)
    account = ThreadAccount(os.getpid(), threading.get_native_id())
    sum(range(1_000_000))
    before = time.thread_time_ns()  # whoever asks for it brings the account up to date
    ran, waited, turns = account.look()
    assert before <= ran <= time.thread_time_ns()
    assert turns > 0
    assert waited >= 0
    assert process_ns(os.getpid()) >= ran
    account.close()
    account.close()


def test_who_waits_is_known() -> None:
    with running(WAITS) as pid:
        account = ThreadAccount(pid, pid)
        until(account.waits, "it waits")  # it may have the end of its print to write
        assert account.waits()
        account.close()
    with running(SPINS) as pid:
        account = ThreadAccount(pid, pid)
        until(lambda: not account.waits(), "it runs")  # the same
        assert not account.waits()
        account.close()


def test_a_thread_that_is_gone_has_no_account() -> None:
    with running(WAITS) as pid:
        account = ThreadAccount(pid, pid)
        before = account.look()
    with pytest.raises((ProcessLookupError, ValueError)):
        account.look()
    with pytest.raises(FileNotFoundError):
        ThreadAccount(pid, pid)
    account.close()
    assert before[0] > 0


def test_the_time_of_all_processors_has_what_ran_and_what_the_host_took() -> None:
    stolen, whole = machine_ns()
    before = process_ns(os.getpid())
    sum(range(8_000_000))
    ran = process_ns(os.getpid()) - before
    stolen_after, whole_after = machine_ns()
    ticks = 80_000_000  # each of eight columns may be a tick of 10 ms behind
    assert whole_after - whole >= ran - ticks
    assert 0 <= stolen_after - stolen <= whole_after - whole
