# SPDX-License-Identifier: Apache-2.0
"""`soscope map FILE…`: the slots, stubs and symbols of files."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from time import monotonic
from typing import Protocol

from soscope.cli.main import note
from soscope.cli.output import finish
from soscope.linker.collect import files_below, images_of, shortfall
from soscope.linker.image import Image, Slot
from soscope.model.call import printable
from soscope.model.filemap import Symbol
from soscope.report import mapfile as filemap
from soscope.report.output import STDERR, STDOUT, Output
from soscope.verbs.map import MapOptions

_MANY = 20  # files from which on the progress is shown on a terminal
_PERIOD = 0.1  # seconds between changes of that line
_COLUMNS = 80  # columns of a terminal of unknown width
_TO_END = "\x1b[K"  # escape sequence that clears the rest of the line


class _Tick(Protocol):
    def __call__(self, path: str, /) -> None: ...


class _Chooses(Protocol):
    def __call__(self, image: Image, subject: Slot | Symbol, /) -> bool: ...


def show_files(options: MapOptions) -> int:
    """Print the map of files. Return 0, or 1 if something is missing, damaged or unread."""
    chooses = _chooser(options)
    output = Output.open(None, STDOUT)
    is_whole = True
    parts: list[str] = []  # a page is made from all parts at the end
    chosen = shown = 0
    paths = list(files_below(options.files))
    is_one = len(paths) == 1
    if options.json:
        from soscope.report import mapjson as filemapjson

        parts.append(filemapjson.HEAD)
    with _progress(len(paths)) as tick:
        images = images_of(
            paths,
            options.arch,
            sysroot=options.sysroot,
            embedded=options.embedded,
            tick=tick,
        )
        for image, error in images:
            if image is None:
                note(error)
                is_whole = False
                continue
            try:
                slots = [slot for slot in image.slots if chooses(image, slot)]
                symbols = (
                    [symbol for symbol in image.symbols if chooses(image, symbol)]
                    if "symbols" in options.tables
                    else []
                )
                is_shown = bool(slots or symbols) or is_one or not options.is_filtered
                text = ""
                if is_shown:
                    text = _text(image, slots, symbols, options, is_first=not shown, is_one=is_one)
            except (OSError, MemoryError) as lack:
                note(f"{image.path}: {shortfall(lack)}")
                is_whole = False
                continue
            is_whole &= not image.partial
            chosen += len(symbols) if options.tables == ["symbols"] else len(slots) + len(symbols)
            if not is_shown:
                for why in image.partial:
                    note(f"{image.path}: partial: {why}")
                continue
            shown += 1
            parts.append(text)
            if not options.json.is_markdown:
                output.write("".join(parts))
                parts.clear()
            if not output.is_open:
                break
    if options.json:
        parts.append(filemapjson.TAIL)
        output.write(options.json.shaped("".join(parts)))
    if not finish(output):
        return 1
    if not paths:
        note("no ELF or Mach-O file there")
        return 1
    if options.is_filtered and not chosen:
        note("no symbol matches" if options.tables == ["symbols"] else "no slot matches")
        return 1
    return 0 if is_whole else 1


def _text(
    image: Image,
    slots: list[Slot],
    symbols: list[Symbol],
    options: MapOptions,
    *,
    is_first: bool,
    is_one: bool,
) -> str:
    """Return the output for an image. Raises OSError if it cannot be read any more."""
    stubs = () if options.is_filtered else image.stubs_without_slot
    if options.json:
        from soscope.report import mapjson as filemapjson

        return filemapjson.image(image, slots, stubs, is_first=is_first)
    text = filemap.text(image, slots, stubs, options.tables, symbols=symbols, is_alone=is_one)
    return text if is_first or options.tables else "\n" + text


def _chooser(options: MapOptions) -> _Chooses:
    """Return a function that tells whether a slot or symbol was asked for. Raises UsageError."""
    if not options.is_filtered:
        return lambda *_: True

    from soscope.prototypes import load
    from soscope.select.filter import chooses, compile_selection

    selection = compile_selection(
        options.select, options.from_ or ["all"], options.to, sets=lambda: load().groups()
    )

    def wanted(image: Image, subject: Slot | Symbol) -> bool:
        if isinstance(subject, Slot):
            name, callee = subject.symbol, (subject.provider or "") if options.to else ""
        else:
            name, callee = subject.name, subject.library
        return chooses(
            selection,
            name,
            caller=image.name,
            caller_path=image.path,
            caller_is_main=image.kind in ("executable", "pie", "static", "static-pie"),
            callee=callee,
            callee_path=callee,
            callee_is_main=False,
        )

    return wanted


def _progress(count: int) -> AbstractContextManager[_Tick]:
    """Show the progress on the terminal, if standard output is not a terminal."""
    if count < _MANY or sys.stdout.isatty() or not sys.stderr.isatty():
        return nullcontext(lambda *_: None)
    return _Line(count)


class _Line:
    """A line of progress on standard error, which is removed at the end."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._done = 0
        self._next = 0.0

    def __enter__(self) -> _Tick:
        return self._tick

    def _tick(self, path: str) -> None:
        self._done += 1
        now = monotonic()
        if now >= self._next:
            self._next = now + _PERIOD
            text = f"{self._done:,} of {self._count:,}  {printable(path)}"
            columns = os.get_terminal_size(STDERR).columns or _COLUMNS
            self._show(text[: columns - 1])

    def __exit__(self, *_: object) -> None:
        self._show("")

    def _show(self, text: str) -> None:
        sys.stderr.write(f"\r{text}{_TO_END}")
        sys.stderr.flush()
