# SPDX-License-Identifier: Apache-2.0
"""`soscope map`: the slots of files, or of the images of a process."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from time import monotonic
from typing import Protocol

from soscope.errors import UsageError
from soscope.linker.collect import files_below, images_of, in_path, shortfall
from soscope.linker.image import Image, Slot
from soscope.model.call import printable
from soscope.model.filemap import Symbol
from soscope.report import mapfile as filemap
from soscope.report.output import STDERR, STDOUT, Output
from soscope.verbs.main import Invocation, finish, note, say, show
from soscope.verbs.options import (
    FORM,
    JSON,
    Option,
    Values,
    Verb,
    pid_option,
    remote_option,
    selection_of,
    selection_options,
    sysroot_option,
    table,
    without_program,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.inspect.map.processmap import Chooses, ProcessMap
    from soscope.live.images.image import LoadedImage


_WHICH = "which slots"
_WHERE = JSON.group
_WHAT = "what to look at"
_FILES = "of files"


def _table(name: str, text: str) -> Option:
    return Option(f"--{name}", dest=name, group=_FILES, help=text)


_TABLES = [
    _table("slots", "only the slots"),
    _table("stubs", "only the linker's stubs"),
    _table("symbols", "only the symbols that a loader sees"),
    _table("needed", "only the libraries that it needs, and where they are"),
]
_FILES_ALONE = table(
    *_TABLES,
    _FILES,
    Option(
        "--arch",
        metavar="ARCH",
        help="only images for this architecture (x86-64, aarch64, arm64, …)",
    ),
    Option("--embedded", help="also images that lie within other files"),
)
_SYSROOT = sysroot_option(
    _FILES, "look for libraries below this folder, as a system that lies there would"
)
_PROCESS_ALONE = table(
    _WHICH,
    Option("--changed", help="only slots that differ from what the loader would have written (-p)"),
    _WHERE,
    Option("--svg", metavar="FILE", help="write a picture of who calls whom to FILE (-p)"),
    Option("--dot", metavar="FILE", help="write the same as a graph for graphviz to FILE (-p)"),
)


VERB = Verb(
    "map",
    pid_option(group=_WHAT),
    remote_option(_WHAT),
    *selection_options(
        _WHICH,
        select="only slots, and with --symbols symbols, that the filter expression chooses",
        from_="only slots of this image; MAIN is the program",
        to="only slots that lead to this image, or would",
    ),
    *_FILES_ALONE,
    _SYSROOT,
    *_PROCESS_ALONE,
    *FORM,
    usage="soscope map [options] FILE…  or  soscope map [options] -p PID  or  soscope map [options]"
    " --remote ADDRESS [-- PROGRAM]",
    short="""\
Show every slot of ELF and Mach-O files with its stubs, symbol, version, provider and binding;
or the images of a running process, and what each of their slots leads to now.

  -e
  --slots
  --stubs
  --symbols
  --needed
  --arch
  --from
  --to
  --changed
  --svg
  --dot
  --remote
  --json

  soscope map /bin/ls
  soscope map -p 4242 -e 'malloc+free'
""",
    description="""\
For files, print facts, and a row for every slot through which code reaches a symbol, with all stubs
of the linker that jump through it. Nothing is run. For a process, print its images in the order of
the loader, with their mappings, and every slot: unbound, bound, interposed or hooked. The process
is not stopped, and no code runs in it.
""",
    epilog="""\
exit status: 0 fine, 1 no such slot or not all could be read, 2 wrong usage, 3 not permitted,
4 no such process.
""",
    argument=("FILE", "an ELF or Mach-O file, a folder of them, or a program in PATH"),
    most=None,
)


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if nothing was chosen or something could not be read."""
    invocation.words, program = without_program(invocation.words)
    values, files = invocation.read(VERB)
    is_process = values.pid is not None or values.remote is not None
    if not is_process and not files:
        raise VERB.wrong("nothing to look at: neither FILE nor -p PID")
    if values.pid is not None and values.remote is not None:
        raise VERB.wrong("either -p or --remote")
    if is_process and files:
        flag = "-p" if values.remote is None else "--remote"
        raise VERB.wrong(f"either {flag} or files: '{files[0]}'")
    alone = _FILES_ALONE if is_process else _PROCESS_ALONE
    if values.pid is not None:
        alone = [*alone, _SYSROOT]
    for option in alone:
        if getattr(values, option.dest):
            of = "files" if is_process else "processes (-p)"
            raise UsageError(f"{option.flags[-1]} is for {of}")
    return _show_process(values, program) if is_process else show_files(files, values)


def _is_filtered(values: Values) -> bool:
    """Return whether only some slots are wanted."""
    return bool(values.select or values.from_ or values.to or values.changed)


def _show_process(values: Values, program: str) -> int:
    from soscope.inspect.map.processmap import read_map

    if values.remote is not None:
        from soscope.control.qemu.memory import open_remote

        space: Space = open_remote(values.remote, program, values.sysroot)
    else:
        from soscope.live.images.space import Space

        space = Space(values.pid)
    process_map = read_map(space, _chooser(values))
    chosen = sum(process_map.counts().values())
    if values.changed:
        process_map.keep_changed()
    is_drawn = _write_pictures(values, process_map)
    text = ""
    if values.json:
        from soscope.report.mapjson import process_document

        text = values.json.shaped(process_document(process_map))
    elif values.svg is None and values.dot is None:
        from soscope.report.mapprocess import lines_of

        lines = lines_of(process_map, only_slots=_is_filtered(values))
        text = "".join(f"{line}\n" for line in lines)
    if not (show(text) and is_drawn):
        return 1
    if process_map.is_changing:
        note("libraries come and go in this process: only libraries that stay are shown")
    elif process_map.is_guessed:
        note("the loader's own scopes were not found: interposed and hooked may be wrong")
    if process_map.is_static:
        from soscope.proc.status import in_full, static

        note(f"no calls to see: {in_full(static(process_map.path))}")
    if _is_filtered(values) and not chosen:
        note("no slot matches")
        return 1
    return 1 if process_map.damaged or process_map.is_changing else 0


