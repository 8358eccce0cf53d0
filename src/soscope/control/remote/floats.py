# SPDX-License-Identifier: Apache-2.0
"""Read floating-point registers and convert the numbers to x86-64's format."""

from __future__ import annotations

import struct
from math import ldexp

from soscope.entry.remote.convention import Convention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.entry.remote.stub import StoppedThread

_NAN = bytes.fromhex("0000f87f")
X87 = 10  # bytes of a number
_TOP = 11  # first bit of TOP, the top register's number, in the status word


def float_register(stub: StoppedThread, convention: Convention, name: str) -> bytes:
    """Return the low 8 bytes of a floating-point register, in little-endian order."""
    data = whole_register(stub, convention, name)
    if convention.is_whole is not None:
        data += _upper_half(stub, convention, name)
    return _from_x87(data) if len(data) == X87 else data[:8].ljust(8, b"\0")


def whole_register(stub: StoppedThread, convention: Convention, name: str) -> bytes:
    """Return a floating-point register in little-endian order, b"" if there is none."""
    for each in (name, *(name.replace(*pair, 1) for pair in convention.instead)):
        if each in stub.registers:
            data = stub.get_bytes(each)
            return data[::-1] if stub.order == ">" else data
    return b""


def _upper_half(stub: StoppedThread, convention: Convention, name: str) -> bytes:
    """Return the half of a register that the stub does not report, a NaN's if it is not known."""
    assert convention.is_whole is not None
    state, bit = convention.is_whole
    if not stub.get(state) >> bit & 1:
        return whole_register(stub, convention, f"{name[0]}{int(name[1:]) + 1}")
    return stub.upper_half(name) or _NAN


def _from_x87(data: bytes) -> bytes:
    """Return the double nearest to a number of 80 bits."""
    mantissa = int.from_bytes(data[:8], "little")
    power = int.from_bytes(data[8:], "little")
    sign = -1.0 if power >> 15 else 1.0
    power &= 0x7FFF
    if power == 0x7FFF:
        number = sign * (float("inf") if mantissa << 1 & (1 << 64) - 1 == 0 else float("nan"))
    else:
        try:
            number = sign * ldexp(mantissa, power - 16383 - 63)
        except OverflowError:
            number = sign * float("inf")
    return struct.pack("<d", number)


def as_single(data: bytes, convention: Convention) -> bytes:
    """Return a float in x86-64's format, from the contents of its register."""
    if convention.singles_high:
        return data[4:] + bytes(4)
    if not convention.single_as_double:
        return data[:4] + bytes(4)
    (number,) = struct.unpack("<d", data)
    try:
        return struct.pack("<f", number) + bytes(4)
    except OverflowError:
        return struct.pack("<f", float("inf")) + bytes(4)


def top_register(stub: StoppedThread, convention: Convention, name: str) -> str:
    """Return the name of the register that holds a result, by the convention's `name`.

    For the x87 stack, the number of the top register is appended.
    """
    if convention.result_top:
        name += str(stub.get(convention.result_top) >> _TOP & 7)
    return name
