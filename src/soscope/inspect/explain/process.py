# SPDX-License-Identifier: Apache-2.0
"""The calls of a symbol in a running process: the choice of image and slots.

The process is only read. This module turns its memory and the loader's data into facts.
processsteps.py turns the facts into sentences.
"""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.slots import SlotRelocation, slot_relocations
from soscope.errors import FormatError, SoscopeError
from soscope.inspect.explain.model import (
    CallWay,
    Explanation,
    Importer,
    ProcessPart,
    RelocationPlace,
)
from soscope.inspect.explain.processsteps import Surroundings, hook_of, steps_of
from soscope.live.images.image import LoadedImage
from soscope.live.images.images import Images, find_images
from soscope.live.images.ownscope import own_scope
from soscope.live.images.space import Space
from soscope.live.images.watch import Watch
from soscope.live.slots.bindings import INTERPOSED, Binding, Bindings, SlotRow
from soscope.live.slots.code import can_search, note_reaimed, uses_of
from soscope.model.filemap import ELF

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

    The index is that of the definition's image among the images that the loader searches, from 1
    on. Both numbers are 0 if there is no definition. The last tells whether the definition is an
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
