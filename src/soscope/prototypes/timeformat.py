# SPDX-License-Identifier: Apache-2.0
"""The members of struct tm that a format of strftime reads, or one of strptime fills in."""

from __future__ import annotations

_DATE = ("tm_year", "tm_mon", "tm_mday")
_TIME = ("tm_hour", "tm_min", "tm_sec")
_WEEK = ("tm_year", "tm_yday", "tm_wday")
_ALL = (*_DATE, *_TIME, "tm_wday")
_ZONE = ("tm_isdst", "tm_gmtoff")
_MEMBERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys("aAuw", ("tm_wday",)),
    **dict.fromkeys("bBhm", ("tm_mon",)),
    "c": _ALL,  # depends on the locale, which may leave something out
    **dict.fromkeys("CyY", ("tm_year",)),
    **dict.fromkeys("de", ("tm_mday",)),
    **dict.fromkeys("DFx", _DATE),
    **dict.fromkeys("gGV", _WEEK),
    **dict.fromkeys("UW", ("tm_yday", "tm_wday")),
    **dict.fromkeys("HkIlpP", ("tm_hour",)),
    **dict.fromkeys("rTX", _TIME),
    "j": ("tm_yday",),
    "M": ("tm_min",),
    "R": ("tm_hour", "tm_min"),
    "s": (*_DATE, *_TIME, "tm_isdst"),
    "S": ("tm_sec",),
    "z": _ZONE,
    "Z": ("tm_zone",),
    **dict.fromkeys("nt%", ()),
}
_BETWEEN = frozenset("_-0^#+EO123456789")  # flags, widths and modifiers


def members_of(text: bytes) -> frozenset[str] | None:
    """Return the names of the members, None if a conversion is not known.

    >>> from soscope.prototypes.timeformat import members_of
    >>> sorted(members_of(b"%Y-%m"))
    ['tm_mon', 'tm_year']
    """
    named: set[str] = set()
    at = 0
    letters = text.decode("latin-1")
    while (at := letters.find("%", at) + 1) > 0:
        while letters[at : at + 1] in _BETWEEN:
            at += 1
        members = _MEMBERS.get(letters[at : at + 1])
        if members is None:
            return None
        named.update(members)
        at += 1
    return frozenset(named)
