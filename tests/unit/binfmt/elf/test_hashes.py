# SPDX-License-Identifier: Apache-2.0
"""The two hash functions, by values that others publish."""

from __future__ import annotations

from soscope.binfmt.elf.lookup import gnu_hash, sysv_hash


def test_gnu_hash() -> None:
    assert gnu_hash(b"") == 5381
    assert gnu_hash(b"printf") == 0x156B2BB8
    assert gnu_hash(b"exit") == 0x7C967E3F
    assert gnu_hash(b"syscall") == 0xBAC212A0


def test_sysv_hash() -> None:
    assert sysv_hash(b"") == 0
    assert sysv_hash(b"printf") == 0x077905A6
    assert sysv_hash(b"exit") == 0x0006CF04
    assert sysv_hash(b"syscall") == 0x0B09985C
