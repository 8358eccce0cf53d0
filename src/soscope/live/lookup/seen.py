# SPDX-License-Identifier: Apache-2.0
"""Find where a name is bound by reading an image's own slot, without a look-up."""

from __future__ import annotations

import os

from soscope.binfmt.elf.lookup import Name
from soscope.errors import FormatError
from soscope.live.images.image import LoadedImage
from soscope.live.images.images import Images
from soscope.live.lookup import answer as words
from soscope.live.lookup.answer import Answer, Candidate, Query
from soscope.live.slots import slots

_NAMES = {slots.JUMP: "JUMP_SLOT", slots.DATA: "GLOB_DAT", slots.WORD: "word"}


def seen_from(images: Images, image: LoadedImage, query: Query) -> Answer:
    """Answer with the current contents of the slots of `image` for the name."""
    result = Answer(query.text)
    name = os.fsencode(query.name)
    if images.space.is_patchwork:
        return result.refuse(words.NO_PERMISSION, "slots are memory, which may not be read")
    try:
        named = slots.slots_named(image, name)
        own = [entry.value + image.load_bias for entry in image.symbols.definitions(Name(name))]
    except FormatError as error:
        return result.refuse(words.NONE, error.message)
    values: dict[int, tuple[str, str | None]] = {}
    unbound = []
    for slot, version in named:
        if slot.kind not in _NAMES or query.version not in (None, version):
            continue
        value = images.space.word(slot.addr)
        label = f"{_NAMES[slot.kind]} slot {slot.addr:#x} of {image.name}"
        if value is not None and slot.kind == slots.WORD:
            value -= slot.addend or 0
        if value is None or slots.is_unbound(image, value, own):
            unbound.append(f"{label} is not bound")
        else:
            values.setdefault(value, (label, version))
    if len(values) == 1:
        ((addr, (label, version)),) = values.items()
        return _bound(images, result, query, addr, label, version)
    if values:
        result.candidates = [
            Candidate(addr, query.name, version, images.at(addr), None)
            for addr, (_, version) in values.items()
        ]
        return result.refuse(words.AMBIGUOUS, f"slots of {image.name} do not agree")
    if unbound:
        return result.refuse(words.UNBOUND, unbound[0])
    return result.refuse(words.NONE, _without_slot(image, query))


def _without_slot(image: LoadedImage, query: Query) -> str:
    """Return why an image has no slot for a name, and which query to make in its place."""
    name = os.fsencode(query.name)
    ask = f"; '{image.name}!{query.name}' asks for that"
    own = image.symbols.definitions(Name(name))
    if own:
        return f"{image.name} has no slot for it: it defines it, and reaches it directly{ask}"
    if image.names.find(query.name):
        return f"{image.name} has no slot for it: it is one of its own static symbols{ask}"
    return f"{image.name} has no slot for it: it does not import it"


def _bound(
    images: Images, result: Answer, query: Query, addr: int, label: str, version: str | None
) -> Answer:
    """Fill in the definition to which a slot leads."""
    result.why.append(f"{label} holds {addr:#x}")
    result.status = words.OK
    result.addr = addr
    result.symbol = query.name
    result.version = version
    result.image = images.at(addr)
    result.rule = words.RULE_DLSYM
    if result.image is None:
        mapping = images.space.mapping_at(addr)
        place = "nothing mapped" if mapping is None else mapping.path or "anonymous memory"
        result.why.append(f"that is no image's: {place}")
    else:
        executes = result.image.executes(addr)
        result.kind = words.KIND_FUNCTION if executes else words.KIND_OBJECT
    return result
