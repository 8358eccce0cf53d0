# SPDX-License-Identifier: Apache-2.0
"""Restartable sequences (rseq(2)): code that the kernel aborts when it is interrupted.

The kernel checks a thread's program counter when the thread goes on, and drops the sequence if
the program counter is outside of it. A thread in which soscope makes calls is outside then. So
the kernel's abort has to be done in the registers that the thread gets back.
"""

from __future__ import annotations

from struct import Struct

from soscope.entry import ptrace
from soscope.entry.isa import arch
from soscope.entry.stop.tracee import Tracee

_SEQUENCE_AT = 8  # offset in `struct rseq` of the address of `struct rseq_cs`
_SEQUENCE = Struct("<IIQQQ")  # version, flags, start_ip, post_commit_offset, abort_ip
_SIGNATURE_SIZE = 4  # bytes before abort_ip


def begin_anew(tracee: Tracee, registers: arch.Registers) -> None:
    """If a stopped thread is inside a sequence, set its saved registers to the abort address.

    Nothing is changed in the thread itself. The registers stay unchanged before Linux 5.13, and
    if the thread's sequence is invalid (the kernel would kill it for that).
    """
    try:
        area, signature = ptrace.rseq(tracee.tid)
        sequence = tracee.memory.word(area + _SEQUENCE_AT) if area else 0
    except OSError:
        return  # not supported; for a killed thread the next request fails
    if not sequence:
        return
    data = tracee.memory.read(sequence, _SEQUENCE.size)
    if len(data) < _SEQUENCE.size:
        return
    _, _, start, size, abort = _SEQUENCE.unpack(data)
    if not 0 <= registers.pc - start < size:
        return
    before = tracee.memory.read(abort - _SIGNATURE_SIZE, _SIGNATURE_SIZE)
    if int.from_bytes(before, "little") == signature:
        registers.pc = abort
