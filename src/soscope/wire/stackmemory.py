# SPDX-License-Identifier: Apache-2.0
"""The initial content of the memory of an instrument that keeps stacks (soscope/blocks.h)."""

from __future__ import annotations

from soscope.wire import blocklayout, headers

BITS = 20  # the number of buckets is 2 to this power
WORDS = 1 << 23  # of stacks and code objects: about 350,000 stacks of 23 frames


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
    """Return the initial content, and the size of the memory, which is sparse.

    `layouts` are the structs sosc_python. `arrays` is the number of struct sosc_sizes at the end.
    The other parameters are fields of struct sosc_blocks.
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
        len(layouts) // headers.PYTHON.size,
        end if arrays else 0,
        arrays,
        1,  # the first array is for threads that get none
        *(0,) * 5,  # fields of the agent
        frames,
        has_xsave,
        blocklayout.LEAD_NOBODY,
        *(0,) * 7,
    )
    return head + layouts, end + arrays * blocklayout.SIZES.size
