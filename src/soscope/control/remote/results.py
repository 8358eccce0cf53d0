# SPDX-License-Identifier: Apache-2.0
"""Read results of calls that are more than a word."""

from __future__ import annotations

from soscope.control.remote import longdoubles
from soscope.control.remote.floats import (
    X87,
    as_single,
    float_register,
    top_register,
    whole_register,
)
from soscope.control.remote.records import ClassedRecord, PassedRecord
from soscope.entry.remote.convention import (
    LONG_DOUBLE_PAIR,
    LONG_DOUBLE_POINTER,
    LONG_DOUBLE_SHORT,
    LONG_DOUBLE_X87,
    Convention,
)
from soscope.prototypes import compiled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from soscope.entry.remote.stub import StoppedThread, WordMemory

_EIGHT = 8
_TWO_WORDS = 16  # bytes


def record_result(
    stub: StoppedThread, memory: WordMemory, convention: Convention, of: PassedRecord, hidden: int
) -> bytes:
    """Return the bytes of a structure or complex number that a call has returned.

    `hidden` is the address that the caller passed for it.
    """
    if of.has_hidden:
        return memory.read(hidden, of.size)
    if isinstance(of, ClassedRecord):
        return _of_registers(stub, of)[: of.size]
    order: Literal["little", "big"] = "little" if memory.coding.order == "<" else "big"
    size = memory.coding.bits // 8
    if not of.returns_apart:
        names = convention.result_words[: -(-of.size // size)]
        return b"".join(stub.get(name).to_bytes(size, order) for name in names)[: of.size]
    made = bytearray(of.size)
    floats = iter(convention.result_floats)
    words = iter(convention.result_words)
    half = b""
    for number in of.numbers:
        if not number.is_float:
            data = stub.get(next(words)).to_bytes(size, "little")
        elif half and number.size == _EIGHT // 2:
            data, half = half, b""
        else:
            data = float_register(stub, convention, next(floats))
            if number.size == _EIGHT // 2:
                half = data[4:] if convention.singles_packed else b""
                data = as_single(data, convention)
        data = data[: number.size]
        made[number.at : number.at + number.size] = data if order == "little" else data[::-1]
    return bytes(made)


def _of_registers(stub: StoppedThread, of: ClassedRecord) -> bytes:
    data = b""
    for place in of.places:
        if place >= compiled.SECOND_FLOAT:
            data += stub.get_bytes(f"xmm{place - compiled.SECOND_FLOAT}")[:_EIGHT]
        else:
            data += stub.get(("rax", "rdx")[place]).to_bytes(_EIGHT, "little")
    return data


def long_double_result(
    stub: StoppedThread, memory: WordMemory, convention: Convention, hidden: int
) -> tuple[int, int]:
    """Return the two words of the x87 number nearest to a result.

    `hidden` is as for `record_result`.
    """
    how = convention.long_double
    if how == LONG_DOUBLE_SHORT:
        return longdoubles.from_double(float_register(stub, convention, convention.result_float))
    if how == LONG_DOUBLE_X87:
        name = top_register(stub, convention, convention.result_x87)
        data = whole_register(stub, convention, name)
        return int.from_bytes(data[:8], "little"), int.from_bytes(data[8:X87], "little")
    if how == LONG_DOUBLE_PAIR:
        first = convention.floats.index(convention.result_float)
        names = convention.floats[first : first + 2]
        return longdoubles.from_pair(*(float_register(stub, convention, name) for name in names))
    if how == LONG_DOUBLE_POINTER:
        data = memory.read(hidden, _TWO_WORDS)
    elif convention.floats_hold_quads:
        data = whole_register(stub, convention, convention.result_float)
    else:
        names = convention.words[:2]
        data = b"".join(stub.get(name).to_bytes(8, "little") for name in names)
    return longdoubles.from_quad(data if memory.coding.order == "<" else data[::-1])
