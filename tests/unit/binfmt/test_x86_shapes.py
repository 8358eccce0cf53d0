# SPDX-License-Identifier: Apache-2.0
"""What only looks like a stub is none, where nothing but code says what is one."""

from __future__ import annotations

import pytest

from soscope.binfmt.isa.x86 import stubs

_SLOT = 0x2000
_BASE = 0x1000


def _rows_64(code: bytes) -> list[stubs.Row]:
    return list(stubs.stubs_64(code, _BASE, {_SLOT}, 0, is_plt=False))


def _rows_32(code: bytes) -> list[stubs.Row]:
    return list(stubs.stubs_32(code, _BASE, {_SLOT}, 0, 0, is_plt=False))


_LOAD_64 = b"\x4c\x8b\x1d" + (_SLOT - _BASE - 7).to_bytes(4, "little")
_LOAD_32 = b"\x50\xa1" + _SLOT.to_bytes(4, "little")
_AWAY = b"\x10\xff\xff\xff"


@pytest.mark.parametrize(
    ("code", "size"),
    [
        (_LOAD_64 + b"\xe9" + _AWAY + b"\xcc" * 4, 16),
        (_LOAD_64 + b"\xe8" + _AWAY + b"\xe9" + _AWAY + b"\x68\0\0\0\0\xe9" + _AWAY, 32),
    ],
)
def test_a_retpoline_is_one(code: bytes, size: int) -> None:
    assert _rows_64(code) == [(_BASE, size, _SLOT, stubs.RETURN)]


@pytest.mark.parametrize(
    "behind",
    [
        b"\xe9" + _AWAY + b"\x0f\x1f\x40\0",  # a loop that goes on elsewhere
        b"\xe9" + _AWAY + b"\x48\x8d\x0d\xbd\xe3\x04\0",
        b"\xe8" + _AWAY + b"\x48\x85\xc0\x74\x10" + bytes(16),
    ],
)
def test_code_that_loads_a_slot_and_goes_elsewhere_is_no_retpoline(behind: bytes) -> None:
    assert not _rows_64(_LOAD_64 + behind)


def test_on_i386_a_call_with_an_argument_is_no_retpoline() -> None:
    lazy = b"\xe8" + _AWAY + b"\xe9" + _AWAY + b"\x68\0\0\0\0\xe9" + _AWAY
    assert _rows_32(_LOAD_32 + lazy) == [(_BASE, 32, _SLOT, stubs.RETURN)]
    assert not _rows_32(_LOAD_32 + b"\xe8" + _AWAY + b"\x83\xc4\x10" + bytes(16))
