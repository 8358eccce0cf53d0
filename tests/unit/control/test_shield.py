# SPDX-License-Identifier: Apache-2.0
"""Work in a process of its own: its result, what it raises, what becomes of its end."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from soscope.control import shield
from soscope.control.shield import give, is_abandoned, shielded
from soscope.entry.agent.install import StartFault
from soscope.entry.agent.visit import Executed
from soscope.errors import (
    AgentError,
    AmbiguousError,
    AttachError,
    FormatError,
    NoSuchProcess,
    NotPermitted,
    SoscopeError,
)
from soscope.proc.status import Refused
from tests.support.time.patience import until
from tests.support.time.progress import has_switched, state, waits_in

_SENDS = 44, 46  # sendto and sendmsg on x86-64


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
        NotPermitted("no", hint="be root", errno=1),
        PermissionError(1, "not permitted", "/etc/shadow"),
        AttachError("cannot attach", hint="try again"),
        AgentError("the agent is damaged"),
        FormatError("bad", field="f", offset=1),
        SoscopeError("plain", slug="no-such-image", exit_status=7),
        StartFault("it gave up", 0x1000),
        AmbiguousError("two", ("a", "b")),
    ],
    ids=repr,
)
def test_what_it_raises_is_raised(error: Exception) -> None:
    def work() -> tuple[object, ...]:
        raise error

    with pytest.raises(type(error)) as caught:
        shielded(work)
    assert type(caught.value) is type(error)
    assert str(caught.value) == str(error)
    assert vars(caught.value) == vars(error)
    if isinstance(error, OSError):
        came = caught.value
        assert isinstance(came, OSError)
        assert (came.errno, came.filename) == (error.errno, error.filename)


def test_an_error_that_holds_an_object_keeps_its_text() -> None:
    def work() -> tuple[object, ...]:
        raise AmbiguousError("two answers", (object(), object()))

    with pytest.raises(SoscopeError, match="AmbiguousError: two answers"):
        shielded(work)


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


def test_files_that_it_gives_are_taken_before_it_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "file"
    files: list[int] = []

    def work() -> tuple[object, ...]:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        os.write(descriptor, b"written")
        give([descriptor])
        return (os.pread(descriptor, 10, 0),)

    def take(given: list[int]) -> None:
        files.extend(given)
        os.pwrite(given[0], b"read", 0)

    assert shielded(work, take) == (b"readten",)
    (descriptor,) = files
    try:
        assert not os.get_inheritable(descriptor)  # nor what a user of the module executes
    finally:
        os.close(descriptor)


def test_files_are_taken_where_no_process_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []

    def work() -> tuple[object, ...]:
        descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
        give([descriptor])
        os.close(descriptor)
        return ()

    def fork() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", fork)
    shielded(work, taken.extend)
    assert os.path.samestat(os.fstat(taken[0]), os.stat(tmp_path / "file"))
    os.close(taken[0])


def test_one_that_is_killed_while_it_answers_is_an_error() -> None:
    (hears, tells), (reader, writer) = os.pipe(), os.pipe()
    before = os.listdir("/proc/self/fd")

    def work() -> tuple[object, ...]:
        os.write(writer, b"%d" % os.getpid())
        os.read(hears, 1)
        return (bytes(1 << 20),)  # more than the socket holds

    def kill_it() -> None:
        child = int(os.read(reader, 20))
        os.write(tells, b"x")
        until(waits_in(child, *_SENDS), "it answers")
        os.kill(child, signal.SIGKILL)
        until(lambda: state(child) == "Z", "it is killed")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(shield, "_LONG", 1e-9)
        patched.setattr(shield, "_PAUSE", 0.0)
        with pytest.raises(SoscopeError, match="was killed"):
            shielded(work, on_long=kill_it)
    assert os.listdir("/proc/self/fd") == before
    for end in (hears, tells, reader, writer):
        os.close(end)


def test_it_knows_when_nobody_waits_for_it_any_more(tmp_path: Path) -> None:
    said = tmp_path / "said"

    def work() -> tuple[object, ...]:
        begun = is_abandoned()
        (tmp_path / "begun").touch()
        until(is_abandoned, "nobody waits")
        (tmp_path / "new").write_text(f"{begun} {is_abandoned()}")
        (tmp_path / "new").rename(said)
        return ()

    assert not is_abandoned()
    soscope = os.fork()
    if not soscope:
        shielded(work)
        os._exit(0)
    until((tmp_path / "begun").exists, "the work has begun")
    os.kill(soscope, signal.SIGKILL)
    os.waitpid(soscope, 0)
    until(said.exists, "the work has ended")
    assert said.read_text() == "False True"


def test_who_is_to_end_does_not_wait_for_ever() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    try:
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        with pytest.raises(SoscopeError, match="not waited for: process") as caught:
            shielded(lambda: (signal.sigtimedwait([], 6000),))
        child = int(caught.value.message.split()[4])
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    finally:
        assert signal.sigtimedwait([signal.SIGTERM], 0) is not None
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])


def test_who_waits_for_long_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    hears, tells = os.pipe()

    def slow() -> tuple[int]:
        os.read(hears, 1)
        until(has_switched(os.getppid(), 5), "who was told waits again and again")
        return (0,)

    def tell() -> None:
        told.append(1)
        os.write(tells, b"x")

    monkeypatch.setattr(shield, "_LONG", 0.01)
    monkeypatch.setattr(shield, "_PAUSE", 0.02)
    shielded(slow, on_long=tell)
    assert told == [1]
    monkeypatch.setattr(shield, "_LONG", 1e9)
    shielded(lambda: (1,), on_long=tell)
    assert told == [1]
    os.close(hears)
    os.close(tells)
