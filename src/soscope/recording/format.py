# SPDX-License-Identifier: Apache-2.0
"""The layout of a recording (`*.sosr`): blocks one after the other, append-only.

A block is `u32 magic, u32 type, u64 length, u32 crc32, u32 flags`, `length` bytes, and zeros
up to the next multiple of 8; all integers little-endian. The CRC covers the header (with a
CRC of 0) and the bytes. With flag 1, which CHUNKS of older versions have, it covers of each chunk
the header alone. With flag 2, which SUMS have, it covers the header alone.

The first block is META, its JSON says the schema. A reader skips types that it does
not know. What the types hold:

META        JSON object: schema, command, versions, options, start_ns
PROGRAM     JSON object: what is known of one traced program (an exec starts another); later
            blocks with the same `index` replace earlier ones
IMAGES      u32 program, u32 first index, then `struct sosc_image[]` of wire.h; later records
            replace earlier ones of the same index; a record with `ready` 0 is to be ignored
SLOTS       the same with `struct sosc_slot[]`
STRINGS     u32 program, u32 offset, then bytes of the program's strings
CALL_SITES  as SLOTS with `struct sosc_call_site[]`: what OPEN and WHOLE units name by number
MOVES       as SLOTS with `struct sosc_move[]`: when images were loaded and closed
PROTOTYPES  UTF-8 text: C declarations that soscope itself does not know; any number of them
CHUNK       u32 program, u32 number of the first unit, `struct sosc_chunk`, then units
CHUNKS      u32 program, u32 count, then whole chunks with their headers
EVENTS      JSON array of objects, see `events`
CLOCK       u64 tsc, u64 realtime ns, u64 monotonic (raw) ns, taken together; every unit
            committed before then stands before this block
DROPPED     u32 program, u32 0, u64 tsc, then cumulative u64: dropped[8], dropped_exits,
            images_dropped, slots_dropped, as in `struct sosc_control`
LOST        u64 tsc from, u64 tsc to, u64 entries, u64 exits, u64 bytes, u64 errno: what could
            not be written to this file in that time
COUNTS      u32 program, u32 0, then {u32 slot, u32 0, u64 calls}
STATS       u32 program, u32 0, then {u32 slot, u32 0, u64 calls, returns, errors, total, min,
            max}; times are ticks of the tsc
SELF_TIMES  as COUNTS, behind STATS: of each slot's total the ticks that no nested call took
OBJECTS     u32 program, u32 0, then a JSON object: what the interpreter of process `pid` has alive:
            `rows` of [file, line, type, qualified name, count, bytes], its `runtime`, and
            whether that is the `last` word of it
STACKS      u32 program, u32 number of the first word, then u64[]: stacks of calls, as
            soscope/blocks.h has them; what BLOCK and MAPPED units, and entries of calls
            (ITEM_STACK), name by number
TROUBLE     u32 errno, u32 0, u64 offset: 0, 0, 0, but when writing has failed for the first time,
            and how long the file was then. The writer changes it in its place: a full disk has
            no room for more
SUMS        u64 sequence, u64 bytes in use, u32 crc32 of both and of these, u32 0; then that many
            bytes: sums of what was not recorded one by one, as an instrument writes them. A block
            with flag 2: its own CRC covers its header alone, and it is written over again and
            again, two of them by turns. The one with the highest sequence counts
REPORTED    u32 program, u32 0, then a JSON object: calls that instrumented code has reported;
            see instruments/prof/reported.py
SAMPLES     JSON object: stacks that were seen, how often, in which threads; see
            instruments/prof/sampling/tally.py. Numbers go on from the blocks before
SPOILED     u32 program, u32 0, u64 how much of its records and counters a program had written over
            itself by then: those are left out
END         JSON object: exit status or signal, complete, why, totals; nothing follows
"""

from __future__ import annotations

import struct
import zlib

from soscope.wire import layout

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