def _chooser(values: Values) -> Chooses:
    """Return a function that tells whether a slot was asked for. Raises UsageError."""
    from soscope.select.filter import chooses

    selection = selection_of(values.select, values.from_ or ["all"], values.to)

    def wanted(symbol: str, caller: LoadedImage, callee: LoadedImage | None) -> bool:
        return chooses(
            selection,
            symbol,
            caller=caller.name,
            caller_path=caller.path,
            caller_is_main=caller.is_main,
            callee="" if callee is None else callee.name,
            callee_path="" if callee is None else callee.path,
            callee_is_main=callee is not None and callee.is_main,
        )

    if values.select or values.from_ or values.to:
        return wanted
    return lambda *_: True


def _write_pictures(values: Values, process_map: ProcessMap) -> bool:
    """Write the files that were asked for. Return whether they are complete.

    Raises SoscopeError.
    """
    if values.svg is None and values.dot is None:
        return True
    from soscope.report import mapprocess as mapdot
    from soscope.report import mapsvg
    from soscope.report.mapprocess import graph_of

    graph = graph_of(process_map)
    is_whole = True
    for path, write in ((values.svg, mapsvg.document), (values.dot, mapdot.document)):
        if path is None:
            continue
        output = Output.open(path)
        output.write(write(graph))
        is_whole &= finish(output)
    return is_whole


# `soscope map FILE…`: the slots, stubs and symbols of files.

_MANY = 20  # files from which on the progress is shown on a terminal
_PERIOD = 0.1  # seconds between changes of that line
_COLUMNS = 80  # columns of a terminal of unknown width
_TO_END = "\x1b[K"  # escape sequence that clears the rest of the line


class _Tick(Protocol):
    def __call__(self, path: str, /) -> None: ...


class _Chooses(Protocol):
    def __call__(self, image: Image, subject: Slot | Symbol, /) -> bool: ...


def show_files(files: list[str], values: Values) -> int:
    """Print the map of files. Return 0, or 1 if something is missing, damaged or unread."""
    chooses = _files_chooser(values)
    output = Output.open(None, STDOUT)
    is_whole = True
    parts: list[str] = []  # a page is made from all parts at the end
    chosen = shown = 0
    paths = list(files_below(in_path(name) for name in files))
    is_one = len(paths) == 1
    tables = [option.dest for option in _TABLES if getattr(values, option.dest)]
    if values.json:
        from soscope.report import mapjson as filemapjson

        parts.append(filemapjson.HEAD)
    with _progress(len(paths)) as tick:
        images = images_of(
            paths,
            values.arch,
            sysroot=values.sysroot,
            embedded=values.embedded,
            tick=tick,
        )
        for image, error in images:
            if image is None:
                say(error)
                is_whole = False
                continue
            try:
                slots = [slot for slot in image.slots if chooses(image, slot)]
                symbols = (
                    [symbol for symbol in image.symbols if chooses(image, symbol)]
                    if "symbols" in tables
                    else []
                )
                is_shown = bool(slots or symbols) or is_one or not _is_filtered(values)
                text = ""
                if is_shown:
                    text = _text(
                        image, slots, symbols, values, tables, is_first=not shown, is_one=is_one
                    )
            except (OSError, MemoryError) as lack:
                say(f"{image.path}: {shortfall(lack)}")
                is_whole = False
                continue
            is_whole &= not image.partial
            chosen += len(symbols) if tables == ["symbols"] else len(slots) + len(symbols)
            if not is_shown:
                for why in image.partial:
                    note(f"{image.path}: partial: {why}")
                continue
            shown += 1
            parts.append(text)
            if not values.json.is_markdown:
                output.write("".join(parts))
                parts.clear()
            if not output.is_open:
                break
    if values.json:
        parts.append(filemapjson.TAIL)
        output.write(values.json.shaped("".join(parts)))
    if not finish(output):
        return 1
    if not paths:
        note("no ELF or Mach-O file there")
        return 1
    if _is_filtered(values) and not chosen:
        note("no symbol matches" if tables == ["symbols"] else "no slot matches")
        return 1
    return 0 if is_whole else 1


def _text(
    image: Image,
    slots: list[Slot],
    symbols: list[Symbol],
    values: Values,
    tables: list[str],
    *,
    is_first: bool,
    is_one: bool,
) -> str:
    """Return the output for an image. Raises OSError if it cannot be read any more."""
    stubs = () if _is_filtered(values) else image.stubs_without_slot
    if values.json:
        from soscope.report import mapjson as filemapjson

        return filemapjson.image(image, slots, stubs, is_first=is_first)
    text = filemap.text(image, slots, stubs, tables, symbols=symbols, is_alone=is_one)
    return text if is_first or tables else "\n" + text


def _files_chooser(values: Values) -> _Chooses:
    """Return a function that tells whether a slot or symbol was asked for. Raises UsageError."""
    if not _is_filtered(values):
        return lambda *_: True

    from soscope.select.filter import chooses

    selection = selection_of(values.select, values.from_ or ["all"], values.to)

    def wanted(image: Image, subject: Slot | Symbol) -> bool:
        if isinstance(subject, Slot):
            name, callee = subject.symbol, (subject.provider or "") if values.to else ""
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
