# SPDX-License-Identifier: Apache-2.0
"""The size of a program's control block, in the shared file and in address spaces.

Only the used part takes memory, but address space and file sizes may be limited (setrlimit(2)),
for soscope or for the program.
"""

from __future__ import annotations

import resource

from soscope.wire import layout
from soscope.wire.plan import STRINGS_SIZE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_SPARE, _FEW_SPARE = 4096, 256  # chunks
# Number of threads with counters of their own. Further threads share counters.
_COUNT_ARRAYS, _FEW_COUNT_ARRAYS = 1024, 64
_STATS_ARRAYS, _FEW_STATS_ARRAYS = 288, 32
# Number of arrays that take address space of the program from its start.
_COUNT_READY, _STATS_READY, _FEW_READY = 16, 4, 2
_FEWEST_STRINGS = 4 << 20  # bytes


class Room:
    """The sizes for process `pid` under some instruments.

    `pid` is 0 if the process does not exist yet. `kinds` are INSTRUMENT_ constants of `layout`.
    `needs_ring` is set if one of them records single calls. `spare_chunks` are chunks for threads
    that find none left in the buffer. Each of the `count_arrays` serves one thread, and the
    program maps `ready_arrays` of them from its start. `strings_size` is in bytes. `slot_places`
    are for followed children. Without them each child has its own records of the images that it
    loads.
    """

    __slots__ = ("count_arrays", "ready_arrays", "slot_places", "spare_chunks", "strings_size")

    def __init__(self, kinds: Sequence[int], pid: int, *, needs_ring: bool) -> None:
        ours, its = _is_limited(0), _is_limited(pid)
        self.spare_chunks = self.count_arrays = self.ready_arrays = 0
        if needs_ring:
            self.spare_chunks = _FEW_SPARE if ours or its else _SPARE
        if layout.INSTRUMENT_COUNT in kinds:
            self.count_arrays = _FEW_COUNT_ARRAYS if ours else _COUNT_ARRAYS
            self.ready_arrays = _FEW_READY if its else _COUNT_READY
        elif layout.INSTRUMENT_STATS in kinds:
            self.count_arrays = _FEW_STATS_ARRAYS if ours else _STATS_ARRAYS
            self.ready_arrays = _FEW_READY if its else _STATS_READY
        self.strings_size = STRINGS_SIZE
        self.slot_places = layout.SLOT_PLACES
        limit = _limit(pid, resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            room = min(STRINGS_SIZE, limit // 64 & -layout.PAGE)
            self.strings_size = max(_FEWEST_STRINGS, room)
            self.slot_places = 0


def _is_limited(pid: int) -> bool:
    """Return whether a process's address space or file size is limited.

    If `pid` is 0, the process is this one.
    """
    limits = (resource.RLIMIT_AS, resource.RLIMIT_FSIZE)
    return any(_limit(pid, kind) != resource.RLIM_INFINITY for kind in limits)


def _limit(pid: int, kind: int) -> int:
    """Return a soft limit of a process. If `pid` is 0, it is this process."""
    try:
        return resource.prlimit(pid, kind)[0]
    except OSError:  # the process has ended, or belongs to another user
        return 0
