# SPDX-License-Identifier: Apache-2.0
"""The images in which the loader searches for imports of one image, in its order.

glibc keeps this list in the private part of the link map: `l_scope_mem[4]`, `l_scope_max`,
`l_scope` (include/link.h). `l_scope` points to a list of `struct r_scope_elem *` with a null
pointer at its end. The global scope is the first element, the scope of the dlopen that loaded the
image the next; RTLD_DEEPBIND reverses them. The list is recognised by its form: every element
must be a list of known link maps. With other loaders the search order is the global scope, then
the images that were loaded together with this one.
"""

from __future__ import annotations

from soscope.errors import FormatError
from soscope.live.images.image import LoadedImage
from soscope.live.images.images import Images
from soscope.live.images.scope import breadth_first, entries_of, scope_at

_PRIVATE = 1400  # bytes of a link map, glibc 2.31 to 2.43: the scope is in its second half
_MOST_LISTS = 1 << 14  # one for each dlopen of the image, or of an image that needs it


def own_scope(images: Images, image: LoadedImage) -> tuple[list[LoadedImage], bool]:
    """Return the images that the loader searches for `image`, and whether it is a guess."""
    told = _of_link_map(images, image) if image.link_map else None
    if told is not None:
        return told, False
    listed = list(images.scope(image.namespace))
    if image not in listed:
        for root in images.namespaces[image.namespace] if images.namespaces else []:
            if root not in listed:
                came = breadth_first(images, root)
                if image in came:
                    listed += [member for member in came if member not in listed]
        listed += [] if image in listed else [image]
    return listed, True


def _of_link_map(images: Images, image: LoadedImage) -> list[LoadedImage] | None:
    size = images.space.bits // 8
    data = images.space.read(image.link_map, _PRIVATE)
    words = images.space.words(data)[:-1]
    for index in range(10, len(words) - 1):
        most, place = words[index], words[index + 1]
        if not 4 <= most <= _MOST_LISTS or place % size or place < 4096:
            continue
        # in the link map itself, four words before; elsewhere once the list has grown
        inside = image.link_map + (index - 4) * size
        if most == 4 and place != inside:
            continue
        scope = _lists(images, place, most)
        if scope is not None:
            return scope
    return None


def _lists(images: Images, place: int, most: int) -> list[LoadedImage] | None:
    size = images.space.bits // 8
    data = images.space.read(place, most * size)
    by_link_map: dict[int, LoadedImage] = {}
    for element in images.space.words(data):
        if not element:
            return list(by_link_map.values()) or None
        raw, pointer, count = scope_at(images, element)
        if len(raw) < size + 4 or count > len(images.linked):
            return None
        entries = entries_of(images, pointer, count)
        if entries is None:
            return None
        for entry in entries:
            by_link_map.setdefault(entry.link_map, entry)
    return list(by_link_map.values()) or None


def promised(images: Images, image: LoadedImage, *, musl: bool) -> list[LoadedImage]:
    """Return the image and all images that its DT_NEEDED lead to, as at link time.

    With musl the C library is the loader, under whatever name it was linked.
    """
    try:
        listed = breadth_first(images, image)
    except FormatError:
        listed = [image]
    if musl and images.loader is not None and images.loader not in listed:
        listed.append(images.loader)
    return listed
