# SPDX-License-Identifier: Apache-2.0
"""The loader's own search lists, found in its private data by their form.

glibc: for each namespace, `_rtld_global` has the head of its list, the number of its images and a
pointer to the global scope (`struct r_scope_elem`: link_map **, unsigned). The word that equals
the head gives the position. Every entry of the scope must be a known link map, which no other
data can satisfy. The layout has been the same from glibc 2.31 to 2.43.

musl: `struct dso` begins with its link map. The word behind the pointers to its symbol, hash and
string tables is `syms_next`, the next image of the global scope.
"""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.lookup import Name
from soscope.errors import FormatError
from soscope.live.images.image import LoadedImage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.live.images.images import Images

_RTLD_GLOBAL = b"_rtld_global"
_MAX_PRIVATE = 1 << 14  # bytes of _rtld_global, and of a link map
_MUSL_DSO = 1024
_MOST_LISTED = 4096  # images of a namespace

Watched = list[tuple[int, bytes]]


def global_scope(images: Images, namespace: int) -> tuple[list[LoadedImage], bool, Watched]:
    """Return a namespace's global scope, whether it is a guess, and the memory ranges to watch."""
    listed = images.namespaces[namespace] if namespace < len(images.namespaces) else []
    if not listed:
        return [], False, []
    if images.is_static:
        return listed[:1], False, []
    if not images.is_guessed:
        told = _glibc_scope(images, listed) or _musl_scope(images, listed)
        if told is not None:
            return told[0], False, told[1]
    return breadth_first(images, listed[0]), True, []


def search_list(images: Images, image: LoadedImage) -> tuple[list[LoadedImage], bool]:
    """Return the images that dlsym searches for a handle of `image`, and whether it is a guess.

    The loader keeps such a list for an image that was opened by name, but none for an image that
    came as a dependency. That list would be the same walk through DT_NEEDED.
    """
    data = images.space.read(image.link_map, 1200) if image.link_map else b""
    size = images.space.bits // 8
    for at in range(5 * size, len(data) - 2 * size, size):
        pointer, count = _pointer_and_count(images, data[at : at + size + 4])
        if pointer and 0 < count <= len(images.linked):
            entries = entries_of(images, pointer, count)
            if entries is not None and entries[0] is image:
                if count == 1 and len(breadth_first(images, image)) > 1:
                    continue  # the list of DT_SYMBOLIC, with only the image
                return entries, False
    return breadth_first(images, image), False


def breadth_first(images: Images, first: LoadedImage) -> list[LoadedImage]:
    """Return an image and all that its DT_NEEDED lead to, breadth first as a loader does."""
    ordered = [first]
    by_name: dict[str, LoadedImage] = {}
    namespaces = images.namespaces
    peers = namespaces[first.namespace] if first.namespace < len(namespaces) else [first]
    for image in peers:
        for name in (image.loader_name, image.name, image.soname):
            by_name.setdefault(name, image)
    for image in ordered:  # grows during the loop
        try:
            needed = image.reader.needed
        except FormatError:
            continue  # half loaded: its dependencies are not known
        for name in needed:
            provider = by_name.get(name)
            if provider is not None and provider not in ordered:
                ordered.append(provider)
    return ordered


def is_musl(images: Images) -> bool:
    """Return whether the loader is musl's."""
    loader = images.loader
    if loader is None:
        return False
    try:
        return (
            loader.symbols.find(Name(b"__libc_start_main")) is not None
            and rtld_global(images) is None
        )
    except FormatError:
        return False


def rtld_global(images: Images) -> tuple[int, int] | None:
    """Return address and size of glibc's `_rtld_global`, None with another loader."""
    candidates = [images.loader] if images.loader is not None else images.linked
    for loader in candidates:
        if loader is None:
            continue
        try:
            symbols = loader.symbols.named(Name(_RTLD_GLOBAL))
        except FormatError:
            continue  # it has no symbols, so it is not the loader
        for symbol in symbols:
            if symbol.section != c.SHN_UNDEF:
                return symbol.value + loader.load_bias, min(symbol.size, _MAX_PRIVATE)
    return None


def entries_of(images: Images, pointer: int, count: int) -> list[LoadedImage] | None:
    """Return the images of an array of link maps, None if one of them is not known."""
    size = images.space.bits // 8
    data = images.space.read(pointer, count * size)
    if len(data) < count * size:
        return None
    entries = []
    for word in images.space.words(data):
        image = images.by_link_map.get(word)
        if image is None:
            return None
        entries.append(image)
    return entries


