# SPDX-License-Identifier: Apache-2.0
"""What descriptors are of, from calls and from /proc."""

from __future__ import annotations

import pytest

from soscope.instruments.trace.descriptors import Descriptors
from soscope.model.call import (
    DATA_BYTES,
    DATA_STRING,
    NOTHING,
    Captured,
    Entry,
    Event,
    Exit,
    ProcessExit,
    ProcessStart,
)
from soscope.model.image import ERROR_INT_NEGATIVE, ERROR_NULL, HOOKED, SLOT_JUMP_SLOT, TracedSlot
from soscope.prototypes import load

PROTOTYPES = load()
PID = 7
AT_FDCWD = 0xFFFF_FF9C


def call(
    symbol: str, *words: int, result: int = 0, pid: int = PID, out: bytes = b"", **texts: str
) -> tuple[Entry, Exit]:
    """Make a call; `texts` are strings by their arguments: a0, a1; `out` is what it fills in."""
    rule = ERROR_NULL if symbol in ("fdopen", "fopen", "opendir") else ERROR_INT_NEGATIVE
    slot = TracedSlot(
        0, 0, symbol, "", None, None, 0, SLOT_JUMP_SLOT, HOOKED, False, False, 1, rule
    )
    data = {int(name[1:]): (DATA_STRING, 0, text.encode()) for name, text in texts.items()}
    entry = Entry(0, pid, pid, slot, 0, 0, Captured(words, data=data), False)
    filled = Captured(data={0: (DATA_BYTES, 0, out)}) if out else NOTHING
    return entry, Exit(entry, 9, 9, result, None, filled, "return", pid, pid, slot)


class Seen:
    """Descriptors, and what they say of one."""

    def __init__(self, links: dict[int, str] | None = None) -> None:
        look = None if links is None else lambda _, fd: links.get(fd)
        self.descriptors = Descriptors(look)
        self.descriptors.begin(PROTOTYPES)

    def take(self, *calls: tuple[Entry, Exit] | Event) -> Seen:
        for some in calls:
            self.descriptors.observe(list(some) if isinstance(some, tuple) else [some])
        return self

    def shows(self, fd: int, pid: int = PID) -> str:
        """Return how a descriptor is shown."""
        entry, _ = call("fsync", fd, pid=pid)
        self.descriptors.observe([entry])
        arguments = PROTOTYPES.format_call(entry.slot, entry.captured, 32)
        self.descriptors.mark(entry, arguments)
        return arguments[0].text


OPENED = call("open", 0x5000, 0, a0="/etc/hosts", result=3)


def test_a_descriptor_is_of_what_was_opened() -> None:
    seen = Seen().take(OPENED)
    assert seen.shows(3) == "3</etc/hosts>"
    assert seen.shows(4) == "4"
    assert seen.shows(0xFFFF_FFFF) == "-1"


def test_the_result_of_open_says_it_too() -> None:
    seen = Seen().take(OPENED)
    assert seen.descriptors.mark_result(OPENED[1], "3") == "3</etc/hosts>"
    failed = call("open", 0x5000, 0, a0="/nope", result=0xFFFF_FFFF)
    assert seen.take(failed).descriptors.mark_result(failed[1], "-1") == "-1"


@pytest.mark.parametrize(
    ("calls", "shown"),
    [
        ([call("close", 3)], "3"),
        ([call("close", 3, result=0xFFFF_FFFF)], "3</etc/hosts>"),
        ([call("dup2", 3, 5, result=5), call("close", 3)], "5</etc/hosts>"),
        ([call("dup", 3, result=5)], "5</etc/hosts>"),
        ([call("fcntl", 3, 0, 5, result=5)], "5</etc/hosts>"),
        ([call("dup2", 9, 3, result=3)], "3"),
        ([call("fdopen", 3, 0x5000, result=0x7000)], "3</etc/hosts>"),
        ([call("fdopen", 3, 0x5000, result=0x7000), call("fclose", 0x7000)], "3"),
        ([call("fdopen", 3, 0x5000, result=0x7000), call("fclose", 0x8000)], "3</etc/hosts>"),
        (
            [call("opendir", 0x5000, a0="/etc", result=0x7000), call("dirfd", 0x7000, result=5)],
            "5</etc>",
        ),
        (
            [
                call("fopen", 0x5000, 0x6000, a0="/x", a1="r", result=0x7000),
                call("fileno", 0x7000, result=5),
                call("fclose", 0x7000),
            ],
            "5",
        ),
        ([call("fileno", 0x7000, result=3)], "3</etc/hosts>"),
        ([call("closefrom", 3)], "3"),
        ([call("socket", 2, 1, 0, result=3)], "3<socket>"),
        ([call("epoll_create1", 0, result=3)], "3<epoll>"),
        ([call("memfd_create", 0x5000, 0, a0="x", result=3)], "3<memfd:x>"),
        ([call("pipe", 0x5000, out=b"\3\0\0\0\4\0\0\0")], "3<pipe>"),
        ([call("openat", AT_FDCWD, 0x5000, 0, a1="here", result=3)], "3<here>"),
        ([call("openat", 3, 0x5000, 0, a1="below", result=4)], "4</etc/hosts/below>"),
        ([call("openat", 9, 0x5000, 0, a1="below", result=3)], "3"),
        ([call("open", 0x5000, 0, a0="/a\x1b[31m\n", result=3)], r"3</a\033[31m\n>"),
    ],
)
def test_calls_change_what_it_is_of(calls: list[tuple[Entry, Exit]], shown: str) -> None:
    seen = Seen().take(OPENED, *calls)
    assert seen.shows(int(shown.partition("<")[0])) == shown


