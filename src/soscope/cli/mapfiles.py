# SPDX-License-Identifier: Apache-2.0
"""`soscope map FILE…`: the slots, stubs and symbols of files."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from soscope.cli.main import note
from soscope.cli.output import finish
from soscope.linker.collect import files_below, images_of, shortfall
from soscope.linker.image import Image, Slot
from soscope.options.map import MapOptions
from soscope.report import filemap
from soscope.report.output import STDOUT, Output

_MANY = 20  # files from which on a terminal shows how far it is


class _Tick(Protocol):
    def __call__(self, path: str, /) -> None: ...


class _Chooses(Protocol):
    def __call__(self, image: Image, slot: Slot, /) -> bool: ...


def show_files(options: MapOptions) -> int:
    """Print the map of files; return 0, or 1 where something is missing, damaged or unread."""
    chooses = _chooser(options)
    output = Output.open(None, STDOUT)
    is_whole = True
    chosen = shown = 0
    paths = list(files_below(options.files))
    is_one = len(paths) == 1
    if options.json:
        from soscope.report import filemapjson

        output.write(filemapjson.HEAD)
    with _progress(len(paths)) as tick:
        found = images_of(
            paths,
            options.arch,
            sysroot=options.sysroot,
            embedded=options.embedded,
            tick=tick,
        )
        for image, error in found:
            if image is None:
                note(error)
                is_whole = False
                continue
            try:
                slots = [one for one in image.slots if chooses(image, one)]
                is_shown = bool(slots) or is_one or not options.is_filtered
                text = ""
                if is_shown:
                    text = _text(image, slots, options, is_first=not shown, is_one=is_one)
            except (OSError, MemoryError) as lack:
                note(f"{image.path}: {shortfall(lack)}")
                is_whole = False
                continue
            is_whole &= not image.partial
            chosen += len(slots)
            if not is_shown:
                for why in image.partial:
                    note(f"{image.path}: partial: {why}")
                continue
            shown += 1
            output.write(text)
            if not output.is_open:
                break
    if options.json:
        output.write(filemapjson.TAIL)
    if not finish(output):
        return 1
    if not paths:
        note("no ELF or Mach-O file there")
        return 1
    if options.is_filtered and not chosen:
        note("no slot matches")
        return 1
    return 0 if is_whole else 1


def _text(
    image: Image, slots: list[Slot], options: MapOptions, *, is_first: bool, is_one: bool
) -> str:
    """Return what is printed of an image. Raises OSError where it cannot be read any more."""
    stubs = () if options.is_filtered else image.stubs_without_slot
    if options.json:
        from soscope.report import filemapjson

        return filemapjson.image(image, slots, stubs, is_first=is_first)
    text = filemap.text(image, slots, stubs, options.tables, is_alone=is_one)
    return text if is_first or options.tables else "\n" + text


def _chooser(options: MapOptions) -> _Chooses:
    """Return what says whether a slot was asked for. Raises UsageError."""
    if not options.is_filtered:
        return lambda *_: True

    from soscope.instruments.trace.filter import chooses, compile_selection

    selection = compile_selection(options.select, options.callers or ["all"], options.callees)

    def wanted(image: Image, slot: Slot) -> bool:
        callee = (slot.provider or "") if options.callees else ""
        return chooses(
            selection,
            slot.symbol,
            caller=image.name,
            caller_path=image.path,
            caller_is_main=image.kind in ("executable", "pie", "static", "static-pie"),
            callee=callee,
            callee_path=callee,
            callee_is_main=False,
        )

    return wanted


def _progress(count: int) -> AbstractContextManager[_Tick]:
    """Show how far we are on a terminal whose standard output is not one."""
    if count < _MANY or sys.stdout.isatty() or not sys.stderr.isatty():
        return nullcontext(lambda *_: None)
    return _Bar(count)


class _Bar:
    """A progress bar on standard error that goes away when all is done."""

    def __init__(self, count: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn as Bar
        from rich.progress import MofNCompleteColumn, Progress, TextColumn

        self._progress = Progress(
            Bar(),
            MofNCompleteColumn(),
            TextColumn("{task.description}", markup=False),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._progress.add_task("", total=count)

    def __enter__(self) -> _Tick:
        self._progress.start()
        return self._tick

    def _tick(self, path: str) -> None:
        self._progress.update(self._task, advance=1, description=path)

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
