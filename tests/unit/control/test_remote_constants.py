# SPDX-License-Identifier: Apache-2.0
"""Constants of other machines, said as x86-64 has them: by what the headers of both say."""

from __future__ import annotations

import errno
import os
import signal

import pytest

from soscope.control.breakpoints.layouts import AS_HERE, Constants
from soscope.entry.remote.conventions import convention_of
from soscope.model.arch import arch_named

# of asm/signal.h, asm/errno.h, bits/fcntl.h, bits/resource.h of MIPS
SIGNALS = {16: "USR1", 17: "USR2", 18: "CHLD", 10: "BUS", 25: "CONT", 23: "STOP", 2: "INT"}
ERRNOS = {2: "ENOENT", 89: "ENOSYS", 145: "ETIMEDOUT", 146: "ECONNREFUSED", 122: "EOPNOTSUPP"}


@pytest.fixture
def mips() -> Constants:
    """Return those of MIPS."""
    arch = arch_named("mips")
    assert arch is not None
    convention = convention_of(arch)
    assert convention is not None
    return Constants(convention.flags, convention.constants)


def test_values_and_flags(mips: Constants) -> None:
    for number, name in SIGNALS.items():
        assert mips.meant("signal", number) == signal.Signals[f"SIG{name}"]
    assert mips.meant("open", 0x100 | 0x8 | 1) == os.O_CREAT | os.O_APPEND | os.O_WRONLY
    assert mips.meant("socket_type", 2 | 0x80) == 1 | 0x800  # SOCK_STREAM, SOCK_NONBLOCK
    assert mips.meant("socket_type", 5) == 5  # SOCK_SEQPACKET
    assert not mips.has("clock")


def test_sets_of_signals(mips: Constants) -> None:
    there = sum(1 << number - 1 for number in SIGNALS)
    here = sum(1 << signal.Signals[f"SIG{name}"] - 1 for name in SIGNALS.values())
    assert mips.signals(there) == here
    assert AS_HERE.signals(there) == there


def test_errors_have_their_numbers_here() -> None:
    arch = arch_named("mips")
    assert arch is not None
    convention = convention_of(arch)
    assert convention is not None
    for number, name in ERRNOS.items():
        here = [
            low + number - at for at, count, low in convention.errnos if 0 <= number - at < count
        ]
        assert (here or [number]) == [getattr(errno, name)]
