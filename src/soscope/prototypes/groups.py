# SPDX-License-Identifier: Apache-2.0
"""Read prototypes/groups.txt: the sets of functions for filters (`-e %mem`)."""

from __future__ import annotations

from fnmatch import fnmatchcase

from soscope.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_WILD = frozenset("*?[")
_ALL = "..."


def read(
    text: str, file: str, names: list[str], also: Callable[[str], list[str]]
) -> dict[str, list[str]]:
    """Return the functions of each set, in order.

    Patterns are for the declared functions, `names`. `also` returns the other names of a
    function. A name that ends in `*` matches all names that begin so, declared or not. Raises
    FormatError, with file and line, for a set that is defined twice.
    """
    groups: dict[str, list[str]] = {}
    members: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        if not line[0].isspace():
            group = words.pop(0)
            if group in groups:
                raise FormatError(f"{file}:{number}: '{group}' is there twice", field=group)
            members = groups[group] = []
        for word in words:
            _add(members, word, names, also)
    return groups


def _add(
    members: list[str],
    word: str,
    names: list[str],
    also: Callable[[str], list[str]],
) -> None:
    pattern = word.removeprefix("-")
    if pattern.endswith(_ALL):
        matching = [pattern.replace(_ALL, "*")]
    elif _WILD.isdisjoint(pattern):
        matching = [pattern]
    else:
        matching = [name for name in names if fnmatchcase(name, pattern)]
    if word.startswith("-"):
        gone = {other for name in matching for other in (name, *also(name))}
        members[:] = [name for name in members if name not in gone]
        return
    known = set(members)
    for name in matching:
        for other in (name, *also(name)):
            if other not in known:
                known.add(other)
                members.append(other)
