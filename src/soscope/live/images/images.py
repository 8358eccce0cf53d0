# SPDX-License-Identifier: Apache-2.0
"""All images of a process: the images in the loader's lists, and unlisted ones."""

from __future__ import annotations

import os
from bisect import insort
from struct import Struct

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.lookup import Name
from soscope.binfmt.elf.reader import Segment, encoding, read_header, read_segments, unpack_segments
from soscope.errors import FormatError, NoSuchProcess, SoscopeError
from soscope.live.images.image import LoadedImage
from soscope.live.images.scope import global_scope, older_namespaces, rtld_global
from soscope.live.images.space import Space
from soscope.model.record import once
from soscope.proc import maps
from soscope.proc.maps import Mapping

# Find all images of a process, from the auxiliary vector to the loader's lists.
#
# AT_PHDR leads to the program headers in memory, these to PT_DYNAMIC, and DT_DEBUG to `struct
# r_debug` and its lists of `struct link_map` (<link.h>), one for each namespace. This does not need
# `/proc/PID/maps`, which only tells the files of images, and images that are in no list.

_MAX_IMAGES = 8192  # images of one list; the agent has the same limit for a process
_MAX_NAMESPACES = 64
_MOST_DYNAMIC = 1024
_LINK = {64: "5Q", 32: "5I"}  # addr, name, ld, next, prev
# version, map, brk, state, ldbase, next (from version 2 on)
_DEBUG = {64: "i4xQQi4xQQ", 32: "iIIiII"}

RT_CONSISTENT = 0


class Images:
    """The images of a process at one moment.

    `linked` are the images in the loader's lists, namespace by namespace, in link-map order.
    `debug` is the address of `struct r_debug`, 0 if there is none, and `state` its r_state.
    `namespaces` has the images of each namespace by its number, an empty list if it was closed.
    `watched` are the memory ranges that change when images are loaded or closed: (address,
    bytes). `private` is a range that also changes for other reasons: the loader's data, if
    nothing else shows new namespaces. `seen_maps` is the text of /proc/PID/maps from which `all`
    was made, None before that. `started` is the dynamic section of the image that the kernel
    started, which may be a loader. `is_guessed` is true if the loader has not run yet, or has no
    list.
    """

    def __init__(self, space: Space, main: LoadedImage) -> None:
        self.space = space
        self.main = main
        self.started = main.dynamic
        self.debug = 0
        self.state = RT_CONSISTENT
        self.loader_base = space.auxv.get(maps.AT_BASE, 0)
        self.linked: list[LoadedImage] = []
        self.namespaces: list[list[LoadedImage]] = []
        self.by_link_map: dict[int, LoadedImage] = {}
        self.watched: list[tuple[int, bytes]] = []
        self.private: tuple[int, bytes] | None = None
        self.is_guessed = False
        self.scope_is_guessed = False
        self.seen_maps: bytes | None = None
        self._scopes: dict[int, list[LoadedImage]] = {}

    @once
    def all(self) -> list[LoadedImage]:
        """Every image: first the images of the lists, then those in no list, by address."""
        self.space.forget()
        self.seen_maps = self.space.maps_text
        return self.linked + unlisted_images(self)

    @property
    def is_static(self) -> bool:
        """Return whether the program was linked without a loader."""
        # if the loader itself was started as a program, it has loaded another image
        return not self.space.auxv.get(maps.AT_BASE) and self.main.dynamic == self.started

    @property
    def loader(self) -> LoadedImage | None:
        """The dynamic loader's own image, None if there is none."""
        if not self.loader_base:  # the loader may have been started with a program
            started = (image for image in self.linked if image.dynamic == self.started)
            return next((image for image in started if image is not self.main), None)
        for image in self.linked:
            if self.loader_base and image.load_bias == self.loader_base:
                return image
        for image in self.linked:
            if self.loader_base and image.contains(self.loader_base):
                return image
        return None

    def scope(self, namespace: int = 0) -> list[LoadedImage]:
        """Return the global scope: the images that the loader searches, in its order.

        Sets `scope_is_guessed` if the loader's own list was not found.
        """
        if namespace not in self._scopes:
            scope, guessed, watched = global_scope(self, namespace)
            self._scopes[namespace] = scope
            self.watched += watched
            self.scope_is_guessed |= guessed
        return self._scopes[namespace]

    @property
    def private_addr(self) -> int | None:
        """The address of glibc's `_rtld_global`, None with another loader."""
        place = rtld_global(self)
        return None if place is None else place[0]

    def at(self, addr: int) -> LoadedImage | None:
        """Return the image with a PT_LOAD that contains `addr`, None if there is none."""
        return self.at_all([addr])[0]

    def at_all(self, addrs: list[int]) -> list[LoadedImage | None]:
        """Return the image at each of many addresses, in the same order."""
        from bisect import bisect_right

        starts, rest = self._ranges
        images: list[LoadedImage | None] = []
        for addr in addrs:
            at = bisect_right(starts, addr) - 1
            images.append(rest[at][1] if at >= 0 and addr < rest[at][0] else None)
        return images

    @once
    def _ranges(self) -> tuple[list[int], list[tuple[int, LoadedImage]]]:
        """The start addresses of all PT_LOADs, and the end and the image of each."""
        ranges = sorted(
            (start, end, image.index, image) for image in self.all for start, end in image.ranges
        )
        return [row[0] for row in ranges], [(row[1], row[3]) for row in ranges]

    def named(self, text: str) -> list[LoadedImage]:
        """Return the images whose soname, file name or path is `text`, in order."""
        return [image for image in self.all if image.is_called(text)]


