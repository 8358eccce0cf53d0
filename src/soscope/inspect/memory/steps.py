# SPDX-License-Identifier: Apache-2.0
"""Advice on memory that allocators keep: the settings that fit the findings."""

from __future__ import annotations

from soscope.inspect.memory import model
from soscope.inspect.memory.model import Look

LOOK_LONGER = "--for 60s looks again and says what grows"
POOLS = "Python's pools (pymalloc)"

_DEFAULT = 128 << 10  # default of malloc's thresholds, which grow automatically
_APART = (
    "Python unmaps an arena when no object is left in it: make objects that stay before those "
    "that go, or the many that go in a process of their own"
)
_UNREAD = {
    "jemalloc": (
        "MALLOC_CONF=stats_print:true: jemalloc says at the end what it kept",
        "MALLOC_CONF=background_thread:true,dirty_decay_ms:1000 gives back sooner",
    ),
    "mimalloc": (
        "MIMALLOC_SHOW_STATS=1: mimalloc says at the end what it kept",
        "MIMALLOC_PURGE_DELAY=0 gives back sooner",
    ),
    "tcmalloc": ("TCMALLOC_RELEASE_RATE=10 gives back sooner",),
}


def against_retention(look: Look) -> list[str]:
    """Return the steps against free memory that a process's allocators keep."""
    free = max(1, look.resident(model.FREE))
    pools = _named(look, POOLS)
    if 2 * pools > free:
        return [_APART]
    steps = []
    free = max(1, free - pools)
    is_given = look.trim is not None and look.trim * 2 >= free
    if is_given and not look.is_static:
        steps.append(f"soscope mem trim -p {look.pid} gives back {size(look.trim or 0)} now")
    main = _named(look, "main arena") + _named(look, "top of main arena")
    if len(look.arenas) > 2 and 2 * main < free:
        steps.append("MALLOC_ARENA_MAX=2 in its environment: fewer arenas, less kept by each")
    else:
        if look.settings.get("mmap_threshold", 0) > _DEFAULT:
            steps.append(
                "MALLOC_MMAP_THRESHOLD_=131072: big blocks are mapped, and unmapped when freed"
            )
        if look.settings.get("trim_threshold", 0) > _DEFAULT:
            steps.append("MALLOC_TRIM_THRESHOLD_=131072: the top is given back sooner")
    if is_given:
        steps.append("a call of malloc_trim(0) in the program after each peak")
    elif look.trim is not None:
        steps.append("jemalloc or mimalloc, which hold blocks of one size together")
    return steps or [LOOK_LONGER]


def for_unread(look: Look, *, is_once: bool) -> list[str]:
    """Return the steps if the allocator's memory was not read."""
    steps = [LOOK_LONGER] if is_once else []
    return steps + list(_UNREAD.get(look.allocator or "", ()))


def size(count: int) -> str:
    """Return a number of bytes as text with a unit."""
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.2f} GiB"


def _named(look: Look, name: str) -> int:
    return sum(part.bytes for part in look.parts if part.name == name)
