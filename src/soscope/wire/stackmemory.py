# SPDX-License-Identifier: Apache-2.0
"""The own memory of an instrument that keeps stacks: what it begins with (soscope/blocks.h)."""

from __future__ import annotations

from soscope.wire import blocklayout, objectlayout

BITS = 20  # of the number of buckets
WORDS = 1 << 23  # of stacks and codes: some 350,000 of 23 frames


def stack_memory(
    layouts: bytes,
    *,
    bits: int = BITS,
    words: int = WORDS,
    mode: int = blocklayout.BLOCKS_EXACT,
    scale: int = 0,
    arrays: int = 0,
    frames: int = 0,
    has_xsave: bool = False,
) -> tuple[bytes, int]:
    """Return the first bytes, and the size of all; it is sparse.

    `layouts` are the structs sosc_python; `arrays` is how many struct sosc_sizes lie at the end.
    The rest are fields of struct sosc_blocks.
    """
    first_layout = blocklayout.BLOCKS.size
    first_bucket = first_layout + len(layouts) + -len(layouts) % 8
    first_word = first_bucket + (8 << bits)
    end = first_word + 8 * words
    head = blocklayout.BLOCKS.struct.pack(
        bits,
        mode,
        words,
        1,
        0,
        first_bucket,
        first_word,
        scale,
        first_layout,
        len(layouts) // objectlayout.PYTHON.size,
        end if arrays else 0,
        arrays,
        1,  # the first is for threads that find none
        *(0,) * 5,  # the agent's
        frames,
        has_xsave,
        blocklayout.LEAD_NOBODY,
        *(0,) * 7,
    )
    return head + layouts, end + arrays * blocklayout.SIZES.size
