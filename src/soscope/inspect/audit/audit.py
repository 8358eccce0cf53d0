# SPDX-License-Identifier: Apache-2.0
"""The audit: for each trampoline, what it saves, what may be overwritten, and whether that is well.

What is compared are argument registers alone: others the psABI lets every function overwrite, so
nobody can have anything in them when a slot is called.
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

# what becomes of a register
SAVED = "saved"  # it holds what it held, whatever happens in between
UNLESS_CHANGED = "saved-unless-changed"  # … or what an audit module has put there
UNTOUCHED = "untouched"  # not saved, and nothing that can be reached overwrites it
OPEN = "open"  # not saved, and not overwritten by what the file has
LOST = "lost"  # not saved, and overwritten
ABSENT = "absent"  # where this trampoline is used, the processor has no such register

# verdicts
SOUND = "sound"
CONDITIONAL = "conditional"  # sound as long as functions outside of the file leave registers alone
UNSOUND = "unsound"

JUDGED = (m.ARGUMENT, m.REGPARM, m.VECTOR_COUNT, m.RESULT_PLACE, m.SCRATCH)
_VERSION = re.compile(rb"stable release version (\d+\.\d+)")
_MAX_TEXT = 1 << 24
_EVERY = "on every processor"
_ALL = ("sse", "avx", "avx512", "mpx")


class OverwriteSite(NamedTuple):
    """An instruction that overwrites a register; `function` has a name, or an address."""

    vaddr: int
    function: str
    text: str
    times: int


class Register(NamedTuple):
    """A register, or several with one fate; `role` as of `machine.Group`."""

    name: str
    role: str
    fate: str
    site: OverwriteSite | None


class UnknownCall(NamedTuple):
    """A call on the path whose target the file does not say; `through` names the pointer."""

    vaddr: int
    function: str
    through: str


class Path(NamedTuple):
    """What a trampoline's call can reach. `start` is the called function's link-time address."""

    start: int
    name: str
    functions: int
    instructions: int
    undecoded: int
    ways: tuple[UnknownCall, ...]


class Variant(NamedTuple):
    """One trampoline. `kind` as of `shape`; `condition` is where it is used.

    `how` says how it saves what the processor has beside general registers, "" where by moves;
    `alignment` is that of its stack in bytes, None where it leaves that alone.
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
    """What was found out about one dynamic linker.

    `loader` is "glibc" or "musl", `version` "" where the file does not say. `binds_lazily` is
    False for one that has no trampolines because it needs none.
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
        """The worst verdict on a trampoline of plain lazy binding, None without any."""
        verdicts = {variant.verdict for variant in self.variants if variant.kind == RESOLVE}
        return next(
            (verdict for verdict in (UNSOUND, CONDITIONAL, SOUND) if verdict in verdicts), None
        )


def audit(path: str | None = None) -> Audit:
    """Look through the dynamic linker at `path`; None is that of this interpreter.

    Raises SoscopeError: not there (no-such-file), no dynamic linker (no-loader), one that cannot
    be disassembled (no-disassembler), no capstone (no-extra); FormatError.
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
    """Say what becomes of a group of registers on the way through a trampoline."""
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
    """Return where a trampoline is used, and what a processor there may have.

    glibc's loader chooses by CPUID, and by what the kernel has switched on (sysdeps/x86_64/
    dl-machine.h, elf_machine_runtime_setup): the best of those that its file has.
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
    """Return how a trampoline saves vector registers: by which instruction, or the widest move."""
    for mark in trampoline.marks:
        if mark.startswith("saved "):
            return mark.split()[1].removesuffix("opt")
    held = trampoline.kept | trampoline.sometimes
    if trampoline.kind == TLSDESC:
        held = trampoline.kept
    return next((f"{kind}mm" for kind in "zyx" if f"{kind}mm0" in held), "plain")
