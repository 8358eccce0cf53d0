# SPDX-License-Identifier: Apache-2.0
"""Assign each resident byte to one part, by the areas of a process and the claims in them."""

from __future__ import annotations

import os

from soscope.inspect.memory import model
from soscope.inspect.memory.model import RssPart
from soscope.proc.memory import Area

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.live.heap.memory import ResidentPages

Key = tuple[str, str | None]

_SHARED = (
    "/dev/shm/",  # noqa: S108  names of mappings
    "/memfd:",
    "/SYSV",
    "/dev/zero",
    "/[aio]",
    "anon_inode:",
    "/dev/hugepages",
)
_DELETED = " (deleted)"


class Claim:
    """A range [start, end) of a known kind `key`, except for the bytes in `inner`.

    `inner` maps other keys to resident bytes that lie in the range, too.
    """

    __slots__ = ("end", "inner", "key", "resident", "start")

    def __init__(self, start: int, end: int, key: Key, resident: ResidentPages) -> None:
        self.start = start
        self.end = end
        self.key = key
        self.resident = resident
        self.inner: dict[Key, int] = {}


class Sums:
    """Resident bytes by kind and name, each byte once."""

    __slots__ = ("sizes",)

    def __init__(self) -> None:
        self.sizes: dict[Key, int] = {}

    def add(self, key: Key, size: int) -> None:
        """Add bytes."""
        if size > 0:
            self.sizes[key] = self.sizes.get(key, 0) + size

    def parts(self) -> list[RssPart]:
        """Return the parts, kind by kind, the largest of each kind first."""
        parts = [RssPart(what, name, size) for (what, name), size in self.sizes.items()]
        return sorted(parts, key=lambda part: (model.KINDS.index(part.what), -part.bytes))


def sum_up(areas: list[Area], claims: list[Claim], anonymous: str) -> Sums:
    """Divide the resident bytes of all areas; unclaimed bytes of no file are named `anonymous`.

    Claimed bytes are counted page by page, a moment after the areas. If both differ, the area's
    own sum counts.
    """
    sums = Sums()
    claims = sorted(claims, key=lambda claim: claim.start)
    shares = [0] * len(claims)
    first = 0
    for area in areas:
        start, end = area.mapping.start, area.mapping.end
        while first < len(claims) and claims[first].end <= start:
            first += 1
        left, index = area.rss, first
        while index < len(claims) and claims[index].start < end:
            claim = claims[index]
            low, high = max(start, claim.start), min(end, claim.end)
            share = min(left, claim.resident.count(low, high))
            shares[index] += share
            left -= share
            index += 1
        _add_rest(sums, area, left, anonymous)
    for claim, total in zip(claims, shares, strict=True):
        rest = total
        for key, size in claim.inner.items():
            share = min(rest, size)
            sums.add(key, share)
            rest -= share
        sums.add(claim.key, rest)
    return sums


def _add_rest(sums: Sums, area: Area, left: int, anonymous: str) -> None:
    """Add the unclaimed bytes of an area."""
    path, is_shared = area.mapping.path, area.mapping.flags[3:4] == "s"
    if path.startswith(_SHARED) or path.startswith("[anon_shmem:"):
        # a private mapping of /dev/zero is ordinary memory
        if is_shared or not path.startswith("/dev/zero"):
            sums.add((model.SHARED, _base(path)), left)
            return
    elif path.startswith("/"):
        sums.add((model.FILES, _base(path)), left)
        return
    elif path == "[stack]":
        sums.add((model.STACKS, "the first thread's"), left)
        return
    huge = min(area.huge, left)
    sums.add((model.HUGE, "transparent huge pages"), huge)
    name = path.removesuffix(_DELETED) or anonymous
    sums.add((model.OTHER, name), left - huge)


def _base(path: str) -> str:
    """Return the name of a file without its folders."""
    path = path.removesuffix(_DELETED)
    return os.path.basename(path) or path
