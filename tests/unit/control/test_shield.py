# SPDX-License-Identifier: Apache-2.0
"""Work in a process of its own: its result, what it raises, what becomes of its end."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from soscope.control import shield
from soscope.control.shield import is_abandoned, shielded
from soscope.entry.agent.visit import Executed
from soscope.errors import NoSuchProcess, NotPermitted, SoscopeError
from soscope.proc.reasons import Refused


def test_the_result_comes_back() -> None:
    pid = os.getpid()
    other, names = shielded(lambda: (os.getpid(), [("x", 1), ("y", 1 << 70)]))
    assert other != pid
    assert names == [("x", 1), ("y", 1 << 70)]


@pytest.mark.parametrize(
    "error",
    [
        Refused("busy"),
        Executed("another program"),
        NoSuchProcess("no process 1", errno=3),
        NotPermitted("no", hint="be root"),
        PermissionError(1, "not permitted"),
    ],
)
def test_what_it_raises_is_raised(error: Exception) -> None:
    def work() -> tuple[object, ...]:
        raise error

    with pytest.raises(type(error)) as caught:
        shielded(work)
    assert str(caught.value) == str(error)


def test_a_bug_is_an_error() -> None:
    empty: dict[str, int] = {}
    with pytest.raises(SoscopeError, match="KeyError"):
        shielded(lambda: (empty["x"],))


def test_one_that_is_killed_is_an_error() -> None:
    def work() -> tuple[object, ...]:
        os.kill(os.getpid(), signal.SIGKILL)
        return ()

    with pytest.raises(SoscopeError, match="was killed"):
        shielded(work)


def test_files_that_it_opens_come_with_the_result(tmp_path: Path) -> None:
    path = tmp_path / "file"
    files: list[int] = []

    def work() -> tuple[object, ...]:
        files.append(os.open(path, os.O_RDWR | os.O_CREAT))
        os.write(files[0], b"written")
        return ()

    shielded(work, files)
    (descriptor,) = files
    try:
        assert os.pread(descriptor, 10, 0) == b"written"
        assert not os.get_inheritable(descriptor)  # nor what a user of the module executes
    finally:
        os.close(descriptor)


def test_one_that_is_killed_while_it_answers_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "file"
    files: list[int] = []
    before = os.listdir("/proc/self/fd")

    def work() -> tuple[object, ...]:
        files.append(os.open(path, os.O_RDWR | os.O_CREAT))
        threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGKILL]).start()
        return (bytes(1 << 20),)  # more than the socket holds

    def stand_still() -> None:
        time.sleep(0.5)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(shield, "_LONG", 1e-9)
        patched.setattr(shield, "_PAUSE", 0.0)
        with pytest.raises(SoscopeError, match="was killed"):
            shielded(work, files, stand_still)
    assert not files
    assert os.listdir("/proc/self/fd") == before


def test_it_knows_when_nobody_waits_for_it_any_more(tmp_path: Path) -> None:
    said = tmp_path / "said"

    def work() -> tuple[object, ...]:
        begun, end = is_abandoned(), time.monotonic() + 20
        (tmp_path / "begun").touch()
        while not is_abandoned() and time.monotonic() < end:
            time.sleep(0.01)
        (tmp_path / "new").write_text(f"{begun} {is_abandoned()}")
        (tmp_path / "new").rename(said)
        return ()

    assert not is_abandoned()
    soscope = os.fork()
    if not soscope:
        shielded(work)
        os._exit(0)
    end = time.monotonic() + 20
    while not (tmp_path / "begun").exists() and time.monotonic() < end:
        time.sleep(0.01)
    os.kill(soscope, signal.SIGKILL)
    os.waitpid(soscope, 0)
    while not said.exists() and time.monotonic() < end:
        time.sleep(0.01)
    assert said.read_text() == "False True"


def test_who_is_to_end_does_not_wait_for_ever() -> None:
    began = time.monotonic()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    try:
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        with pytest.raises(SoscopeError, match="not waited for: process") as caught:
            shielded(lambda: (signal.sigtimedwait([], 60),))
        child = int(caught.value.message.split()[4])
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    finally:
        assert signal.sigtimedwait([signal.SIGTERM], 0) is not None
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    assert time.monotonic() - began < 30


def test_who_waits_for_long_is_told_once() -> None:
    told: list[int] = []

    def slow() -> tuple[int]:
        time.sleep(2.0)
        return (0,)

    shielded(slow, on_long=lambda: told.append(1))
    assert told == [1]
    shielded(lambda: (1,), on_long=lambda: told.append(2))
    assert told == [1]
