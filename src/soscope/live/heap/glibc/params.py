# SPDX-License-Identifier: Apache-2.0
"""Find glibc's `mp_`, malloc's parameters: start of its heap, mapped bytes, settings.

It has no symbol. `struct malloc_par` (malloc/malloc.c) begins with three sizes and the number of
arenas from which on malloc counts processors. Its counts of mapped chunks and its `sbrk_base`
follow, at offsets that depend on the release.
"""

from __future__ import annotations

from struct import Struct

from soscope.live.heap.glibc.arenas import writable_ranges

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.live.heap.pages import Pages
    from soscope.live.images.loadedimage import LoadedImage
    from soscope.live.images.space import Space

_SIZES = Struct("<QQQQQ")  # trim_threshold, top_pad, mmap_threshold, arena_test, arena_max
_COUNTS = Struct("<iiii")  # n_mmaps, n_mmaps_max, max_n_mmaps, no_dyn_threshold
_MAPPED = Struct("<QQQ")  # mmapped_mem, max_mmapped_mem, sbrk_base
# offsets of the counts and of mmapped_mem: before 2.35, and from 2.35 on (behind the sizes of huge
# pages)
_LAYOUTS = ((40, 56), (60, 80), (64, 80), (64, 88))
_LENGTH = 112
_PAGE = 4096
_MOST = 1 << 46  # bytes
_MOST_ARENA_TEST = 1 << 16
_MOST_PAD = 1 << 40
_MOST_MMAPS = 1 << 31
_AT_ONCE = 512  # words
_NOTHING = memoryview(bytes(_AT_ONCE * 8)).cast("Q")


class Params:
    """The settings of malloc, and what it has mapped: `mmaps` chunks of `mmapped` bytes in all.

    `sbrk_base` is the start of its heap, 0 if it never called brk(2).
    """

    __slots__ = ("addr", "mmap_threshold", "mmapped", "mmaps", "sbrk_base", "top_pad", "trim")

    def __init__(
        self, addr: int, sizes: tuple[int, ...], mmaps: int, mapped: tuple[int, ...]
    ) -> None:
        self.addr = addr
        self.trim, self.top_pad, self.mmap_threshold = sizes[:3]
        self.mmaps = mmaps
        self.mmapped, _, self.sbrk_base = mapped


def find_params(space: Space, image: LoadedImage, pages: Pages) -> Params | None:
    """Return the `mp_` of the C library in `image`, None if it is not found with certainty."""
    heap = next((each.start for each in space.mappings if each.path == "[heap]"), 0)
    best: tuple[int, Params] | None = None
    for start, end in writable_ranges(image):
        data = pages.of(start, end).read(space, start, end)
        for at in _likely(data):
            for counts_at, mapped_at in _LAYOUTS:
                params, score = _read(data, at, counts_at, mapped_at, start, heap)
                if params is not None and (best is None or score > best[0]):
                    best = score, params
    return None if best is None else best[1]


def _likely(data: bytearray) -> list[int]:
    """Return the offsets at which `mp_` may begin, by its first five words."""
    words = memoryview(data)[: len(data) & -8].cast("Q")
    offsets: list[int] = []
    last = len(words) - _LENGTH // 8
    for start in range(0, last + 1, _AT_ONCE):
        trims = words[start : min(start + _AT_ONCE, last + 1)]
        if trims == _NOTHING[: len(trims)]:
            continue
        offsets += [
            at * 8
            for at, trim in enumerate(trims, start)
            if trim >= _PAGE
            and words[at + 1] < _MOST_PAD
            and 0 < words[at + 3] <= _MOST_ARENA_TEST
            and 0 < words[at + 2] < _MOST
        ]
    return offsets


def _read(
    data: bytearray, at: int, counts_at: int, mapped_at: int, start: int, heap: int
) -> tuple[Params | None, int]:
    """Return the parameters at `at` if they can be `mp_`, and a score for how likely that is."""
    sizes = _SIZES.unpack_from(data, at)
    mmaps, most, highest, fixed = _COUNTS.unpack_from(data, at + counts_at)
    mapped = _MAPPED.unpack_from(data, at + mapped_at)
    if not (0 <= mmaps <= highest < _MOST_MMAPS and fixed in (0, 1) and most >= 0):
        return None, 0
    if mapped[0] % _PAGE or mapped[0] > mapped[1] or mapped[1] > _MOST:
        return None, 0
    if (mmaps == 0) != (mapped[0] == 0) or mapped[0] < mmaps * _PAGE:
        return None, 0
    if mapped[2] and not (heap and heap <= mapped[2] < heap + (1 << 40)):
        return None, 0
    score = 4 * (most == 1 << 16) + 4 * bool(mapped[2]) + 2 * (sizes[3] == 8)
    score += (sizes[1] == 1 << 17) + (sizes[0] in (sizes[2], 2 * sizes[2]))
    return (Params(start + at, sizes, mmaps, mapped), score) if score >= 6 else (None, 0)
