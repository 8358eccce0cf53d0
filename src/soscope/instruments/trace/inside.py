# SPDX-License-Identifier: Apache-2.0
"""Functions of a filter that their own image may also call directly, through no slot."""

from __future__ import annotations

from soscope.model.image import SLOT_METHOD, TracedImage, TracedSlot
from soscope.select.filter import Selection, chooses, compile_symbol
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def called_inside(selection: Selection, slots: Iterable[TracedSlot]) -> dict[str, list[str]]:
    """Return image -> functions of it that the filter lists, and whose calls there it chooses.

    Functions that the image itself calls through a slot, like other callers, are left out, and so
    are functions that are called by a method table.
    """
    named = [
        compile_symbol(word.symbol)
        for word in selection.words
        if word.kind == layout.RULE_INCLUDE and word.text and not word.symbol.is_any
    ]
    if not named:
        return {}
    known = list(slots)
    through_slots = {(slot.caller, slot.symbol) for slot in known}
    functions: dict[str, list[str]] = {}
    for image, symbol in dict.fromkeys(
        (slot.callee, slot.symbol) for slot in known if slot.kind != SLOT_METHOD
    ):
        if image is None or (image, symbol) in through_slots:
            continue
        name = symbol.encode("utf-8", "surrogateescape")
        if any(pattern.matches(name) for pattern in named) and _chosen(
            selection, symbol, image, image
        ):
            functions.setdefault(image.name, []).append(symbol)
    return {image: list(dict.fromkeys(symbols)) for image, symbols in functions.items()}


def called_by_pointers(selection: Selection, images: Iterable[TracedImage]) -> dict[str, list[str]]:
    """Return hooked image -> functions that the filter chooses and its data has pointers to.

    What it calls through these goes through no slot.
    """
    from soscope.control.imports import pointed_functions, which_define

    known = list({image.path: image for image in images}.values())
    functions: dict[str, list[str]] = {}
    for image in known:
        for symbol in pointed_functions(image.path) if image.slots_hooked else ():
            paths = which_define(symbol, [other.path for other in known if other is not image])
            callee = next((other for other in known if other.path in paths[:1]), image)
            if _chosen(selection, symbol, image, callee):
                functions.setdefault(image.name, []).append(symbol)
    return functions


def _chosen(selection: Selection, symbol: str, caller: TracedImage, callee: TracedImage) -> bool:
    return chooses(
        selection,
        symbol,
        caller=caller.name,
        callee=callee.name,
        caller_path=caller.path,
        callee_path=callee.path,
        caller_is_main=caller.is_main,
        callee_is_main=callee.is_main,
    )
