# SPDX-License-Identifier: Apache-2.0
"""The audit of a dynamic linker: text for people, soscope/audit-resolver/1 for programs."""

from __future__ import annotations

from soscope.inspect.resolver import audit as a
from soscope.inspect.resolver.machine import (
    EXTENDED,
    REGPARM,
    RESULT_PLACE,
    STATIC_CHAIN,
    VECTOR_COUNT,
)
from soscope.inspect.resolver.shape import PROFILE, RESOLVE, TLSDESC
from soscope.report.words import json_document, plural, printable

SCHEMA = "soscope/audit-resolver/1"

_NAME = 10  # columns in front of what is said
_WIDTH = 98
_TITLES = {
    RESOLVE: "lazy binding",
    PROFILE: "lazy binding under LD_AUDIT or LD_PROFILE",
    TLSDESC: "TLS descriptors",
}
_ROLES = {
    VECTOR_COUNT: "the number of vector registers, in variadic calls",
    RESULT_PLACE: "where a large result goes",
    STATIC_CHAIN: "the static chain of a nested function; those are not called through slots",
    REGPARM: "an argument of functions declared regparm or fastcall",
    EXTENDED: "arguments of other calling conventions alone, such as __regcall",
}


def text(found: a.Audit, *, why: bool = False) -> str:
    """Return the page; `why` lists every call that leads out of the file."""
    version = f" {found.version}" if found.version else ""
    build_id = f", build-id {found.build_id}" if found.build_id else ""
    lines = [f"{found.path}: {found.loader}{version}, {found.arch}{build_id}"]
    if not found.binds_lazily:
        lines += ["", f"{found.loader} binds every slot when it loads an image: nothing to save"]
    for kind, title in _TITLES.items():
        chosen = [one for one in found.variants if one.kind == kind]
        if chosen:
            lines += ["", title]
        for at, one in enumerate(chosen):
            lines += [""] if at else []
            lines += _variant(one, why=why)
    ends = [f"{title}: {line}" for kind, title in _TITLES.items() for line in _worst(found, kind)]
    return "\n".join(map(printable, [*lines, *([""] if ends else []), *ends])) + "\n"


def _worst(found: a.Audit, kind: str) -> list[str]:
    """Return what comes of it all: a line, or one for each condition under which it is wrong."""
    chosen = [one for one in found.variants if one.kind == kind]
    wrong: dict[str, list[str]] = {}
    for one in chosen:
        if one.verdict == a.UNSOUND:
            names = wrong.setdefault(one.condition, [])
            names += [name for name in _judged(one) if name not in names]
    open_ones = [one for one in chosen if one.verdict == a.CONDITIONAL]
    names = list(dict.fromkeys(name for one in open_ones for name in _judged(one)))
    lines = [f"UNSOUND {where}: loses {', '.join(lost)}" for where, lost in wrong.items()]
    if names:
        start = "else sound" if lines else "sound"
        lines.append(f"{start}, unless code outside of this file overwrites {', '.join(names)}")
    if not lines and chosen:
        kept = "every register is kept" if kind == TLSDESC else "every argument arrives"
        lines.append(f"sound: {kept}")
    return lines


def _judged(one: a.Variant) -> list[str]:
    """Return the registers that a verdict other than "sound" is about."""
    fate = a.LOST if one.verdict == a.UNSOUND else a.OPEN
    return [each.name for each in one.registers if each.fate == fate and each.role in a.JUDGED]


