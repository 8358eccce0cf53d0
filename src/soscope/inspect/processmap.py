# SPDX-License-Identifier: Apache-2.0
"""The map of a running process: its images, and what each of their slots leads to now."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from soscope.process.bindings import BOUND, HOOKED, INTERPOSED, UNBOUND, Binding, Bindings
from soscope.process.images import Images, find_images
from soscope.process.loadedimage import LoadedImage
from soscope.process.maps import Mapping
from soscope.process.reaimed import note_reaimed
from soscope.process.space import Space

STATES = (UNBOUND, BOUND, INTERPOSED, HOOKED)

_AGENT = "/memfd:soscope"
AGENT_NAME = "soscope's agent"
UNMAPPED = "unmapped memory"
ANONYMOUS = "anonymous memory"

# (symbol, importer, the image that it leads to or would) -> is it wanted
Chooses = Callable[[str, LoadedImage, LoadedImage | None], bool]


class Row:
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
        """Say whether it is not what the loader has written, or would write."""
        return self.binding.state == HOOKED


class ProcessMap:
    """The images of process `pid` in link-map order, each with its chosen slots.

    `damaged` are (image's name, why) of those whose tables cannot be read; `is_guessed` says
    that the loader's scopes were not found, so that "interposed" and "hooked" may be wrong.
    `mappings` are those of each image, by rising address.
    """

    __slots__ = ("damaged", "images", "is_guessed", "mappings", "path", "pid", "rows", "total")

    def __init__(self, pid: int, images: Images, bindings: Bindings, chooses: Chooses) -> None:
        self.pid = pid
        self.path = images.main.path
        self.images = images.all
        self.damaged = [(image.name, why) for image, why in bindings.damaged.items()]
        self.is_guessed = bindings.scope_is_guessed
        self.rows: dict[LoadedImage, list[Row]] = {}
        self.total = 0
        names = {image: image.name for image in self.images}
        self.mappings = {image: _mappings(image) for image in self.images}
        for image in self.images:
            listed = bindings.by_image.get(image, [])
            self.total += len(listed)
            self.rows[image] = [
                Row(one, names)
                for one in listed
                if chooses(one.symbol, image, one.to_image or one.expected)
            ]

    def keep_changed(self) -> None:
        """Keep the slots alone that differ from what the loader would have written."""
        for image, rows in self.rows.items():
            self.rows[image] = [one for one in rows if one.is_changed]

    def counts(self) -> dict[str, int]:
        """Return state -> number of the slots."""
        found = dict.fromkeys(STATES, 0)
        for rows in self.rows.values():
            for one in rows:
                found[one.binding.state] += 1
        return found


def read_map(pid: int, chooses: Chooses) -> ProcessMap:
    """Read the map of a process, without stopping it.

    Raises NoSuchProcess, NotPermitted.
    """
    space = Space(pid)
    try:
        images = find_images(space)
        bindings = Bindings(images)
        note_reaimed(bindings, images.all)
        found = ProcessMap(pid, images, bindings, chooses)
        for image in found.images:
            _ = image.path  # while the process is open
        space.check()
    finally:
        space.close()
    return found


def _mappings(image: LoadedImage) -> list[Mapping]:
    """Return the mappings that hold a part of the image's PT_LOADs."""
    listed = image.space.mappings
    found: dict[int, Mapping] = {}
    for start, end in image.ranges:
        at = bisect_right(listed, start, key=lambda one: one.start)
        for one in listed[max(at - 1, 0) :]:
            if one.start >= end:
                break
            if one.end > start:
                found[one.start] = one
    return [found[start] for start in sorted(found)]


def memory_name(space: Space, addr: int) -> str:
    """Say whose memory an address is that belongs to no image."""
    mapping = space.mapping_at(addr)
    if mapping is None:
        return UNMAPPED
    if mapping.path.startswith(_AGENT):
        return AGENT_NAME
    return mapping.path or ANONYMOUS
