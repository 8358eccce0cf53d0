# SPDX-License-Identifier: Apache-2.0
"""The audit of a resolver: what each trampoline saves, what may be overwritten, and a verdict.

Only argument registers are compared. By the psABI every function may overwrite the others, so no
caller keeps anything in them when it calls through a slot.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from soscope.binfmt.elf import constants as c
from soscope.inspect.audit import machine as m
from soscope.inspect.audit.loader import GLIBC, Loader, open_loader, own_loader
from soscope.inspect.audit.machine import Group
from soscope.inspect.audit.reach import Leap, Reach, Reaching
from soscope.inspect.audit.shape import PROFILE, RESOLVE, TLSDESC, Trampoline, trampolines

# fates of a register
SAVED = "saved"  # has its old value afterwards, whatever the resolver does
UNLESS_CHANGED = "saved-unless-changed"  # as SAVED, unless an audit module (LD_AUDIT) changes it
UNTOUCHED = "untouched"  # not saved, but no reachable code overwrites it
OPEN = "open"  # not saved, and no code in this file overwrites it
LOST = "lost"  # not saved, and overwritten
ABSENT = "absent"  # processors that use this trampoline lack the register

# verdicts
SOUND = "sound"
CONDITIONAL = "conditional"  # sound if functions outside of the file keep the registers
UNSOUND = "unsound"

JUDGED = (m.ARGUMENT, m.REGPARM, m.VECTOR_COUNT, m.RESULT_PLACE, m.SCRATCH)
_VERSION = re.compile(rb"stable release version (\d+\.\d+)")
_MAX_TEXT = 1 << 24
_EVERY = "on every processor"
_ALL = ("sse", "avx", "avx512", "mpx")


class OverwriteSite(NamedTuple):
    """An instruction that overwrites a register; `function` is its function's name or address."""

    vaddr: int
    function: str
    text: str
    times: int


class Register(NamedTuple):
    """A register, or several with the same fate; `role` as in `machine.Group`."""

    name: str
    role: str
    fate: str
    site: OverwriteSite | None


class UnknownCall(NamedTuple):
    """A call on the path whose target is not in the file; `through` is the name of the pointer."""

    vaddr: int
    function: str
    through: str


class Path(NamedTuple):
    """The code that a trampoline's call can reach; `start` is the link-time address it calls."""

    start: int
    name: str
    functions: int
    instructions: int
    undecoded: int
    ways: tuple[UnknownCall, ...]


class Variant(NamedTuple):
    """One trampoline; `kind` as in `shape`, `condition` tells when the loader uses it.

    `how` is how it saves the processor's state beside general registers, "" if by moves.
    `alignment` is the alignment of its stack in bytes, None if it does not align the stack.
    """

    kind: str
    vaddr: int
    name: str
    condition: str
    how: str
    alignment: int | None
    registers: tuple[Register, ...]
    path: Path
    verdict: str

    def named(self, *fates: str) -> list[str]:
        """Return the names of the registers with one of these fates."""
        return [register.name for register in self.registers if register.fate in fates]


class Audit(NamedTuple):
    """The results for one dynamic linker.

    `loader` is "glibc" or "musl". `version` is "" if the file does not contain it. `binds_lazily`
    is False if the linker has no trampolines because it never binds lazily.
    """

    path: str
    loader: str
    version: str
    arch: str
    bits: int
    build_id: str
    binds_lazily: bool
    variants: tuple[Variant, ...]

    @property
    def verdict(self) -> str | None:
        """The worst verdict on a trampoline for plain lazy binding, None if there is none."""
        verdicts = {variant.verdict for variant in self.variants if variant.kind == RESOLVE}
        return next(
            (verdict for verdict in (UNSOUND, CONDITIONAL, SOUND) if verdict in verdicts), None
        )


def audit(path: str | None = None) -> Audit:
    """Audit the dynamic linker at `path`; None means the linker of this Python interpreter.

    Raises SoscopeError: there is no such file (no-such-file), it is not a dynamic linker
    (no-loader), it cannot be disassembled (no-disassembler), capstone is missing (no-extra).
    Raises FormatError.
    """
    loader = open_loader(path if path is not None else own_loader())
    image = loader.image
    assert image.header is not None
    variants: tuple[Variant, ...] = ()
    if loader.kind == GLIBC:
        listed = trampolines(loader)
        reaching = Reaching(loader)
        variants = tuple(_variant(loader, reaching, trampoline, listed) for trampoline in listed)
    return Audit(
        loader.path,
        loader.kind,
        _version(loader),
        loader.arch,
        image.encoding.bits,
        image.build_id.hex(),
        loader.kind == GLIBC,
        variants,
    )


def _version(loader: Loader) -> str:
    for segment in loader.image.segments:
        if segment.type == c.PT_LOAD and not segment.flags & 2:
            text = loader.image.source.read(segment.offset, min(segment.filesz, _MAX_TEXT))
            match = _VERSION.search(text)
            if match is not None:
                return match[1].decode("ascii")
    return ""


