# SPDX-License-Identifier: Apache-2.0
"""Breakpoints of the processor, and whether an emulator can be stopped by them."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator

import pytest

from soscope.binfmt.source import BufferSource
from soscope.entry import ptrace
from soscope.entry.isa import arch
from soscope.entry.remote import qemu

_LIBC = ctypes.CDLL(None)
_FUNCTION = ctypes.cast(_LIBC.getppid, ctypes.c_void_p).value or 0


@pytest.fixture
def child() -> Iterator[tuple[int, int]]:
    """Give a process that waits for a byte, calls a function, and so on; and where to write."""
    ours, theirs = os.pipe(), os.pipe()
    pid = os.fork()
    if not pid:
        while os.read(ours[0], 1):
            _LIBC.getppid()
        os._exit(0)
    os.close(ours[0])
    yield pid, ours[1]
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, ptrace.WALL)
    for descriptor in (ours[1], *theirs):
        os.close(descriptor)


def test_who_waits_in_a_system_call_can_be_stopped(child: tuple[int, int]) -> None:
    pid, write = child
    qemu.seize_in_stub(pid, ptrace.O_EXITKILL)
    arch.stop_at(pid, _FUNCTION)
    ptrace.resume(pid)
    for _ in range(2):
        os.write(write, b"x")
        status = os.waitpid(pid, ptrace.WALL)[1]
        assert os.WSTOPSIG(status) == signal.SIGTRAP
        assert arch.get_registers(pid).pc == _FUNCTION
        ptrace.resume(pid)


def test_without_breakpoints_it_goes_on_untraced(
    child: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = child[0]
    monkeypatch.setattr(arch, "stop_at", lambda *_: None)
    with pytest.raises(OSError, match="breakpoints do not work"):
        qemu.seize_in_stub(pid, ptrace.O_EXITKILL)
    with open(f"/proc/{pid}/status") as file:
        assert "TracerPid:\t0\n" in file.read()


def test_the_entry_of_translated_code_is_found() -> None:
    memory = BufferSource(bytes(16) + arch.EMULATOR_ENTRY + bytes(64), "memory")
    assert qemu.entry_of_code(memory, [(0, 64)]) == 16
    with pytest.raises(OSError, match="unknown kind"):
        qemu.entry_of_code(BufferSource(bytes(64), "memory"), [(0, 64)])
