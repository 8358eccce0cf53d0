# SPDX-License-Identifier: Apache-2.0
"""Find the members that decide which others of a structure are shown.

A condition may name a member of the structure itself, or of one that it lies in: what tells the
members of a union apart mostly stands beside it. So a union has another content in each structure
that says something of it.
"""

from __future__ import annotations

from soscope.prototypes.ctype import STRUCT, Field, Struct, When

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def decide(name: str, structs: dict[str, Struct]) -> str:
    """Find the tags of the structure `name`; return the name of one that is missing, or ""."""
    struct = structs[name]
    members = {field.name: field for field in struct.fields if field.bits is None}
    for field in struct.fields:
        field.when = _decided(field.when, members, 0)
        _decide_inside(field, members, field.offset, structs, name)
    return next(_missing(struct, structs), "")


def _decided(when: list[When], members: dict[str, Field], base: int) -> list[When]:
    """Return conditions of what lies `base` bytes behind the members, with their tags."""
    return [
        When(each.decision, (member.offset - base, member.type))
        if each.tag is None and (member := members.get(each.decision.name)) is not None
        else each
        for each in when
    ]


def _decide_inside(
    field: Field, members: dict[str, Field], base: int, structs: dict[str, Struct], outer: str
) -> bool:
    """Give a field, `base` bytes behind the members, a type of its own, where they decide in it."""
    if field.type.kind != STRUCT or field.type.struct not in structs:
        return False
    of = structs[field.type.struct]
    name = f"{of.name} in {outer}.{field.name}"
    fields = [each.moved(0) for each in of.fields]
    changed = False
    for each in fields:
        before = each.when
        each.when = _decided(before, members, base)
        changed |= any(old is not new for old, new in zip(before, each.when, strict=True))
        changed |= _decide_inside(each, members, base + each.offset, structs, name)
    if changed:
        structs[name] = Struct(name, fields, of.size, of.alignment)
        field.type = field.type.copy(field.type.text)
        field.type.struct = name
    return changed


def _missing(of: Struct, structs: dict[str, Struct]) -> Iterator[str]:
    for field in of.fields:
        yield from (each.decision.name for each in field.when if each.tag is None)
        if field.type.kind == STRUCT and field.type.struct in structs:
            yield from _missing(structs[field.type.struct], structs)
