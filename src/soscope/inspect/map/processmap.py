# SPDX-License-Identifier: Apache-2.0
"""The map of a running process: its images, and what each of their slots holds now."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, sleep

from soscope.live.images.image import LoadedImage
from soscope.live.images.images import Images, find_images
from soscope.live.images.space import Space
from soscope.live.images.watch import Watch
from soscope.live.slots.bindings import BOUND, HOOKED, INTERPOSED, UNBOUND, Bindings, SlotRow
from soscope.live.slots.code import note_reaimed

STATES = (UNBOUND, BOUND, INTERPOSED, HOOKED)

_TRIES = 3
_LOOKS, _CHANGES, _PAUSE, _MOST = 25, 10, 0.001, 1.0

# (symbol, importer, the image it leads to or should lead to) -> does the caller want the slot
Chooses = Callable[[str, LoadedImage, LoadedImage | None], bool]


class ProcessMap:
    """The images of process `pid` in link-map order, each with its chosen slots.

    `damaged` has (image's name, reason) for images whose tables cannot be read. `is_guessed` tells
    that the loader's scopes were not found, so that "interposed" and "hooked" may be wrong.
    `mappings` has the mappings of each image, by rising address. `is_changing` tells that images
    were loaded and closed during the read: such images are left out.
    """

    __slots__ = (
        "damaged",
        "images",
        "is_changing",
        "is_guessed",
        "is_static",
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
        self.is_static = bindings.images.is_static
        self.rows: dict[LoadedImage, list[SlotRow]] = {}
        self.total = 0
        names = {image: image.name for image in self.images}
        self.mappings = {image: image.mappings for image in self.images}
        for image in self.images:
            listed = bindings.by_image.get(image, [])
            self.total += len(listed)
            self.rows[image] = [
                SlotRow(binding, names)
                for binding in listed
                if chooses(binding.symbol, image, binding.to_image or binding.expected)
            ]

    def keep_changed(self) -> None:
        """Keep only the slots that differ from what the loader would have written."""
        for image, rows in self.rows.items():
            self.rows[image] = [row for row in rows if row.is_changed]

    def counts(self) -> dict[str, int]:
        """Return state -> number of slots."""
        counts = dict.fromkeys(STATES, 0)
        for rows in self.rows.values():
            for row in rows:
                counts[row.binding.state] += 1
        return counts


def read_map(space: Space, chooses: Chooses) -> ProcessMap:
    """Read the map of a process without stopping it, and close its space.

    If images are loaded and closed all the time, only images that stay are included. Raises
    NoSuchProcess, NotPermitted.
    """
    pid = space.pid
    process_map = None
    try:
        for _ in range(_TRIES):
            images = find_images(space)
            bindings = Bindings(images)
            note_reaimed(bindings, images.all)
            watch = Watch(images)
            if watch.holds():
                made = ProcessMap(pid, images.all, bindings, chooses)
                process_map = made if watch.holds() else process_map
                if process_map is made and not process_map.is_guessed and not process_map.damaged:
                    break
            space.forget()
        if process_map is None or process_map.damaged:  # some image may be half loaded in each read
            staying = _of_those_that_stay(pid, space, images, bindings, chooses)
            if process_map is None or not set(process_map.damaged) <= set(staying.damaged):
                process_map = staying
        for image in process_map.images:
            _ = image.path  # read it while the process is open
        space.check()
    finally:
        space.close()
    return process_map


def _of_those_that_stay(
    pid: int, space: Space, images: Images, bindings: Bindings, chooses: Chooses
) -> ProcessMap:
    """Make the map of the images that are in the loader's lists in every one of several looks."""
    stable = before = set(map(_identity, images.linked))
    looks = changes = 0
    end = monotonic() + _MOST
    # a look without changes proves nothing, because the process may not have run since the last
    # one
    while looks < _LOOKS or (changes < _CHANGES and monotonic() < end):
        sleep(_PAUSE)
        now = set(map(_identity, find_images(space).linked))
        looks += 1
        changes += now != before
        stable, before = stable & now, now
    stay = [image for image in images.linked if _identity(image) in stable]
    listed = set(stay)
    for image in list(bindings.by_image):
        if image not in listed:
            del bindings.by_image[image]
            continue
        bindings.by_image[image] = [
            image
            for image in bindings.by_image[image]
            if (image.expected is None or image.expected in listed)
            and (image.to_image is None or image.to_image in listed)
        ]
    bindings.damaged = {image: why for image, why in bindings.damaged.items() if image in listed}
    process_map = ProcessMap(pid, stay, bindings, chooses)
    process_map.is_changing = True
    return process_map


def _identity(image: LoadedImage) -> tuple[int, int, int]:
    return image.link_map, image.dynamic, image.load_bias
