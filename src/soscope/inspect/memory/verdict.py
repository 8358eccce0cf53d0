# SPDX-License-Identifier: Apache-2.0
"""Leak or retention: the verdict on one look or on a series of looks.

The memory that a program uses goes up and down. So growth of memory in use is measured between
the minima of the first and the second half of the time. Growth of memory that is kept free is
measured between the maxima.
"""

from __future__ import annotations

from collections.abc import Callable

from soscope.inspect.memory import model
from soscope.inspect.memory.model import LEAK, RETENTION, UNKNOWN, Look, Verdict
from soscope.inspect.memory.steps import LOOK_LONGER, against_retention, for_unread, size

_MUCH = 1 << 20  # bytes kept by the allocator that count as much
_SHARE = 5  # a fifth of RSS, at least
_NOISE = 128 << 10  # bytes by which the memory of every program varies
_NOISE_SHARE = 200


def judge(looks: list[Look]) -> Verdict:
    """Return the verdict on one look, or on several in the order of their time."""
    now = looks[-1]
    is_once = len(looks) == 1
    verdict = None if is_once else _grown(looks)
    if verdict is not None:
        return verdict
    free = now.resident(model.FREE)
    if free >= _MUCH and free * _SHARE >= now.rss:
        return Verdict(RETENTION, _retention(now, free), against_retention(now))
    if now.unread:
        told = "" if is_once else f", and in {_seconds(looks)} s {_little(looks, 'its memory')}"
        why = f"{now.unread[:1].upper()}{now.unread[1:]}{told}."
        return Verdict(UNKNOWN, why, for_unread(now, is_once=is_once))
    if is_once:
        why = (
            f"{size(now.in_use)} are in use and {size(free)} are kept free: one look does not "
            "tell what is needed from what leaks."
        )
        return Verdict(UNKNOWN, why, [LOOK_LONGER])
    why = f"In {_seconds(looks)} s {_little(looks, 'what is in use')}."
    return Verdict(UNKNOWN, why, ["--for with a longer time, while the program is at work"])


def _little(looks: list[Look], what: str) -> str:
    """Return a text that memory has not grown by more than normal variation."""
    used = _growth([_held(look) for look in looks], min)
    free = _growth([look.resident(model.FREE) for look in looks], max)
    grown = max(used, free)
    if grown <= 0:
        return f"neither {what} nor what is kept free has grown"
    which = what if used >= free else "what is kept free"
    return f"{which} has grown by {size(grown)}, which is too little to judge by"


def _held(look: Look) -> int:
    return look.in_use + look.resident(model.OTHER, model.HUGE)


def _grown(looks: list[Look]) -> Verdict | None:
    """Return the verdict by growth between looks, None if nothing has grown."""
    last, seconds = looks[-1], _seconds(looks)
    noise = max(_NOISE, last.rss // _NOISE_SHARE)
    used = _growth([look.in_use for look in looks], min)
    other = _growth([look.resident(model.OTHER, model.HUGE) for look in looks], min)
    free = _growth([look.resident(model.FREE) for look in looks], max)
    if used > noise and used >= max(other, free):
        why = (
            f"What is in use has grown by at least {size(used)} in {seconds} s, "
            f"what is kept free by {size(max(0, free))}."
        )
        return Verdict(LEAK, why, _steps_leak(looks))
    if other > noise and other >= free:
        grown = f"grown by at least {size(other)} in {seconds} s"
        if last.unread:
            why = f"Anonymous memory has {grown}, but {last.unread}."
            return Verdict(UNKNOWN, why, for_unread(last, is_once=False))
        why = f"Memory that no allocator here has mapped has {grown}."
        steps = [
            f"soscope mem live -p {last.pid} --blocks says where it is mapped",
            f"soscope trace -p {last.pid} -e 'mmap*,munmap' shows the calls",
        ]
        if last.is_static:
            steps = [f"strace -k -p {last.pid} -e trace=mmap,munmap says who maps it"]
        return Verdict(LEAK, why, steps)
    if free > noise:
        why = (
            f"What is kept free has grown by at least {size(free)} in {seconds} s, "
            f"what is in use by {size(max(0, used, other))}."
        )
        return Verdict(RETENTION, why, against_retention(last))
    return None


def _growth(sizes: list[int], of: Callable[[list[int]], int]) -> int:
    """Return the difference of the minima, or maxima, between the second half and the first."""
    half = len(sizes) // 2
    return of(sizes[half:]) - of(sizes[:half])


def _seconds(looks: list[Look]) -> int:
    return max(1, round(looks[-1].time - looks[0].time))


def _steps_leak(looks: list[Look]) -> list[str]:
    """Return the next steps against a leak: objects belong to Python, blocks to malloc."""
    first, last = looks[0].resident(model.OBJECTS), looks[-1].resident(model.OBJECTS)
    blocks = looks[-1].resident(model.BLOCKS) - looks[0].resident(model.BLOCKS)
    if last - first > blocks:
        return ["soscope mem snapshot says which lines make the objects that stay"]
    if looks[-1].is_static:
        return ["linked with a shared C library, soscope mem leaks says what is not freed"]
    return ["soscope mem leaks says which calls of malloc are not freed"]


def _retention(look: Look, free: int) -> str:
    share = 100 * free // max(1, look.rss)
    why = f"{size(free)} are free inside the allocator, {share} % of RSS"
    if look.trim is None:
        return f"{why}."
    if look.trim * 2 >= free:
        return f"{why}; malloc_trim would give back {size(look.trim)}."
    return f"{why}; blocks in use between them keep all but {size(look.trim)} from going back."
