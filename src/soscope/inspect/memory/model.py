# SPDX-License-Identifier: Apache-2.0
"""The results of `soscope mem where` for a process; all sizes are in bytes."""

from __future__ import annotations

OBJECTS, BLOCKS, FREE, FILES = "objects", "blocks", "free", "files"
STACKS, SHARED, HUGE, OTHER = "stacks", "shared", "huge", "other"
KINDS = (OBJECTS, BLOCKS, FREE, FILES, STACKS, SHARED, HUGE, OTHER)

LEAK, RETENTION, UNKNOWN = "leak", "retention", "unknown"


class RssPart:
    """Resident memory of one kind (`what`); `name` distinguishes parts of a kind, else None."""

    __slots__ = ("bytes", "name", "what")

    def __init__(self, what: str, name: str | None, size: int) -> None:
        self.what = what
        self.name = name
        self.bytes = size


class ArenaSizes:
    """The memory that one arena of glibc has from the kernel, resident or not.

    `free` is in its bins, `top` behind its last chunk. `in_use` is the rest, as mallinfo2(3)
    counts it.
    """

    __slots__ = ("addr", "free", "in_use", "top")

    def __init__(self, addr: int, in_use: int, free: int, top: int) -> None:
        self.addr = addr
        self.in_use = in_use
        self.free = free
        self.top = top


class Look:
    """The memory of a process at one moment; `parts` add up to `rss`, the largest first.

    `allocator` is None if it is unknown. `unread` is why its memory could not be read, "" if it
    was. `trim` is how much malloc_trim(0) would return to the kernel, None if that is not known.
    `pin` is the highest block in use below the top of the heap: its address as the program knows
    it, and its usable bytes. `in_use` is the number of allocated bytes, resident or not. `notes`
    are further remarks. `moved` tells that memory changed during the read. `settings` has the
    names of malloc's parameters that were set: "mmap_threshold", "top_pad", "trim_threshold". If
    `is_static` is true, calls of malloc do not go through slots.
    """

    __slots__ = (
        "allocator",
        "arenas",
        "in_use",
        "is_static",
        "moved",
        "notes",
        "parts",
        "pid",
        "pin",
        "rss",
        "settings",
        "time",
        "trim",
        "unread",
    )

    def __init__(self, pid: int, rss: int) -> None:
        self.pid = pid
        self.rss = rss
        self.time = 0.0
        self.parts: list[RssPart] = []
        self.arenas: list[ArenaSizes] = []
        self.allocator: str | None = None
        self.unread = ""
        self.trim: int | None = None
        self.pin: tuple[int, int] | None = None
        self.in_use = 0
        self.is_static = False
        self.moved = False
        self.notes: list[str] = []
        self.settings: dict[str, int] = {}

    def resident(self, *kinds: str) -> int:
        """Return how many bytes of these kinds are resident."""
        return sum(part.bytes for part in self.parts if part.what in kinds)


class Verdict:
    """LEAK, RETENTION or UNKNOWN, the reason `why` in one sentence, and the `next` steps."""

    __slots__ = ("next", "verdict", "why")

    def __init__(self, verdict: str, why: str, steps: list[str]) -> None:
        self.verdict = verdict
        self.why = why
        self.next = steps
