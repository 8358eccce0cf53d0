# SPDX-License-Identifier: Apache-2.0
"""What decides which thread makes a call for soscope, and with which state."""

from __future__ import annotations

import struct

import pytest

from soscope.entry.isa import arch
from soscope.entry.isa.x86_64 import Registers, Vectors, forget_restart, interrupted_sp
from soscope.entry.seccomp import objection_to_loading

_READ, _MMAP, _NANOSLEEP, _FUTEX, _RESTART = 0, 9, 35, 202, 219
_ERESTARTSYS, _ERESTART_RESTARTBLOCK = 512, 516
_FUTEX_WAIT, _FUTEX_WAIT_BITSET, _PRIVATE, _REALTIME = 0, 9, 128, 256
_KILL, _ALLOW, _EACCES = 0x8000_0000, 0x7FFF_0000, 0x0005_000D


def waiting(number: int, result: int = -_ERESTARTSYS, operation: int = 0) -> Registers:
    registers = Registers()
    registers.orig_rax = number
    registers.rax = result & 0xFFFF_FFFF_FFFF_FFFF
    registers.rsi = operation
    return registers


@pytest.mark.parametrize(
    ("registers", "is_outside", "is_no_pause"),
    [
        (waiting(_READ), True, True),
        (waiting(_READ, 4), False, False),
        (waiting(_MMAP), False, False),
        (waiting(_NANOSLEEP, -_ERESTART_RESTARTBLOCK), True, False),
        (waiting(_RESTART, -_ERESTART_RESTARTBLOCK), True, False),
        (waiting(_FUTEX, operation=_FUTEX_WAIT | _PRIVATE), False, False),
        (waiting(_FUTEX, operation=_FUTEX_WAIT_BITSET | _PRIVATE | _REALTIME), True, False),
    ],
)
def test_what_a_thread_waits_for(registers: Registers, is_outside: bool, is_no_pause: bool) -> None:
    code = bytes.fromhex("b800000000 0f05")
    assert arch.waits_outside(registers, code) == is_outside
    assert arch.waits_outside(registers, code, lends_pauses=False) == is_no_pause


def test_a_condition_of_musl_is_told_from_its_locks() -> None:
    registers = waiting(_FUTEX, operation=_FUTEX_WAIT | _PRIVATE)
    assert arch.waits_outside(registers, bytes.fromhex("4c895c2408 0f05"))


def test_what_the_kernel_has_forgotten_is_made_again_or_says_eintr() -> None:
    own, unknown = waiting(_NANOSLEEP), waiting(_RESTART)
    for registers in (own, unknown):
        forget_restart(registers)
    assert (own.result, own.orig_rax) == (-514, _NANOSLEEP)
    assert unknown.result == -4
    assert not arch.is_interrupted(unknown)


def test_a_frame_of_a_signal_is_known_by_its_segment() -> None:
    frame = bytearray(arch.FRAME_SIZE)
    assert interrupted_sp(bytes(frame)) == 0
    frame[arch.FRAME_CS] = 0x33
    frame[arch.FRAME_SP : arch.FRAME_SP + 8] = (0x7FFF_1230).to_bytes(8, "little")
    assert interrupted_sp(bytes(frame)) == 0x7FFF_1230
    assert interrupted_sp(bytes(frame[:-1])) == 0


def test_a_fresh_state_keeps_the_keys_of_memory_and_nothing_else() -> None:
    data = bytearray(b"\xee" * 2696)
    data[512:576] = struct.pack("<Q", 0x2E7) + bytes(56)
    fresh = Vectors(0x202, bytes(data)).fresh()
    made = fresh._data
    assert len(made) == len(data)
    assert made[:8] == bytes.fromhex("7f03000000000000")
    assert made[24:28] == bytes.fromhex("801f0000")
    assert made[32:416] == bytes(384)
    assert made[512:520] == struct.pack("<Q", 0x203)
    assert made[576:] == data[576:]


def rule(number: int, verdict: int) -> bytes:
    """Return a filter that has this to say of one system call, and allows all others."""
    steps = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (6, 0, 0, verdict), (6, 0, 0, _ALLOW)]
    return b"".join(struct.pack("<HBBI", *step) for step in steps)


def test_a_filter_may_fail_what_a_loader_calls_but_not_kill_for_it() -> None:
    openat = arch.LOADER_CALLS["openat"]
    assert objection_to_loading([rule(1, _KILL)]) is None
    assert objection_to_loading([rule(openat, _EACCES)]) is None
    said = objection_to_loading([rule(1, _ALLOW), rule(openat, _KILL)])
    assert said is not None
    assert "openat" in said