def _variant(
    loader: Loader, reaching: Reaching, trampoline: Trampoline, others: list[Trampoline]
) -> Variant:
    reach = reaching.reach(trampoline.calls)
    condition, features = _condition(
        trampoline, [other for other in others if other.kind == trampoline.kind]
    )
    groups = loader.isa.kept_by_tlsdesc if trampoline.kind == TLSDESC else loader.isa.groups
    registers = tuple(
        _register(loader, group, trampoline, reach, features) for group in groups if group.parts
    )
    judged = {register.fate for register in registers if register.role in JUDGED}
    verdict = UNSOUND if LOST in judged else CONDITIONAL if OPEN in judged else SOUND
    start = trampoline.calls[-1] if trampoline.kind == TLSDESC else trampoline.calls[0]
    return Variant(
        trampoline.kind,
        trampoline.vaddr,
        loader.name(trampoline.vaddr),
        condition,
        next((mark[6:] for mark in sorted(trampoline.marks) if mark.startswith("saved ")), ""),
        next(
            (int(mark[8:]) for mark in sorted(trampoline.marks) if mark.startswith("aligned ")),
            None,
        ),
        registers,
        Path(
            start,
            loader.name(start),
            len(reach.functions),
            reach.instructions,
            reach.undecoded,
            tuple(_way(loader, leap) for leap in reach.leaps),
        ),
        verdict,
    )


def _way(loader: Loader, leap: Leap) -> UnknownCall:
    through = leap.name
    if leap.through is not None and not through:
        through = f"{leap.through:#x}"
    return UnknownCall(leap.vaddr, _function_name(loader, leap.function), through)


def _function_name(loader: Loader, vaddr: int) -> str:
    function = loader.function_at(vaddr)
    if function is None or function.vaddr != vaddr:
        return loader.name(vaddr) or f"{vaddr:#x}"
    return loader.name_of(function) or f"{vaddr:#x}"


def _register(
    loader: Loader, group: Group, trampoline: Trampoline, reach: Reach, features: tuple[str, ...]
) -> Register:
    """Return what happens to a group of registers in a trampoline and its callees."""
    if group.needs and group.needs not in features:
        return Register(group.name, group.role, ABSENT, None)
    parts = frozenset(group.parts)
    if parts <= trampoline.kept:
        return Register(group.name, group.role, SAVED, None)
    if trampoline.kind == PROFILE and parts <= trampoline.kept | trampoline.sometimes:
        return Register(group.name, group.role, UNLESS_CHANGED, None)
    left = sorted(parts - trampoline.kept)
    writes = [reach.writes[part] for part in left if part in reach.writes]
    site = None
    if writes:
        first = max(writes)
        site = OverwriteSite(
            first.vaddr,
            _function_name(loader, first.function),
            first.text,
            sum(write.times for write in writes),
        )
    own = next((trampoline.writes[part] for part in left if part in trampoline.writes), None)
    if own is not None and site is None:
        site = OverwriteSite(own[0], _function_name(loader, trampoline.function.vaddr), own[1], 1)
    fate = LOST if site is not None else OPEN if reach.leaps or reach.undecoded else UNTOUCHED
    return Register(group.name, group.role, fate, site)


def _condition(trampoline: Trampoline, alike: list[Trampoline]) -> tuple[str, tuple[str, ...]]:
    """Return when the loader uses a trampoline, and the features of processors that use it.

    glibc's loader chooses the best trampoline in its file by CPUID, and by what the kernel has
    switched on (sysdeps/x86_64/dl-machine.h, elf_machine_runtime_setup).
    """
    ways = {_way_of(other) for other in alike}
    way = _way_of(trampoline)
    if way == "fxsave" and ways & {"xsave", "xsavec"}:
        return "without XSAVE: neither AVX nor AVX-512", ("sse",)
    if way == "xsave" and "xsavec" in ways:
        return "with XSAVE, without XSAVEC", _ALL
    if way in ("xsave", "xsavec"):
        return f"with {way.upper()}", _ALL
    if way in ("plain", "fnsave") and "fxsave" in ways:
        return "without FXSAVE: no SSE", ()
    if way == "zmm":
        return "with AVX-512", _ALL
    if way == "ymm" and "zmm" in ways:
        return "with AVX, without AVX-512", ("sse", "avx")
    if way == "ymm":
        return "with AVX", _ALL
    if way == "xmm" and ways & {"ymm", "zmm"}:
        return "without AVX", ("sse",)
    leaving = {"leaves by jump", "leaves by return"}
    how = trampoline.marks & leaving
    if how == {"leaves by jump"} and any(other.marks & leaving - how for other in alike):
        return "with shadow stacks (it leaves by a jump)", _ALL
    return _EVERY, _ALL


def _way_of(trampoline: Trampoline) -> str:
    """Return how a trampoline saves vector registers: an instruction's name, or the widest move."""
    for mark in trampoline.marks:
        if mark.startswith("saved "):
            return mark.split()[1].removesuffix("opt")
    held = trampoline.kept | trampoline.sometimes
    if trampoline.kind == TLSDESC:
        held = trampoline.kept
    return next((f"{kind}mm" for kind in "zyx" if f"{kind}mm0" in held), "plain")