def _variant(one: a.Variant, *, why: bool) -> list[str]:
    name = f"{one.name} at {one.vaddr:#x}" if one.name else f"{one.vaddr:#x}"
    verdict = one.verdict.upper() if one.verdict == a.UNSOUND else one.verdict
    how = one.how.replace(" 0x", ", mask 0x") if one.how else "moves"
    aligned = "" if one.alignment is None else f"; stack aligned to {one.alignment} bytes"
    lines = [f"  {name}: {verdict}"]
    lines += _row("used", [one.condition])
    lines += _row("saves", [*one.named(a.SAVED), f"(by {how}{aligned})"])
    changed = one.named(a.UNLESS_CHANGED)
    if changed:
        lines += _row("", [*changed, "unless an audit module has changed the low part"])
    untouched = one.named(a.UNTOUCHED)
    if untouched:
        lines += _row("untouched", untouched)
    hidden = one.named(a.OPEN)
    if hidden:
        lines += _row("open", [*hidden, "(not saved, nor overwritten by this file)"])
    for register in one.registers:
        if register.fate == a.LOST and register.site is not None:
            lines += _lost(register, register.site)
    path = one.path
    called = f"{path.name} at {path.start:#x}" if path.name else f"{path.start:#x}"
    counted = f"{plural(path.functions, 'function')}, {plural(path.instructions, 'instruction')}"
    lines += _row("calls", [f"{called}: {counted}"])
    if path.undecoded:
        lines += _row("", [f"{plural(path.undecoded, 'byte')} could not be disassembled"])
    if path.ways:
        lines += _row("leads out", _ways(path.ways))
    if why:
        for way in path.ways:
            through = f"through {way.through}" if way.through else "through a register"
            lines += _row("", [f"{way.vaddr:#x} in {way.function}: {through}"])
    return lines


def _lost(register: a.Register, site: a.Site) -> list[str]:
    times = f", one of {site.times:,}" if site.times > 1 else ""
    place = f"{site.function} at {site.vaddr:#x} has {site.text}{times}"
    lines = _row("LOSES" if register.role in a.JUDGED else "loses", [f"{register.name}: {place}"])
    role = _ROLES.get(register.role)
    return lines if role is None else lines + _row("", [f"({role})"])


def _ways(ways: tuple[a.Way, ...]) -> list[str]:
    """Return the pointers that lead out of the file, with how often each is called."""
    counted: dict[str, int] = {}
    for way in ways:
        counted[way.through] = counted.get(way.through, 0) + 1
    unknown = counted.pop("", 0)
    told = [f"{name} ({times})" if times > 1 else name for name, times in sorted(counted.items())]
    return [f"{plural(len(ways), 'call')}:", *told] + (
        [f"registers ({unknown})"] if unknown else []
    )


def _row(name: str, words: list[str]) -> list[str]:
    """Return lines with a name in front, broken between words where they get long."""
    margin = 4 + _NAME
    lines = [f"    {name:{_NAME}}"]
    for word in words:
        if len(lines[-1]) > margin and len(lines[-1]) + len(word) >= _WIDTH:
            lines.append(" " * margin)
        lines[-1] += f"{word} "
    return [line.rstrip() for line in lines]


def document(found: a.Audit) -> str:
    """Return the JSON document."""
    return json_document(
        {
            "schema": SCHEMA,
            "path": found.path,
            "loader": found.loader,
            "version": found.version or None,
            "arch": found.arch,
            "bits": found.bits,
            "build_id": found.build_id,
            "binds_lazily": found.binds_lazily,
            "verdict": found.verdict,
            "variants": [_variant_json(one) for one in found.variants],
        }
    )


def _variant_json(one: a.Variant) -> dict[str, object]:
    path = one.path
    return {
        "kind": one.kind,
        "vaddr": hex(one.vaddr),
        "name": one.name or None,
        "condition": one.condition,
        "saved_by": one.how or "moves",
        "alignment": one.alignment,
        "verdict": one.verdict,
        "registers": [
            {
                "name": each.name,
                "role": each.role,
                "fate": each.fate,
                "site": None
                if each.site is None
                else {
                    "vaddr": hex(each.site.vaddr),
                    "function": each.site.function,
                    "instruction": each.site.text,
                    "count": each.site.times,
                },
            }
            for each in one.registers
        ],
        "path": {
            "start": hex(path.start),
            "name": path.name or None,
            "functions": path.functions,
            "instructions": path.instructions,
            "undecoded": path.undecoded,
            "unknown_calls": [
                {"vaddr": hex(way.vaddr), "function": way.function, "through": way.through or None}
                for way in path.ways
            ],
        },
    }
