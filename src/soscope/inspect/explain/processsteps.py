# SPDX-License-Identifier: Apache-2.0
"""The steps of a call in a running process, from the link map to the definition, and a hook."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from soscope.binfmt.isa import CALL, JUMP
from soscope.binfmt.isa import STUB as STUB_USE
from soscope.entry.isa import arch
from soscope.inspect.explain.model import (
    CALL_SITE,
    DEFINITION,
    HOOK,
    LINK_MAP,
    RELOCATION,
    SLOT,
    STUB,
    ProcessPart,
    Step,
)
from soscope.live.images.image import LoadedImage
from soscope.live.slots.bindings import AGENT_NAME, HOOKED, INTERPOSED, UNBOUND, Binding
from soscope.live.slots.code import Use

_MOST_USES = 6


class Surroundings(NamedTuple):
    """The data that the sentences about a slot need besides the facts.

    `provider` has the definition, None if there is none. It is number `place` of the `places`
    images that the loader searches. `images` is the number of images in the process. `is_loader`
    tells that the importer is the dynamic loader, `is_searched` that the code that goes through
    the slot is known.
    """

    binding: Binding
    provider: LoadedImage | None
    is_loader: bool
    is_searched: bool
    images: int
    place: int
    places: int

    @property
    def is_native(self) -> bool:
        """Return whether there is an agent for code of this machine."""
        image = self.binding.importer
        return (image.space.bits, image.machine) == (arch.BITS, arch.MACHINE)


def steps_of(around: Surroundings, facts: ProcessPart, kind: str) -> Iterator[Step]:
    """Yield the steps in the order of a call; `kind` is the name of the relocation's type."""
    yield _link_map(around)
    yield _relocation(around, facts, kind)
    yield from _code(around, facts)
    yield _step(SLOT, "slot", *_slot(around, facts))
    yield _step(DEFINITION, "definition", *_definition(around, facts))
    yield _step(HOOK, "a hook", *facts.hook)


def _step(step: str, title: str, *notes: str) -> Step:
    return Step(step, title, "", (), notes)


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _link_map(around: Surroundings) -> Step:
    image = around.binding.importer
    space = f" of namespace {image.namespace}" if image.namespace else ""
    return _step(
        LINK_MAP,
        "link map",
        f"entry {image.link_map:#x}, {image.index + 1} of {around.images}{space}: load bias"
        f" {image.load_bias:#x}, dynamic section at {image.dynamic:#x}",
        image.path,
    )


def _relocation(around: Surroundings, facts: ProcessPart, kind: str) -> Step:
    binding, place = around.binding, facts.relocation
    name = binding.symbol if binding.version is None else f"{binding.symbol}@{binding.version}"
    aimed = []
    if place.aimed_at != facts.addr:
        aimed = [f"aimed at {place.aimed_at:#x} now: the loader is to bind there"]
    return _step(
        RELOCATION,
        "relocation",
        f"{place.table}[{place.entry}] at {place.addr:#x}: {kind}, symbol {place.symbol}, {name}",
        f"r_offset {binding.relocation.vaddr:#x} + load bias {facts.load_bias:#x}"
        f" = slot {facts.addr:#x}",
        *aimed,
    )


def _code(around: Surroundings, facts: ProcessPart) -> Iterator[Step]:
    """Yield the code that goes through the slot: direct calls, and the linker's stubs."""
    if not around.is_searched:
        why = "not searched for what goes through the slot: it is another machine's"
        yield _step(CALL_SITE, "call site", why)
        return
    stubs, calls, loads = _by_kind(facts.uses)
    notes = _places(calls, "its code")
    if loads:
        taken = ": the address is taken" if around.is_native else ", or go through another table"
        notes.append(f"{_counted(len(loads), 'instruction')} may load it{taken}")
    if not notes and not stubs:
        notes.append("no code that goes through the slot was found")
    if notes:
        yield _step(CALL_SITE, "call site", *notes)
    if stubs:
        yield _step(STUB, "stub", *_places(stubs, "a stub"))