def scope_at(images: Images, element: int) -> tuple[bytes, int, int]:
    """Return the bytes of a `struct r_scope_elem`, its pointer to link maps, and their number.

    The bytes are fewer if it cannot be read.
    """
    raw = images.space.read(element, images.space.bits // 8 + 4)
    return raw, *_pointer_and_count(images, raw)


def _pointer_and_count(images: Images, data: bytes) -> tuple[int, int]:
    """Return the word at the start of `data`, and the unsigned int behind it."""
    size, order = images.space.bits // 8, images.space.endian
    return int.from_bytes(data[:size], order), int.from_bytes(data[size : size + 4], order)


def _glibc_scope(
    images: Images, listed: list[LoadedImage]
) -> tuple[list[LoadedImage], Watched] | None:
    place = rtld_global(images)
    if place is None:
        return None
    space = images.space
    size = space.bits // 8
    data = space.read(*place)
    head = listed[0].link_map.to_bytes(size, images.space.endian)
    at = -1
    while True:
        at = data.find(head, at + 1)
        if at < 0:
            break
        count = int.from_bytes(data[at + size : at + size + 4], images.space.endian)
        element = int.from_bytes(data[at + 2 * size : at + 3 * size], images.space.endian)
        if at % size or not 0 < count <= len(listed) + 1 or not element:
            continue
        raw, pointer, entries = scope_at(images, element)
        if len(raw) == size + 4 and 0 < entries <= len(listed):
            scope = entries_of(images, pointer, entries)
            if scope is not None and scope[0] is listed[0]:
                return scope, [(element, raw), (pointer, space.read(pointer, entries * size))]
    # A namespace that dlmopen made, whose first image is its scope.
    scope, _ = search_list(images, listed[0])
    return (scope, []) if listed[0].namespace else None


def older_namespaces(images: Images) -> list[tuple[int, int]]:
    """Return (number, head) of the namespaces that r_debug does not lead to (glibc < 2.35).

    `_dl_ns` is an array at the start of `_rtld_global`. Behind the public part of a link map are
    `l_real`, a pointer to itself, and `l_ns`, the number of its namespace.
    """
    place = rtld_global(images)
    if place is None:
        return []
    data = images.space.read(*place)
    if not _tells_namespaces(images):
        images.private = place[0], data  # a new namespace changes no public data
    return _namespaces_in(images, data)


def has_same_namespaces(images: Images) -> bool:
    """Return whether the namespaces are unchanged, if only `private` can tell.

    The loader's data also changes when a thread starts or a lock is taken.
    """
    if images.private is None:
        return True
    addr, before = images.private
    data = images.space.read(addr, len(before))
    if data == before:
        return True
    size = images.space.bits // 8
    heads = [listed[0].link_map for listed in images.namespaces if listed]
    if any(head.to_bytes(size, images.space.endian) not in data for head in heads):
        return False
    if _namespaces_in(images, data):
        return False
    images.private = addr, data
    return True


def _namespaces_in(images: Images, data: bytes) -> list[tuple[int, int]]:
    """Return (number, head) of the namespaces in `_rtld_global` that are not known yet."""
    size = images.space.bits // 8
    heads: dict[int, int] = {}
    words = images.space.words(data)
    for index, head in enumerate(words[1:-1], 1):
        if not head or head % size or head in images.by_link_map:
            continue
        _, count = _pointer_and_count(images, data[index * size :])
        namespace = _namespace(images, head, count) if count <= _MOST_LISTED else 0
        if namespace:
            heads.setdefault(namespace, head)
    return sorted(heads.items())


def _tells_namespaces(images: Images) -> bool:
    """Return whether r_debug leads to all namespaces, as in glibc 2.35 and newer."""
    loader = images.loader
    name = b"__rseq_size"  # new in the same version
    try:
        return loader is not None and bool(loader.symbols.named(Name(name)))
    except FormatError:
        return False


def _namespace(images: Images, head: int, count: int) -> int:
    """Return the namespace whose list of `count` images starts at `head`, 0 if none does."""
    space = images.space
    size = space.bits // 8
    namespace = 0
    addr, before = head, 0
    for _ in range(count):
        data = space.read(addr, 7 * size)
        words = space.words(data)
        if len(data) < 7 * size or words[4] != before or not 0 < words[6] < 64:
            return 0
        if addr == head and words[5] != head:
            return 0
        namespace = words[6]
        before, addr = addr, words[3]
    return 0 if addr else namespace


def _musl_scope(
    images: Images, listed: list[LoadedImage]
) -> tuple[list[LoadedImage], Watched] | None:
    space = images.space
    size = space.bits // 8
    head = listed[0]
    offset = _syms_next(images, head)
    if offset is None:
        return None
    scope: list[LoadedImage] = []
    watched: Watched = []
    image: LoadedImage | None = head
    while image is not None and image not in scope:
        scope.append(image)
        place = image.link_map + offset
        data = space.read(place, size)
        watched.append((place, data))
        following = int.from_bytes(data, images.space.endian)
        image = images.by_link_map.get(following)
        if following and image is None:
            return None
    return scope, watched


def _syms_next(images: Images, image: LoadedImage) -> int | None:
    """Return the offset of `syms_next` in musl's `struct dso`, None if it is not one."""
    space = images.space
    size = space.bits // 8
    data = space.read(image.link_map, _MUSL_DSO)
    try:
        symbols, strings = image.symbols.places
    except FormatError:
        return None
    at = data.find(symbols.to_bytes(size, images.space.endian), 5 * size)
    # syms, hashtab, ghashtab, versym, strings, syms_next
    if at < 0 or at % size:
        return None
    where = at + 4 * size
    if int.from_bytes(data[where : where + size], images.space.endian) != strings:
        return None
    return where + size
