# SPDX-License-Identifier: Apache-2.0
"""Choose how to profile a command or a process if no option chooses.

Images that were built with -pg or -finstrument-functions report their calls themselves. Images
built with -fpatchable-function-entry report their calls when they are patched.
"""

from __future__ import annotations

import os
import shutil

from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.sections import SECTION as PATCHABLE_SECTION
from soscope.binfmt.elf.sections import Sections
from soscope.errors import SoscopeError
from soscope.instruments.prof.boundary import TIME
from soscope.instruments.prof.instrumented import HOOKS
from soscope.instruments.prof.model import MODE_TIME, ProfSettings
from soscope.linker.library import open_image
from soscope.linker.search import closure
from soscope.model.image import TracedImage
from soscope.proc import maps
from soscope.select.filter import ALL, Selection, chooses, compile_selection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


HZ = 199  # samples a second: twenty if a program runs for 0.1 s


def choose(settings: ProfSettings) -> None:
    """Choose to time reported calls if any chosen image reports calls, else the boundary.

    If none of the present images is chosen, both are timed, as images that are loaded later may
    be of either kind. Stacks are always sampled, too, as most of a program's time may pass
    between its calls. Raises UsageError for a faulty pattern.
    """
    settings.is_chosen, settings.sample = True, HZ
    selection = compile_selection(list(HOOKS), settings.images or [ALL])
    chosen = [image for image in _images(settings) if _is_chosen(selection, *image)]
    reports = any(_reports(image) for image, _, _ in chosen)
    if reports or not chosen:
        settings.mode = MODE_TIME
    if not reports:
        settings.boundary = TIME


def overlooked(settings: ProfSettings, images: Iterable[TracedImage]) -> list[str]:
    """Return a line for each image that reports its calls, if `choose` has found none.

    Such an image was loaded later. Raises UsageError for a faulty pattern.
    """
    if settings.mode is not None:
        return []
    selection = compile_selection(list(HOOKS), settings.images or [ALL])
    paths = dict.fromkeys(image.path for image in images if not image.is_main)
    return [
        f"{image.soname or os.path.basename(path)} reports its calls: "
        f"--mode {MODE_TIME} times those inside it"
        for image, path, _ in _opened(list(paths), has_program=False)
        if _is_chosen(selection, image, path, is_main=False) and _reports(image)
    ]


_Found = tuple[ElfImage, str, bool]  # an image, its path, whether it is the program


def _images(settings: ProfSettings) -> list[_Found]:
    """Return the images that a command loads at its start, or that a process has mapped."""
    if settings.pid is not None:
        return _of_process(settings.pid)
    path = shutil.which(settings.command[0]) or settings.command[0]
    try:
        needed = closure(open_image(path), path, os.environ.get("LD_LIBRARY_PATH", ""))
    except (SoscopeError, OSError):
        return []  # a script, or a file that the launch will refuse
    return _opened([image.path for image in needed if image.path])


def _of_process(pid: int) -> list[_Found]:
    try:
        mapped = dict.fromkeys(mapping.path for mapping in maps.read(pid) if "x" in mapping.flags)
    except (SoscopeError, OSError):
        return []  # attaching will report the reason
    return _opened([path for path in mapped if path.startswith("/")])


def _opened(paths: list[str], *, has_program: bool = True) -> list[_Found]:
    """Open images, the program first if `has_program`. Unreadable images are left out."""
    images: list[_Found] = []
    for number, path in enumerate(paths):
        try:
            images.append((open_image(path), path, has_program and number == 0))
        except (SoscopeError, OSError):
            continue  # the vDSO or a deleted file, so the other images decide
    return images


def _is_chosen(selection: Selection, image: ElfImage, path: str, is_main: bool) -> bool:
    name = image.soname or os.path.basename(path)
    return chooses(
        selection,
        HOOKS[0],
        caller=name,
        callee="",
        caller_path=path,
        caller_is_main=is_main,
    )


def _reports(image: ElfImage) -> bool:
    try:
        if any(symbol.name in HOOKS for symbol in image.symbols.undefined()):
            return True
        sections = Sections.read(image).all
        return any(section.name == PATCHABLE_SECTION for section in sections)
    except (SoscopeError, OSError):
        return False  # damaged symbols or section headers
