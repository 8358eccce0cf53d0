# SPDX-License-Identifier: Apache-2.0
"""Find the members that decide which other members of a structure are printed.

A condition may name a member of the structure itself, or of a structure around it, because the
tag of a union mostly stands beside the union. So a union has other fields in each structure with
conditions for it.
"""

from __future__ import annotations

from soscope.prototypes.ctype import STRUCT, Field, Struct, When

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def decide(name: str, structs: dict[str, Struct]) -> str:
    """Find the tags of the structure `name`; return the name of a missing one, or ""."""
    struct = structs[name]
    members = {field.name: field for field in struct.fields if field.bits is None}
    for field in struct.fields:
        field.when = _decided(field.when, members, 0)
        _decide_inside(field, members, field.offset, structs, name)
    return next(_missing(struct, structs), "")


def _decided(when: list[When], members: dict[str, Field], base: int) -> list[When]:
    """Return conditions with their tags, for fields `base` bytes behind the members."""
    return [
        When(each.decision, (member.offset - base, member.type))
        if each.tag is None and (member := members.get(each.decision.name)) is not None
        else each
        for each in when
    ]


def _decide_inside(
    field: Field, members: dict[str, Field], base: int, structs: dict[str, Struct], outer: str
) -> bool:
    """Make a type of its own for a field at `base` bytes, if the members decide about it."""
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