def _by_kind(uses: tuple[Use, ...]) -> tuple[list[Use], list[Use], list[Use]]:
    """Return the stubs, the direct calls and jumps, and the loads."""
    stubs = [use for use in uses if use.kind == STUB_USE]
    calls = [use for use in uses if use.kind in (CALL, JUMP)]
    loads = [use for use in uses if use.kind not in (STUB_USE, CALL, JUMP)]
    return stubs, calls, loads


def _places(uses: list[Use], somewhere: str) -> list[str]:
    notes = [f"{use.addr:#x} in {use.section or somewhere}: {use.text}" for use in uses]
    if len(notes) > _MOST_USES:
        notes[_MOST_USES:] = [f"and {len(notes) - _MOST_USES:,} more"]
    return notes


def _slot(around: Surroundings, facts: ProcessPart) -> list[str]:
    how = {
        UNBOUND: "unbound: the next call goes to the loader, which will bind it",
        INTERPOSED: f"interposed: {facts.to_image} comes before {facts.expected_image}",
        HOOKED: f"hooked: it leads to {facts.to_image}",
    }.get(facts.state, f"bound to {facts.to_image}" if facts.to_image else "bound to nothing")
    notes = [f"{facts.addr:#x} ({facts.page}) holds {facts.value:#x}: {how}"]
    sites = around.binding.sites
    if sites:
        count = _counted(len(sites), "instruction")
        notes.append(f"{count} re-aimed, to {around.binding.target:#x}: {facts.to_image}")
    return notes


def _definition(around: Surroundings, facts: ProcessPart) -> list[str]:
    provider, addr = around.provider, facts.definition
    if addr is None or provider is None:
        return ["none in the scope of the image"]
    what = around.binding.symbol
    if facts.is_ifunc:
        what = "an IFUNC's resolver, which chose what the slot holds"
    return [
        f"{addr:#x}: {what} in {provider.name}+{addr - provider.load_bias:#x}",
        f"found in image {around.place} of {around.places} in which the loader looks",
    ]


# ---- the hook ----


def hook_of(around: Surroundings, facts: ProcessPart) -> list[str]:
    """Return what soscope's hook would write, or has written: a sentence for each step."""
    if around.is_loader:
        return ["none: the loader's own calls are left alone"]
    if not facts.value and facts.definition is None:
        return ["none: nobody defines it, so there is nothing to call"]
    if not around.is_native:
        return ["none: soscope has no agent for programs of this kind"]
    if facts.state == HOOKED:
        if facts.to_image == AGENT_NAME:
            return ["it is hooked already, by soscope's agent"]
        return [f"{facts.to_image} has changed it: a hook would go in front of that"]
    protect = [] if "w" in facts.page else ["its page is made writable, and read-only again"]
    entry = f"the slot at {facts.addr:#x} gets the address of an entry trampoline"
    if facts.state == UNBOUND:
        field = f"r_offset of the relocation, at {facts.relocation.addr:#x},"
        return [
            f"{field} gets the distance to a cell: the loader will bind there",
            *protect,
            entry,
            f"the cell keeps {facts.value:#x}, the way into the loader, until then",
        ]
    keeps = f"the cell behind it keeps {facts.value:#x}: calls go on to there"
    if around.binding.is_call:
        return [*protect, entry, keeps]
    return _hook_of_data(facts.uses, protect, entry, keeps)


def _hook_of_data(uses: tuple[Use, ...], protect: list[str], entry: str, keeps: str) -> list[str]:
    stubs, calls, loads = _by_kind(uses)
    through = [*stubs, *calls]
    if not through:
        return ["only loads that a call alone follows can be re-aimed; else there is none"]
    if not loads and not stubs:
        return [*protect, entry, keeps]
    word = "a word of the agent's within 2 GiB"
    return [
        "the slot stays as it is: the function's address is taken, and must stay what it is",
        # also for loads that only a call follows; the agent can tell them from others
        *(f"the displacement at {use.displacement:#x} is aimed at {word}" for use in through),
        "that word gets the address of an entry trampoline",
        keeps,
    ]
