# SPDX-License-Identifier: Apache-2.0
"""Follow calls of a symbol in a running process, from the slot to the definition."""

from __future__ import annotations

from typing import NamedTuple

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.slots import SlotRelocation, slot_relocations
from soscope.binfmt.isa import CALL, JUMP
from soscope.binfmt.isa import STUB as STUB_USE
from soscope.entry.isa import arch
from soscope.errors import FormatError, SoscopeError
from soscope.inspect.explain.callway import (
    CALL_SITE,
    DEFINITION,
    HOOK,
    LINK_MAP,
    RELOCATION,
    SLOT,
    STUB,
    CallWay,
    Explanation,
    Importer,
    ProcessPart,
    RelocationPlace,
    Step,
)
from soscope.live.images.image import LoadedImage
from soscope.live.images.images import Images, find_images
from soscope.live.images.ownscope import own_scope
from soscope.live.images.space import Space
from soscope.live.images.watch import Watch
from soscope.live.slots.bindings import (
    AGENT_NAME,
    HOOKED,
    INTERPOSED,
    UNBOUND,
    Binding,
    Bindings,
    SlotRow,
)
from soscope.live.slots.code import Use, can_search, note_reaimed, uses_of
from soscope.model.filemap import ELF

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# The steps of a call in a running process, from the link map to the definition, and a hook.

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
    yield _relocation_step(around, facts, kind)
    yield from _code(around, facts)
    yield _step(SLOT, "slot", *_slot(around, facts))
    yield _step(DEFINITION, "definition", *_definition_step(around, facts))
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


def _relocation_step(around: Surroundings, facts: ProcessPart, kind: str) -> Step:
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


def _definition_step(around: Surroundings, facts: ProcessPart) -> list[str]:
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
        return ["none: no image defines it, so there is nothing to call"]
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


# The calls of a symbol in a running process: the choice of image and slots.
#
# The process is only read. This module turns its memory and the loader's data into facts.
# process.py turns the facts into sentences.

MAIN = "MAIN"

_TRIES = 3
_NO_PROVIDER = "none in the scope of the image"


def explain_process(pid: int, symbol: str, importer: str | None = None) -> Explanation:
    """Explain calls of `symbol` (NAME or NAME@VERSION) in process `pid`.

    `importer` is the name or path of an image, MAIN for the program. Without it, the program is
    chosen if it imports the symbol, else the first image that does. Raises NoSuchProcess,
    NotPermitted, and SoscopeError (slug no-such-image).
    """
    space = Space(pid)
    try:
        for _ in range(_TRIES):
            images = find_images(space)
            explanation = _explain(images, symbol, importer)
            if Watch(images).holds():
                break
            space.forget()
        else:
            explanation = explanation._replace(is_changing=True)
        space.check()
    finally:
        space.close()
    return explanation


def _explain(images: Images, symbol: str, importer: str | None) -> Explanation:
    chosen = None if importer is None else _image(images, importer)
    bindings = Bindings(images)
    name, _, version = symbol.partition("@")
    version = version.removeprefix("@")
    wanted = [
        binding
        for listed in bindings.by_image.values()
        for binding in listed
        if binding.symbol == name and (not version or binding.version == version)
    ]
    if chosen is None and wanted:
        chosen = wanted[0].importer
    note_reaimed(bindings, [] if chosen is None else [chosen])
    others = dict.fromkeys(
        binding.importer.name for binding in wanted if binding.importer is not chosen
    )
    importers: tuple[Importer, ...] = ()
    if chosen is not None:
        ways = [_way(images, bindings, binding) for binding in wanted if binding.importer is chosen]
        importers = (_importer(chosen, symbol, ways),)
    return Explanation(
        symbol,
        importers,
        pid=images.space.pid,
        path=images.main.path,
        others=tuple(others),
        defined_in=tuple(image.name for image in bindings.images_defining(_bytes(name))),
    )


def _image(images: Images, text: str) -> LoadedImage:
    chosen = [images.main] if text == MAIN else images.named(text)
    if not chosen:
        raise SoscopeError(
            f"no image '{text}' in process {images.space.pid}",
            slug="no-such-image",
            hint=f"soscope map -p {images.space.pid} lists them",
        )
    return chosen[0]


