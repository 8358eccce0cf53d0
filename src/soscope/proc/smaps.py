# SPDX-License-Identifier: Apache-2.0
"""How much of each mapping of a process is in memory: /proc/PID/smaps."""

from __future__ import annotations

from soscope.proc.maps import Mapping, parse_line

_KIB = 1024
_WANTED = {
    b"Rss:": "rss",
    b"Anonymous:": "anonymous",
    b"AnonHugePages:": "huge",
    b"Shared_Hugetlb:": "hugetlb",
    b"Private_Hugetlb:": "hugetlb",
    b"Swap:": "swap",
}


class Area:
    """One mapping with its resident memory, in bytes.

    `anonymous` is the part of `rss` that belongs to no file, `huge` the part that lies in
    transparent huge pages. `rss` includes neither `hugetlb` (pages of hugetlbfs) nor `swap`
    (pages that are swapped out).
    """

    __slots__ = ("anonymous", "huge", "hugetlb", "mapping", "rss", "swap")

    def __init__(self, mapping: Mapping) -> None:
        self.mapping = mapping
        self.rss = self.anonymous = self.huge = self.hugetlb = self.swap = 0


def read(pid: int) -> list[Area]:
    """Read the mappings of a process, by rising address (proc_pid_smaps(5)).

    Raises OSError if they cannot be read.
    """
    with open(f"/proc/{pid}/smaps", "rb") as file:
        return parse(file.read())


def rollup(pid: int) -> tuple[int, int]:
    """Return the resident bytes of a process, and how many of them belong to no file.

    The numbers are exact (/proc/PID/smaps_rollup). Raises OSError if that file cannot be read.
    """
    sizes = {}
    with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
        for line in file:
            name, _, rest = line.partition(b":")
            if name in (b"Rss", b"Anonymous"):
                sizes[name] = int(rest.split()[0]) * _KIB
    return sizes[b"Rss"], sizes[b"Anonymous"]


def parse(text: bytes) -> list[Area]:
    """Parse the text of /proc/PID/smaps."""
    areas: list[Area] = []
    for line in text.split(b"\n"):
        name, _, rest = line.partition(b" ")
        if not name.endswith(b":"):
            if name:
                areas.append(Area(parse_line(line)))
        elif (field := _WANTED.get(name)) is not None:
            area = areas[-1]
            setattr(area, field, getattr(area, field) + int(rest.split()[0]) * _KIB)
    return areas