def test_a_child_inherits_and_goes_its_own_way() -> None:
    seen = Seen().take(OPENED, ProcessStart(1, 8, "fork", PID, "x"), call("close", 3))
    assert seen.shows(3) == "3"
    assert seen.shows(3, pid=8) == "3</etc/hosts>"
    seen.take(ProcessStart(2, 8, "exec", None, "y"))  # it may have been closed by that
    assert seen.shows(3, pid=8) == "3"
    seen.take(OPENED, ProcessExit(3, PID, 0, None))
    assert seen.shows(3) == "3"


def test_proc_knows_what_no_call_has_said() -> None:
    seen = Seen({0: "/dev/pts/3", 1: "pipe:[17]"})
    assert seen.shows(0) == "0</dev/pts/3>"
    assert seen.shows(1) == "1<pipe:[17]>"
    assert seen.shows(2) == "2"
    assert seen.descriptors.looked == 2
    assert seen.descriptors.nameless == 1
    looked, nameless = seen.descriptors.remarks()
    assert looked.startswith("uses of descriptors of which /proc alone knew, ")
    assert looked.endswith(": 2")
    assert "that no call was seen to open: 1, without a name " in nameless


def test_a_command_has_the_streams_of_who_starts_it() -> None:
    descriptors = Descriptors(None, {0: "/dev/pts/3", 2: "/tmp/log"})
    descriptors.begin(PROTOTYPES)
    seen = Seen()
    seen.descriptors = descriptors
    seen.take(ProcessStart(1, PID, "start", None, "/bin/prog"))
    assert (seen.shows(0), seen.shows(1), seen.shows(2)) == ("0</dev/pts/3>", "1", "2</tmp/log>")
    seen.take(ProcessStart(2, PID + 1, "fork", PID, "/bin/prog"), call("close", 0, pid=PID))
    assert (seen.shows(0), seen.shows(0, pid=PID + 1)) == ("0", "0</dev/pts/3>")
    seen.take(ProcessStart(3, PID, "exec", None, "/bin/other"))
    assert seen.shows(2) == "2"  # nobody knows which of them the exec has closed


@pytest.mark.parametrize(
    ("opened", "link", "shown"),
    [
        ("/etc/hosts", "/etc/hosts", "/etc/hosts"),
        ("/etc//hosts", "/etc/hosts", "/etc//hosts"),
        ("/etc/hosts", "/etc/hosts (deleted)", "/etc/hosts"),
        ("here/x", "/home/here/x", "/home/here/x"),
        ("/etc/hosts", "/etc/other", "/etc/hosts?"),
        ("/etc/hosts", "socket:[5]", "/etc/hosts?"),
        ("here", "/elsewhere", "here?"),
    ],
)
def test_what_differs_is_doubtful(opened: str, link: str, shown: str) -> None:
    seen = Seen({3: link}).take(call("open", 0x5000, 0, a0=opened, result=3))
    assert seen.shows(3) == f"3<{shown}>"
    assert seen.descriptors.looked == 0


def test_nothing_is_kept_of_calls_that_are_over() -> None:
    seen = Seen()
    for _ in range(100):
        seen.take(OPENED, call("fsync", 3), call("close", 3))
    assert len(seen.descriptors._at) <= 1


def test_sockets_are_called_by_their_peers() -> None:
    address = b"\2\0\x1f\x90\x7f\0\0\1" + bytes(8)
    entry, leave = call("connect", 3, 0x5000, 16)
    entry.captured.data[1] = (DATA_BYTES, 0, address)
    seen = Seen().take(call("socket", 2, 1, 0, result=3), (entry, leave))
    assert seen.shows(3) == "3<socket:127.0.0.1:8080>"


def test_a_connection_under_way_has_a_peer() -> None:
    address = b"\2\0\x1f\x90\x7f\0\0\1" + bytes(8)
    entry, leave = call("connect", 3, 0x5000, 16, result=0xFFFF_FFFF)
    entry.captured.data[1] = (DATA_BYTES, 0, address)
    leave.errno = 111  # refused
    seen = Seen().take(call("socket", 2, 1, 0, result=3), (entry, leave))
    assert seen.shows(3) == "3<socket>"
    leave.errno = 115
    assert seen.take((entry, leave)).shows(3) == "3<socket:127.0.0.1:8080>"