def find_images(space: Space) -> Images:
    """Find the images of a process.

    Raises NoSuchProcess if it ends or executes a program meanwhile.
    """
    main, segments = _program(space)
    images = Images(space, main)
    debug = _find_debug(main, segments)
    if debug:
        _walk_namespaces(images, debug, segments)
    if not images.linked:
        images.debug = 0
        if main.dynamic:  # the loader will write DT_DEBUG there
            images.watched.append((main.dynamic, space.read(main.dynamic, _MOST_DYNAMIC)))
        images.is_guessed = bool(images.loader_base)
        _without_list(images, main)
    space.check()
    return images


def _program(space: Space) -> tuple[LoadedImage, list[Segment]]:
    """Return the image that the kernel started, and its program headers."""
    coding = encoding(space.bits, space.order)
    at = space.auxv.get(maps.AT_PHDR, 0)
    size = space.auxv.get(maps.AT_PHNUM, 0) * coding.segment.size
    table = space.read(at, size)
    if len(table) < size or not size:
        space.check()
        raise NoSuchProcess(f"process {space.pid}: its program headers cannot be read")
    segments = unpack_segments(coding, table)
    load_bias = _bias(space, segments, at)
    dynamic = next((s.vaddr + load_bias for s in segments if s.type == c.PT_DYNAMIC), 0)
    image = LoadedImage(space, 0, 0, load_bias, dynamic, segments=segments, is_main=True)
    return image, segments


def _bias(space: Space, segments: list[Segment], phdr: int) -> int:
    """Return the load bias of the program whose program headers lie at `phdr`."""
    for segment in segments:
        if segment.type == c.PT_PHDR:
            return phdr - segment.vaddr
    header = 64 if space.bits == 64 else 52
    if space.read(phdr - header, 4) == b"\x7fELF":
        for segment in segments:
            if segment.type == c.PT_LOAD and segment.offset == 0:
                return phdr - header - segment.vaddr
    return 0


def _find_debug(main: LoadedImage, segments: list[Segment]) -> int:
    """Return the address of `struct r_debug`, 0 if there is none."""
    if not main.dynamic:
        return 0
    try:
        debug = main.reader.dynamic.get(c.DT_DEBUG)
    except FormatError:
        return 0
    if debug:
        return debug
    if debug is None and not any(segment.type == c.PT_INTERP for segment in segments):
        return _exported_debug(main)  # the image may be the loader, started as a program
    return 0


def _exported_debug(loader: LoadedImage) -> int:
    """Return the address of the `struct r_debug` that a loader exports, 0 if it exports none."""
    try:
        for name, is_pointer in ((b"_r_debug", False), (b"_dl_debug_addr", True)):
            symbol = loader.symbols.find(Name(name))
            if symbol is not None:
                addr = symbol.value + loader.load_bias
                return (loader.space.word(addr) or 0) if is_pointer else addr
    except FormatError:
        pass  # the loader's symbols are damaged
    return 0


