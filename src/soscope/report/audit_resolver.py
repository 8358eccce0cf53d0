# SPDX-License-Identifier: Apache-2.0
"""The audit of a dynamic linker, for people and for programs: soscope/audit-resolver/1."""

from __future__ import annotations

from soscope.inspect.audit import audit as a
from soscope.inspect.audit.audit import PROFILE, RESOLVE, TLSDESC
from soscope.inspect.audit.machine import (
    EXTENDED,
    REGPARM,
    RESULT_PLACE,
    STATIC_CHAIN,
    VECTOR_COUNT,
)
from soscope.model.call import printable
from soscope.report.output import json_document, members
from soscope.report.words import plural

SCHEMA = "soscope/audit-resolver/1"


def document(audit: a.Audit) -> str:
    """Return the JSON document."""
    return json_document(
        {
            "schema": SCHEMA,
            **members(audit, "path loader"),
            "version": audit.version or None,
            **members(audit, "arch bits build_id binds_lazily verdict"),
            "variants": [_variant_json(variant) for variant in audit.variants],
        }
    )


def _variant_json(variant: a.Variant) -> dict[str, object]:
    path = variant.path
    return {
        "kind": variant.kind,
        "vaddr": hex(variant.vaddr),
        "name": variant.name or None,
        "condition": variant.condition,
        "saved_by": variant.how or "moves",
        **members(variant, "alignment verdict"),
        "registers": [
            {
                **members(each, "name role fate"),
                "site": None
                if each.site is None
                else {
                    "vaddr": hex(each.site.vaddr),
                    "function": each.site.function,
                    "instruction": each.site.text,
                    "count": each.site.times,
                },
            }
            for each in variant.registers
        ],
        "path": {
            "start": hex(path.start),
            "name": path.name or None,
            **members(path, "functions instructions undecoded"),
            "unknown_calls": [
                {"vaddr": hex(way.vaddr), "function": way.function, "through": way.through or None}
                for way in path.ways
            ],
        },
    }


_NAME = 10  # columns before the text
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


def text(audit: a.Audit, *, why: bool = False) -> str:
    """Return the page. `why` lists every call that leads out of the file."""
    version = f" {audit.version}" if audit.version else ""
    build_id = f", build-id {audit.build_id}" if audit.build_id else ""
    lines = [f"{audit.path}: {audit.loader}{version}, {audit.arch}{build_id}"]
    if not audit.binds_lazily:
        lines += ["", f"{audit.loader} binds every slot when it loads an image: nothing to save"]
    for kind, title in _TITLES.items():
        chosen = [variant for variant in audit.variants if variant.kind == kind]
        if chosen:
            lines += ["", title]
        for at, variant in enumerate(chosen):
            lines += [""] if at else []
            lines += _variant(variant, why=why)
    ends = [f"{title}: {line}" for kind, title in _TITLES.items() for line in _worst(audit, kind)]
    return "\n".join(map(printable, [*lines, *([""] if ends else []), *ends])) + "\n"


def _worst(audit: a.Audit, kind: str) -> list[str]:
    """Return the overall verdict: a line, or one for each condition under which it is wrong."""
    chosen = [variant for variant in audit.variants if variant.kind == kind]
    wrong: dict[str, list[str]] = {}
    for variant in chosen:
        if variant.verdict == a.UNSOUND:
            names = wrong.setdefault(variant.condition, [])
            names += [name for name in _judged(variant) if name not in names]
    open_ones = [variant for variant in chosen if variant.verdict == a.CONDITIONAL]
    names = list(dict.fromkeys(name for variant in open_ones for name in _judged(variant)))
    lines = [f"UNSOUND {where}: loses {', '.join(lost)}" for where, lost in wrong.items()]
    if names:
        start = "else sound" if lines else "sound"
        lines.append(f"{start}, unless code outside of this file overwrites {', '.join(names)}")
    if not lines and chosen:
        kept = "every register is kept" if kind == TLSDESC else "every argument arrives"
        lines.append(f"sound: {kept}")
    return lines


def _judged(variant: a.Variant) -> list[str]:
    """Return the registers that a verdict other than "sound" refers to."""
    fate = a.LOST if variant.verdict == a.UNSOUND else a.OPEN
    return [each.name for each in variant.registers if each.fate == fate and each.role in a.JUDGED]


def _variant(variant: a.Variant, *, why: bool) -> list[str]:
    name = f"{variant.name} at {variant.vaddr:#x}" if variant.name else f"{variant.vaddr:#x}"
    verdict = variant.verdict.upper() if variant.verdict == a.UNSOUND else variant.verdict
    how = variant.how.replace(" 0x", ", mask 0x") if variant.how else "moves"
    aligned = "" if variant.alignment is None else f"; stack aligned to {variant.alignment} bytes"
    lines = [f"  {name}: {verdict}"]
    lines += _row("used", [variant.condition])
    lines += _row("saves", [*variant.named(a.SAVED), f"(by {how}{aligned})"])
    changed = variant.named(a.UNLESS_CHANGED)
    if changed:
        lines += _row("", [*changed, "unless an audit module has changed the low part"])
    untouched = variant.named(a.UNTOUCHED)
    if untouched:
        lines += _row("untouched", untouched)
    hidden = variant.named(a.OPEN)
    if hidden:
        lines += _row("open", [*hidden, "(not saved, nor overwritten by this file)"])
    for register in variant.registers:
        if register.fate == a.LOST and register.site is not None:
            lines += _lost(register, register.site)
    path = variant.path
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


def _lost(register: a.Register, site: a.OverwriteSite) -> list[str]:
    times = f", one of {site.times:,}" if site.times > 1 else ""
    place = f"{site.function} at {site.vaddr:#x} has {site.text}{times}"
    lines = _row("LOSES" if register.role in a.JUDGED else "loses", [f"{register.name}: {place}"])
    role = _ROLES.get(register.role)
    return lines if role is None else lines + _row("", [f"({role})"])


def _ways(ways: tuple[a.UnknownCall, ...]) -> list[str]:
    """Return the pointers that lead out of the file, with the number of calls through each."""
    counted: dict[str, int] = {}
    for way in ways:
        counted[way.through] = counted.get(way.through, 0) + 1
    unknown = counted.pop("", 0)
    told = [f"{name} ({times})" if times > 1 else name for name, times in sorted(counted.items())]
    return [f"{plural(len(ways), 'call')}:", *told] + (
        [f"registers ({unknown})"] if unknown else []
    )


def _row(name: str, words: list[str]) -> list[str]:
    """Return lines that begin with a name, broken between words if they get long."""
    margin = 4 + _NAME
    lines = [f"    {name:{_NAME}}"]
    for word in words:
        if len(lines[-1]) > margin and len(lines[-1]) + len(word) >= _WIDTH:
            lines.append(" " * margin)
        lines[-1] += f"{word} "
    return [line.rstrip() for line in lines]
