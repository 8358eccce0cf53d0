# SPDX-License-Identifier: Apache-2.0
"""Get memory of soscope's in a program: its first thread makes one borrowed system call."""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.control.remote.guest import GuestMemory
from soscope.entry.remote import packets
from soscope.entry.remote.convention import Convention
from soscope.entry.remote.stub import RemoteStub
from soscope.errors import RemoteError

SIZE = 2 << 20
_BELOW = 4096  # bytes
_ANSWER = 10.0  # seconds
_READ_WRITE_RUN = 7
_RUN = 4
_PRIVATE = 2


def make(
    stub: RemoteStub,
    memory: GuestMemory,
    convention: Convention,
    loader: ElfImage,
    bias: int,
    *,
    is_code: bool = False,
) -> int:
    """Return the address of `SIZE` bytes that the program has mapped for soscope.

    With `is_code` the memory is executable. The thread is stopped at the first instruction of
    `loader`, and is there again afterwards. Raises RemoteError if the loader has no system call
    instruction to borrow, or if this system call fails.
    """
    vaddr = _system_call(loader, convention)
    if not vaddr:
        raise RemoteError("the program's loader has no system call to borrow")
    at = vaddr + bias
    behind = at + len(convention.system)
    flags = _PRIVATE | convention.mmap_anonymous
    access = _READ_WRITE_RUN if is_code else _READ_WRITE_RUN & ~_RUN
    values = (0, SIZE, access, flags, (1 << memory.coding.bits) - 1, 0)
    changed = {convention.number: convention.mmap}
    changed |= dict(zip(convention.system_words, values, strict=False))
    changed[convention.pc] = at
    if convention.state is not None:  # the system call is in the other instruction set
        state, bit = convention.state
        changed[state] = stub.get(state) | 1 << bit
    if convention.mmap_by_address:  # the arguments lie below the stack
        place = stub.get(convention.sp) - _BELOW
        size = memory.coding.word.size
        for number, value in enumerate(values):
            memory.write_word(place + number * size, value)
        changed = {convention.number: convention.mmap, convention.system_words[0]: place}
        changed[convention.pc] = at
    if convention.system_stack:
        place = changed[convention.sp] = stub.get(convention.sp) - _BELOW
        size = memory.coding.word.size
        for number, value in enumerate(values[len(convention.system_words) :]):
            memory.write_word(place + convention.system_stack + number * size, value)
    before = {name: stub.get(name) for name in (*changed, convention.result)}
    for name, value in changed.items():
        stub.put(name, value)
    stub.insert(behind, convention.breakpoint)
    stub.resume_alone()
    stop = stub.wait(_ANSWER)
    if stop is None or stop.kind != packets.SIGNAL or stub.get(convention.pc) != behind:
        raise RemoteError("a system call of the program's loader could not be borrowed")
    result = stub.get(convention.result)
    stub.remove(behind, convention.breakpoint)
    for name, value in before.items():
        stub.put(name, value)
    if not result or result % 4096 or len(memory.read(result, 8)) < 8:
        raise RemoteError("the program has no memory for the tracer")
    return result


def _system_call(image: ElfImage, convention: Convention) -> int:
    """Return the link-time address of a system call instruction, 0 if there is none."""
    step = convention.code
    for segment in image.segments:
        if segment.type != c.PT_LOAD or not segment.flags & c.PF_X:
            continue
        code = image.read(segment.vaddr, segment.filesz, "PT_LOAD")
        at = code.find(convention.system)
        while at >= 0:
            if not (segment.vaddr + at) % step:
                return segment.vaddr + at
            at = code.find(convention.system, at + 1)
    return 0
