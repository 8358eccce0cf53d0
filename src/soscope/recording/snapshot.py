# SPDX-License-Identifier: Apache-2.0
"""Copy a control block while its threads go on. Nothing is removed from the block.

During these milliseconds no chunk is overwritten. A call that finds no room is dropped, and
counted. If the owner of a chunk still changes, because a new one had begun to take it, the chunk
is left out.
"""

from __future__ import annotations

import mmap

from soscope.recording.spoiled import UNITS, Chunks
from soscope.wire import layout, sharedfile
from soscope.wire.block import ControlBlock


def copy_of(block: ControlBlock) -> ControlBlock:
    """Return a new block with the content of `block`. The caller closes it.

    Raises NoSharedMemory if there is no memory for it.
    """
    descriptor = sharedfile.create(block.size)
    with mmap.mmap(descriptor, block.size) as mapping, memoryview(mapping) as copy:
        policy = block.when_full
        if policy == layout.FULL_OVERWRITE:
            block.when_full = layout.FULL_DROP
        states = _copy_ring(block, copy)
        block.when_full = policy
        # Names are copied after the units that use them.
        for section, size in (
            (layout.SEC_MATCHES, block.section(layout.SEC_MATCHES)[1]),
            (layout.SEC_STRINGS, block.strings_used),
            (layout.SEC_IMAGES, block.image_count * layout.IMAGE.size),
            (layout.SEC_SLOTS, block.slot_count * layout.SLOT.size),
            (layout.SEC_MOVES, block.move_count * layout.MOVE.size),
            (layout.SEC_CALL_SITES, block.call_site_count * layout.CALL_SITE.size),
        ):
            with block.view(section, 0, size) as known:
                start, _ = block.section(section)
                copy[start : start + len(known)] = known
        start, size = block.section(layout.SEC_CHUNK_STATES)
        copy[start : start + size] = states
        with memoryview(block.mapping) as live:
            copy[: layout.PAGE] = live[: layout.PAGE]
    made = ControlBlock(descriptor, block.plan)
    made.bounds, made.written = (
        block.bounds,
        block.written,
    )  # limits of the original's sums
    return made


def _copy_ring(block: ControlBlock, copy: memoryview) -> bytes:
    """Copy the chunks that are in use. Return their states for reading the copy."""
    chunks = Chunks(block)
    try:
        view = block.view(layout.SEC_CHUNK_STATES, 0, 4 * block.chunks)
        with view, view.cast("I") as states:
            known = states.tolist()
            start, _ = block.section(layout.SEC_RING)
            for index, before in enumerate(known):
                if before & layout.CHUNK_STATE == layout.CHUNK_FREE:
                    continue
                at = start + index * layout.CHUNK_SIZE
                seq = chunks.seq(index)
                into = copy[at : at + layout.CHUNK_SIZE]
                if before & layout.CHUNK_STATE == layout.CHUNK_FULL:
                    with chunks.row(index, 1) as row:
                        into[:] = row
                else:
                    _copy_owned(chunks, index, into)
                # Its owner may have filled it meanwhile, but no other thread has taken it.
                is_same = not (states[index] ^ before) & ~layout.CHUNK_STATE
                if not is_same or not seq or chunks.seq(index) != seq:
                    known[index] = layout.CHUNK_FREE
    finally:
        chunks.close()
    return b"".join(state.to_bytes(4, "little") for state in known)


def _copy_owned(chunks: Chunks, index: int, copy: memoryview) -> None:
    """Copy a chunk whose last units may change at this moment.

    An exit makes an OPEN unit WHOLE, and stores its first word last. Only a thread's last unit
    that is no data is changed so. The rest of that unit is copied once more.
    """
    with chunks.row(index, 1) as live:
        copy[:] = live
        with copy.cast("I") as words:
            first = layout.CHUNK_HEADER // 4
            step = layout.UNIT // 4
            commits = words[first : first + UNITS * step : step].tolist()
        for unit in range(UNITS - 1, -1, -1):
            at = layout.CHUNK_HEADER + unit * layout.UNIT
            if commits[unit]:
                copy[at + 4 : at + layout.UNIT] = live[at + 4 : at + layout.UNIT]
                if commits[unit] >> 28 != layout.UNIT_DATA:
                    break