def _walk_namespaces(images: Images, debug: int, segments: list[Segment]) -> None:
    """Read the lists of all namespaces."""
    space = images.space
    layout = Struct(space.order + _DEBUG[space.bits])
    images.debug = debug
    heads: list[int] = []
    at, version = debug, 2
    while at and version >= 2 and len(heads) < _MAX_NAMESPACES:
        data = space.read(at, layout.size)
        if len(data) < layout.size:
            break
        version, head, _, state, base, following = layout.unpack(data)
        if at == debug:
            images.state = state
            images.loader_base = images.loader_base or base
        else:
            images.state = images.state or state
        if version < 2:  # without the field `next`
            data = data[: layout.size - layout.size // 6]
        images.watched.append((at, data))
        heads.append(head)
        at = following
    for namespace, head in enumerate(heads):
        _walk(images, namespace, head, segments)
    if version < 2 and images.linked:
        for namespace, head in older_namespaces(images):
            _walk(images, namespace, head, segments)


def _walk(images: Images, namespace: int, head: int, segments: list[Segment]) -> None:
    """Read one list; reading stops at an entry that the loader is just changing.

    Raises SoscopeError if the list is longer than any loader's list.
    """
    space = images.space
    layout = Struct(space.order + _LINK[space.bits])
    vdso = space.auxv.get(maps.AT_SYSINFO_EHDR, 0)
    main = images.main
    read, size = space.memory.read, layout.size
    listed: list[LoadedImage] = []
    addr, before = head, 0
    while addr and addr not in images.by_link_map and len(listed) < _MAX_IMAGES:
        data = read(addr, size)
        if len(data) < size:
            break
        load_bias, name, dynamic, following, previous = layout.unpack(data)
        if previous != before:
            break
        image = LoadedImage(
            space,
            len(images.linked),
            namespace,
            load_bias,
            dynamic,
            link_map=addr,
            name_addr=name,
            is_main=not namespace and not listed,
            is_vdso=bool(vdso) and 0 <= dynamic - vdso < 0x10000,
        )
        if dynamic == main.dynamic:
            image.take_segments(segments)
        if image.is_main:
            images.main = image
        images.watched.append((addr, data))
        if name:  # another image's node may have the same bytes
            images.watched.append((name, os.fsencode(image.loader_name) + b"\0"))
        images.by_link_map[addr] = image
        images.linked.append(image)
        listed.append(image)
        before, addr = addr, following
    if addr and len(listed) == _MAX_IMAGES:
        raise SoscopeError(
            f"process {space.pid}: its loader's list of libraries is damaged: it has more than"
            f" {_MAX_IMAGES:,} of them"
        )
    if listed:  # a closed namespace keeps its number
        images.namespaces += [[] for _ in range(namespace - len(images.namespaces))]
        images.namespaces.append(listed)


def _without_list(images: Images, main: LoadedImage) -> None:
    """Use what the kernel mapped: the program, and the loader, which has not run yet."""
    space = images.space
    images.linked = [main]
    base = space.auxv.get(maps.AT_BASE, 0)
    if base:
        loader = image_at(space, base, index=1)
        if loader is not None:
            images.linked.append(loader)
    images.namespaces = [images.linked]


# Images in no link map: the vDSO, images that a static program or other code mapped itself.
#
# An ELF header at the start of a mapping is an image only if all its PT_LOADs are mapped at their
# addresses. A file that is merely read through mmap(2) is not an image.

AGENT = "/memfd:soscope"  # the file of soscope's own agent


def unlisted_images(images: Images) -> list[LoadedImage]:
    """Return these images by address, the vDSO first; their indices follow the listed images'.

    It takes one pass, because both mappings and the ranges of images rise.
    """
    space = images.space
    unlisted: list[LoadedImage] = []
    known = [pair for image in images.linked for pair in image.ranges]
    vdso = space.auxv.get(maps.AT_SYSINFO_EHDR, 0)
    if vdso and not any(image.is_vdso for image in images.linked):
        image = image_at(space, vdso, index=len(images.linked), is_vdso=True)
        if image is not None:
            unlisted.append(image)
            known += image.ranges
    known.sort()
    place = 0
    for mapping in space.mappings:
        while place < len(known) and known[place][1] <= mapping.start:
            place += 1
        if place < len(known) and known[place][0] <= mapping.start:
            continue
        if mapping.flags[0] != "r" or mapping.path.startswith(("[v", AGENT)):
            continue  # no look-up should find soscope's agent
        image = image_at(space, mapping.start, index=len(images.linked) + len(unlisted))
        if image is not None and _is_mapped(image, mapping):
            unlisted.append(image)
            for pair in image.ranges:
                insort(known, pair, place)
    return unlisted


def image_at(space: Space, addr: int, *, index: int, is_vdso: bool = False) -> LoadedImage | None:
    """Return the image whose ELF header lies at `addr`, None if there is none."""
    if space.read(addr, 4) != b"\x7fELF":
        return None
    try:
        header = read_header(space.memory, addr)
        segments = read_segments(space.memory, header, addr)
    except FormatError:
        return None
    if header.encoding is not encoding(space.bits, space.order):
        return None
    first = next((s for s in segments if s.type == c.PT_LOAD and s.offset == 0), None)
    if first is None:
        return None
    bias = addr - first.vaddr
    dynamic = next((s.vaddr + bias for s in segments if s.type == c.PT_DYNAMIC), 0)
    return LoadedImage(space, index, 0, bias, dynamic, segments=segments, is_vdso=is_vdso)


def _is_mapped(image: LoadedImage, first: Mapping) -> bool:
    """Return whether every PT_LOAD is mapped at its address, with code executable."""
    loads = [segment for segment in image.segments if segment.type == c.PT_LOAD and segment.filesz]
    return bool(loads) and all(_holds(image, segment, first) for segment in loads)


def _holds(image: LoadedImage, load: Segment, first: Mapping) -> bool:
    addr = load.vaddr + image.load_bias
    mapping = image.space.mapping_at(addr)
    if mapping is None:
        return False
    offset = mapping.offset + addr - mapping.start
    in_place = not first.inode or mapping.inode != first.inode
    in_place = in_place or offset == first.offset + load.offset
    return in_place and (not load.flags & c.PF_X or "x" in mapping.flags)
