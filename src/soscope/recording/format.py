# SPDX-License-Identifier: Apache-2.0
"""The layout of a recording (`*.sosr`): blocks one after the other, append-only.

The module also defines which events of processes end open calls.
"""

from __future__ import annotations

import struct
import zlib

from soscope.model.call import ENDED_EXIT, ENDED_KILLED, ProcessExit, ProcessStart
from soscope.recording.sink import Told
from soscope.wire import layout

# Events of processes that end open calls, and how they end them.


def ends_calls(event: Told) -> bool:
    """Return whether `event` ends the open calls of its process."""
    return isinstance(event, ProcessExit) or (
        isinstance(event, ProcessStart) and event.event == "exec"
    )


def how_ended(event: Told) -> str:
    """Return whether the calls that are open at `event` end by exit or by a signal."""
    killed = isinstance(event, ProcessExit) and event.signal is not None
    return ENDED_KILLED if killed else ENDED_EXIT


SCHEMA = "soscope/recording/1"
MAGIC = 0x52534F53  # "SOSR"

META = 1
PROGRAM = 2
IMAGES = 3
SLOTS = 4
STRINGS = 5
PROTOTYPES = 6
CHUNK = 7
CHUNKS = 8
EVENTS = 9
CLOCK = 10
DROPPED = 11
LOST = 12
COUNTS = 13
STATS = 14
END = 15
CALL_SITES = 16
OBJECTS = 17
STACKS = 18
TROUBLE = 19
SUMS = 20
SELF_TIMES = 21
REPORTED = 22
SAMPLES = 24
SPOILED = 25
MOVES = 26

HEADS = 1  # flag of older versions: the CRC covers only the headers of chunks
REWRITTEN = 2  # flag: the CRC covers only the header of the block

HEADER = struct.Struct("<IIQII")
PAIR_HEADER = struct.Struct("<II")  # program and a number, in blocks IMAGES … CHUNKS
CLOCK_BODY = struct.Struct("<QQQ")
DROPPED_BODY = struct.Struct(f"<IIQ{layout.DROP_KINDS + 3}Q")
LOST_BODY = struct.Struct("<6Q")
SPOILED_BODY = struct.Struct("<IIQ")
COUNT_CELL = struct.Struct("<IIQ")
STATS_CELL = struct.Struct("<II6Q")

# No writer makes longer blocks. A larger length is damage, and no reason to allocate memory.
MAX_LENGTH = 64 << 20


def checksum(kind: int, flags: int, parts: tuple[bytes | memoryview, ...]) -> int:
    """Return the CRC of a block that holds `parts`.

    With HEADS the parts are a header and the result of `heads_and_units`.
    """
    length = sum(map(len, parts))
    crc = zlib.crc32(HEADER.pack(MAGIC, kind, length, 0, flags))
    if flags & REWRITTEN:
        return crc
    if flags & HEADS:
        return zlib.crc32(b"".join((parts[0], *parts[1::2])), crc)
    for part in parts:
        crc = zlib.crc32(part, crc)
    return crc


def heads_and_units(chunks: bytes | memoryview) -> list[bytes | memoryview]:
    """Return the header and the units of each chunk, alternating."""
    whole = memoryview(chunks)
    parts: list[bytes | memoryview] = []
    for at in range(0, len(whole), layout.CHUNK_SIZE):
        units = at + layout.CHUNK_HEADER
        parts += whole[at:units], whole[units : at + layout.CHUNK_SIZE]
    return parts


def block(kind: int, *parts: bytes | memoryview, flags: int = 0) -> list[bytes | memoryview]:
    """Return the buffers that form a block of `parts`, to be written one after the other."""
    length = sum(map(len, parts))
    header = HEADER.pack(MAGIC, kind, length, checksum(kind, flags, parts), flags)
    return [header, *parts, bytes(-length % 8)]


def padded(length: int) -> int:
    """Return how many bytes a block of `length` bytes takes in the file."""
    return HEADER.size + length + -length % 8
