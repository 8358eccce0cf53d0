# SPDX-License-Identifier: Apache-2.0
"""The printed fields of a structure in order, including the fields of nested structures."""

from __future__ import annotations

from soscope.prototypes import row

# For these, other machines have other bits, or the same number in another order.
_UNLIKE = (row.SHOW_LONG_DOUBLE, row.SHOW_BITS, row.SHOW_COMPLEX)


class Leaf:
    """One field: its name in C, its offset on x86-64, its format, and its conditions."""

    __slots__ = ("at", "path", "show", "when")

    def __init__(self, path: str, at: int, show: row.Show, when: row.When) -> None:
        self.path = path
        self.at = at
        self.show = show
        self.when = when


def leaves_of(name: str, structs: row.Structs) -> list[Leaf] | None:
    """Return the leaves of a structure, None if machines differ in more than the layout."""
    leaves: list[Leaf] = []
    return leaves if _add(leaves, name, structs, "", 0, ()) else None


def _add(
    leaves: list[Leaf], name: str, structs: row.Structs, path: str, at: int, when: row.When
) -> bool:
    for number, (field, offset, show, own) in enumerate(structs.get(name, ())):
        if field == row.MORE:
            continue
        if show[0] in _UNLIKE:
            return False
        moved = tuple((at + place, size, how, values) for place, size, how, values in own)
        full = f"{path}.{field}".lstrip(".") if field else f"{path}[{number}]"
        if show[0] == row.SHOW_STRUCT:
            if show[3] not in structs:
                return False
            if not _add(leaves, show[3], structs, full, at + offset, when + moved):
                return False
        else:
            leaves.append(Leaf(full, at + offset, show, when + moved))
    return name in structs


def is_whole(name: str, structs: row.Structs) -> bool:
    """Return whether all fields of a structure, and of structures in it, are printed."""
    return all(
        field != row.MORE and (show[0] != row.SHOW_STRUCT or is_whole(show[3], structs))
        for field, _, show, _ in structs.get(name, ())
    )
