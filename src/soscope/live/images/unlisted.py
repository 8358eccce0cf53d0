# SPDX-License-Identifier: Apache-2.0
"""Images in no link map: the vDSO, images that a static program or other code mapped itself.

An ELF header at the start of a mapping is an image only if all its PT_LOADs are mapped at their
addresses. A file that is merely read through mmap(2) is not an image.
"""

from __future__ import annotations

from bisect import insort

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.reader import Segment, encoding, read_header, read_segments
from soscope.errors import FormatError
from soscope.live.images.loadedimage import LoadedImage
from soscope.live.images.space import Space
from soscope.proc import maps
from soscope.proc.maps import Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.live.images.images import Images

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
