# SPDX-License-Identifier: Apache-2.0
"""A slot for reports, with names for memory that belongs to no image."""

from __future__ import annotations

from soscope.live.images.loadedimage import LoadedImage
from soscope.live.images.space import Space
from soscope.live.images.unlisted import AGENT
from soscope.live.slots.bindings import HOOKED, Binding

AGENT_NAME = "soscope's agent"
UNMAPPED = "unmapped memory"
ANONYMOUS = "anonymous memory"


class SlotRow:
    """One slot for reports: its target has a name, whatever memory that is.

    `to_image` is the name of an image, or of the memory to which a hook leads. `to_symbol` and
    `expected_image` are None if they are not known or do not apply.
    """

    __slots__ = ("binding", "expected_image", "to_image", "to_symbol")

    def __init__(self, binding: Binding, names: dict[LoadedImage, str] | None = None) -> None:
        self.binding = binding
        expected, to_image = binding.expected, binding.to_image
        names = names or {}
        self.expected_image = None if expected is None else names.get(expected) or expected.name
        self.to_symbol = binding.to_symbol
        self.to_image: str | None = None
        if to_image is not None:
            self.to_image = names.get(to_image) or to_image.name
        elif binding.state == HOOKED:
            self.to_image = memory_name(binding.importer.space, binding.target)

    @property
    def is_changed(self) -> bool:
        """Return whether the slot holds something that the loader would not have written."""
        return self.binding.state == HOOKED


def memory_name(space: Space, addr: int) -> str:
    """Return the name of the memory at an address that belongs to no image."""
    mapping = space.mapping_at(addr)
    if mapping is None:
        space.forget()  # it may be newer than the mappings that were read
        mapping = space.mapping_at(addr)
    if mapping is None:
        return UNMAPPED
    if mapping.path.startswith(AGENT):
        return AGENT_NAME
    return mapping.path or ANONYMOUS
