# SPDX-License-Identifier: Apache-2.0
"""Restartable sequences (rseq(2)): code that the kernel lets begin anew when it is interrupted.

The kernel looks at a thread's program counter when the thread goes on, and forgets the sequence
if that is outside of it. A thread in whose place calls are made is outside then; so what the
kernel would have done has to be done to the registers that it gets back.
"""

from __future__ import annotations

from struct import Struct

from soscope.entry import ptrace
from soscope.entry.isa import arch
from soscope.entry.stop.tracee import Tracee

_SEQUENCE_AT = 8  # of `struct rseq`: the address of `struct rseq_cs`
_SEQUENCE = Struct("<IIQQQ")  # version, flags, start_ip, post_commit_offset, abort_ip
_SIGNATURE_SIZE = 4  # bytes before abort_ip


def begin_anew(tracee: Tracee, registers: arch.Registers) -> None:
    """Where a stopped thread is inside a sequence, lead its registers to where that is given up.

    Nothing is changed in the thread itself. Before Linux 5.13, and where what the thread says of
    its sequence is none (the kernel would kill it for that), its registers stay what they are.
    """
    try:
        area, signature = ptrace.rseq(tracee.tid)
        sequence = tracee.memory.word(area + _SEQUENCE_AT) if area else 0
    except OSError:
        return  # the kernel does not say; of a killed thread the next request does
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
