# SPDX-License-Identifier: Apache-2.0
"""The map of a running process: its images, and what each of their slots leads to now."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, sleep

from soscope.process.images.images import Images, find_images
from soscope.process.images.loadedimage import LoadedImage
from soscope.process.images.space import Space
from soscope.process.images.watch import Watch
from soscope.process.slots.bindings import BOUND, HOOKED, INTERPOSED, UNBOUND, Binding, Bindings
from soscope.process.slots.reaimed import note_reaimed

STATES = (UNBOUND, BOUND, INTERPOSED, HOOKED)

_AGENT = "/memfd:soscope"
AGENT_NAME = "soscope's agent"
_TRIES = 3
_LOOKS, _CHANGES, _PAUSE, _MOST = 25, 10, 0.001, 1.0
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
    `mappings` are those of each image, by rising address. `is_changing` says that images came
    and went while it was read: those are left out.
    """

    __slots__ = (
        "damaged",
        "images",
        "is_changing",
        "is_guessed",
        "mappings",
        "path",
        "pid",
        "rows",
        "total",
    )

    def __init__(
        self, pid: int, images: list[LoadedImage], bindings: Bindings, chooses: Chooses
    ) -> None:
        self.pid = pid
        self.path = images[0].path if images else ""
        self.images = images
        self.damaged = [(image.name, why) for image, why in bindings.damaged.items()]
        self.is_guessed = bindings.scope_is_guessed
        self.is_changing = False
        self.rows: dict[LoadedImage, list[Row]] = {}
        self.total = 0
        names = {image: image.name for image in self.images}
        self.mappings = {image: image.mappings for image in self.images}
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

    Where images come and go all the time, only those that stay are in it. Raises
    NoSuchProcess, NotPermitted.
    """
    space = Space(pid)
    found = None
    try:
        for _ in range(_TRIES):
            images = find_images(space)
            bindings = Bindings(images)
            note_reaimed(bindings, images.all)
            watch = Watch(images)
            if watch.holds():
                made = ProcessMap(pid, images.all, bindings, chooses)
                found = made if watch.holds() else found
                if found is made and not found.is_guessed and not found.damaged:
                    break
            space.forget()
        if found is None or found.damaged:  # an image may be half loaded all the time
            staying = _of_those_that_stay(pid, space, images, bindings, chooses)
            if found is None or not set(found.damaged) <= set(staying.damaged):
                found = staying
        for image in found.images:
            _ = image.path  # while the process is open
        space.check()
    finally:
        space.close()
    return found


def _of_those_that_stay(
    pid: int, space: Space, images: Images, bindings: Bindings, chooses: Chooses
) -> ProcessMap:
    """Make the map of the images that are there whenever the loader's lists are looked at."""
    stable = before = set(map(_identity, images.linked))
    looks = changes = 0
    end = monotonic() + _MOST
    # where it has not run in between, that an image is still there says nothing
    while looks < _LOOKS or (changes < _CHANGES and monotonic() < end):
        sleep(_PAUSE)
        now = set(map(_identity, find_images(space).linked))
        looks += 1
        changes += now != before
        stable, before = stable & now, now
    stay = [one for one in images.linked if _identity(one) in stable]
    listed = set(stay)
    for image in list(bindings.by_image):
        if image not in listed:
            del bindings.by_image[image]
            continue
        bindings.by_image[image] = [
            one
            for one in bindings.by_image[image]
            if (one.expected is None or one.expected in listed)
            and (one.to_image is None or one.to_image in listed)
        ]
    bindings.damaged = {one: why for one, why in bindings.damaged.items() if one in listed}
    found = ProcessMap(pid, stay, bindings, chooses)
    found.is_changing = True
    return found


def _identity(image: LoadedImage) -> tuple[int, int, int]:
    return image.link_map, image.dynamic, image.load_bias


def memory_name(space: Space, addr: int) -> str:
    """Say whose memory an address is that belongs to no image."""
    mapping = space.mapping_at(addr)
    if mapping is None:
        space.forget()  # it may be newer than what was read first
        mapping = space.mapping_at(addr)
    if mapping is None:
        return UNMAPPED
    if mapping.path.startswith(_AGENT):
        return AGENT_NAME
    return mapping.path or ANONYMOUS
