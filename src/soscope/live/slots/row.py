# SPDX-License-Identifier: Apache-2.0
"""A slot for people: names of what it leads to, where no image is."""

from __future__ import annotations

from soscope.live.images.loadedimage import LoadedImage
from soscope.live.images.space import Space
from soscope.live.images.unlisted import AGENT
from soscope.live.slots.bindings import HOOKED, Binding

AGENT_NAME = "soscope's agent"
UNMAPPED = "unmapped memory"
ANONYMOUS = "anonymous memory"


class SlotRow:
    """One slot for people: what it leads to has a name, whatever memory it is.

    `to_image` is the name of an image, or of the memory that a hook leads to; `to_symbol` and
    `expected_image` are None where there is nothing to say.
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
        """Return whether it is not what the loader has written, or would write."""
        return self.binding.state == HOOKED


def memory_name(space: Space, addr: int) -> str:
    """Say whose memory an address is that belongs to no image."""
    mapping = space.mapping_at(addr)
    if mapping is None:
        space.forget()  # it may be newer than what was read first
        mapping = space.mapping_at(addr)
    if mapping is None:
        return UNMAPPED
    if mapping.path.startswith(AGENT):
        return AGENT_NAME
    return mapping.path or ANONYMOUS
