# SPDX-License-Identifier: Apache-2.0
"""Variables of images that are in no file: the part of .bss behind the file's last page."""

from __future__ import annotations

from soscope.binfmt.elf import constants as c

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.live.images.images import Images

_PAGE = 4096


def bss_ranges(images: Images) -> list[tuple[int, int, str]]:
    """Return (start, end, name of the image) of whole pages, as run-time addresses."""
    ranges = []
    for image in images.linked:
        if image.is_vdso:
            continue
        for segment in image.segments:
            if segment.type == c.PT_LOAD and segment.flags & c.PF_W:
                start = segment.vaddr + image.load_bias
                low = start + segment.filesz + _PAGE - 1 & -_PAGE
                high = start + segment.memsz + _PAGE - 1 & -_PAGE
                if low < high:
                    ranges.append((low, high, image.name))
    return ranges