def _importer(image: LoadedImage, symbol: str, ways: list[CallWay]) -> Importer:
    arch = image.arch
    return Importer(
        name=image.name,
        path=image.path,
        format=ELF,
        arch="" if arch is None else arch.name,
        kind="",
        loader="",
        symbol=symbol,
        ways=tuple(ways),
        near=(),
        partial=(),
    )


def _way(images: Images, bindings: Bindings, binding: Binding) -> CallWay:
    """Return the call path through one slot."""
    image = binding.importer
    row = SlotRow(binding)
    place, places, is_ifunc = _definition(images, bindings, binding)
    mapping = image.space.mapping_at(binding.addr)
    provider = binding.to_image if binding.state == INTERPOSED else binding.expected
    around = Surroundings(
        binding,
        provider,
        is_loader=image is images.loader,
        is_searched=can_search(image),
        images=len(images.linked),
        place=place,
        places=places,
    )
    facts = ProcessPart(
        namespace=image.namespace,
        link_map=image.link_map,
        load_bias=image.load_bias,
        relocation=_relocation(binding),
        uses=tuple(uses_of(image, binding.addr)),
        addr=binding.addr,
        value=binding.value,
        state=binding.state,
        to_image=row.to_image,
        to_symbol=row.to_symbol,
        expected_image=row.expected_image,
        page="" if mapping is None else mapping.flags,
        definition=binding.expected_addr,
        is_ifunc=is_ifunc,
        hook=(),
    )
    facts = facts._replace(hook=tuple(hook_of(around, facts)))
    kind = _type_name(binding)
    return CallWay(
        vaddr=binding.relocation.vaddr,
        kind=kind,
        symbol=binding.symbol,
        version=binding.version,
        provider=None if provider is None else provider.name,
        provider_reason=_NO_PROVIDER if provider is None else None,
        steps=tuple(steps_of(around, facts, kind)),
        wrong=(),
        process=facts,
    )


def _definition(images: Images, bindings: Bindings, binding: Binding) -> tuple[int, int, bool]:
    """Return (index, number of images, is it an IFUNC) of the definition that the loader finds.

    The index counts the images that the loader searches, from 1 on, up to the definition's
    image. Both numbers are 0 if there is no definition. The last tells whether the definition is an
    IFUNC's resolver.
    """
    image = binding.importer
    winner = bindings.winner(image, _bytes(binding.symbol), binding.version, call=binding.is_call)
    if winner is None:
        return 0, 0, False
    scope = own_scope(images, image)[0]
    place = next((n for n, member in enumerate(scope, 1) if member is winner[0]), 0)
    return place, len(scope), bindings.is_ifunc(winner)


def _relocation(binding: Binding) -> RelocationPlace:
    """Return the location of a slot's relocation in memory, and its current target."""
    image = binding.importer
    wanted = binding.relocation
    table = _table_name(binding)
    index = -1
    try:
        for index, entry in enumerate(_table(image, in_plt=wanted.in_plt)):
            if entry.symbol == wanted.symbol and entry.is_call == wanted.is_call:
                aimed_at = entry.vaddr + image.load_bias
                return RelocationPlace(entry.at, table, index, aimed_at, wanted.symbol)
    except FormatError:
        pass  # print the slot without its relocation
    return RelocationPlace(0, table, max(index, 0), binding.addr, wanted.symbol)


def _table(image: LoadedImage, *, in_plt: bool) -> list[SlotRelocation]:
    return [entry for entry in slot_relocations(image.elf) if entry.in_plt == in_plt]


def _type_name(binding: Binding) -> str:
    """Return the name of the slot's relocation type."""
    arch = binding.importer.arch
    assert arch is not None  # otherwise it would have no slots
    types = arch.relocations
    return (
        types.prefix
        + types.types[types.jump_slot if binding.relocation.is_call else types.glob_dat]
    )


def _table_name(binding: Binding) -> str:
    """Return the name of the table that contains the relocation."""
    is_rela = binding.importer.elf.dynamic.get(c.DT_RELA) is not None or (
        binding.importer.elf.dynamic.get(c.DT_PLTREL) == c.DT_RELA
    )
    return (".rela" if is_rela else ".rel") + (".plt" if binding.relocation.in_plt else ".dyn")


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
