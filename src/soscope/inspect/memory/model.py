# SPDX-License-Identifier: Apache-2.0
"""What `soscope mem where` tells of a process; all sizes are in bytes."""

from __future__ import annotations

OBJECTS, BLOCKS, FREE, FILES = "objects", "blocks", "free", "files"
STACKS, SHARED, HUGE, OTHER = "stacks", "shared", "huge", "other"
KINDS = (OBJECTS, BLOCKS, FREE, FILES, STACKS, SHARED, HUGE, OTHER)

LEAK, RETENTION, UNKNOWN = "leak", "retention", "unknown"


class RssPart:
    """ResidentPages memory of one kind (`what`); `name` says which, None where there is but one."""

    __slots__ = ("bytes", "name", "what")

    def __init__(self, what: str, name: str | None, size: int) -> None:
        self.what = what
        self.name = name
        self.bytes = size


class ArenaSizes:
    """What one arena of glibc's has of the kernel, resident or not.

    `free` is in its bins, `top` behind its last chunk; `in_use` is the rest, as mallinfo2(3)
    counts it.
    """

    __slots__ = ("addr", "free", "in_use", "top")

    def __init__(self, addr: int, in_use: int, free: int, top: int) -> None:
        self.addr = addr
        self.in_use = in_use
        self.free = free
        self.top = top


class Look:
    """The memory of a process at one moment. `parts` add up to `rss`, the largest first.

    `allocator` is None where it is not known, `unread` why its memory could not be read, "" where
    it was. `trim` is what malloc_trim(0) would give back, None where nobody can say. `pin` is the
    highest block in use under the top of the heap, its address as the program knows it and its
    usable bytes. `in_use` counts what is allocated, resident or not. `notes` say what else is to be
    known; `moved` that memory changed while it was read. `settings` has the names of what
    malloc was told: "mmap_threshold", "top_pad", "trim_threshold". `is_static`: calls of malloc go
    through no slots.
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
    """LEAK, RETENTION or UNKNOWN, `why` in one sentence, and what to do `next`."""

    __slots__ = ("next", "verdict", "why")

    def __init__(self, verdict: str, why: str, steps: list[str]) -> None:
        self.verdict = verdict
        self.why = why
        self.next = steps
