# SPDX-License-Identifier: Apache-2.0
"""`soscope trace --explain SYMBOL`: print the declaration that formats its calls."""

from __future__ import annotations

import os

from soscope.errors import LaunchError
from soscope.prototypes import load
from soscope.prototypes.sources import LTRACE, MANGLED, TABLE, USER
from soscope.report.output import Form
from soscope.verbs.main import show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.trace.settings import TraceSettings


_GUESS = 1  # exit status
_LESS_TRUSTED = (MANGLED, LTRACE)  # sources that are less trusted than debug information
_OTHER = ("declaration", "source", "file", "where")  # columns for a function of no family
_LATER = "what it loads later (dlopen) is known when it runs: --explain SYMBOL -p PID"
_MORE = "to look at debug information, too: --explain SYMBOL -- COMMAND, or -p PID"


def explain(symbol: str, settings: TraceSettings, *, json: Form) -> int:
    """Print the declaration of a function in a command or process. Return 1 if it is a guess.

    Nothing is executed. Raises FormatError for a fault in a file of declarations, LaunchError if
    the command does not exist, NoSuchProcess or NotPermitted.
    """
    prototypes = load()
    if settings.prototypes:
        from soscope.prototypes.sources import add_files

        add_files(prototypes, settings.prototypes)
    from soscope.instruments.trace.described import DescribedFunctions

    paths = _paths(settings)
    DescribedFunctions(prototypes, settings).explain(symbol, paths)
    source = prototypes.source(symbol)
    declaration = prototypes.declaration(symbol)
    family = prototypes.family(symbol) if source and source[0] == TABLE else ""
    other = prototypes.foreign(symbol) if family else None
    if json:
        from soscope.report.output import json_document

        kind, file, where = source or ("guess", "", "")
        said: dict[str, object] = {
            "schema": "soscope/prototype/1",
            "symbol": symbol,
            "declaration": declaration,
            "source": kind,
            "file": file or None,
            "where": where or None,
            "family": family or None,
            "others": None if other is None else dict(zip(_OTHER, other, strict=True)),
        }
        text = json.shaped(json_document(said))
    elif source is None:
        text = f"{symbol}: a guess: its first words are shown, marked ?\n"
    else:
        text = f"{declaration}\n    {_told(*source)}\n"
        if family:
            of_others = "a guess" if other is None else "this"
            text += f"    of {family} alone: another library's {symbol} is {of_others}\n"
            if other is not None:
                text += f"{other[0]}\n    {_told(*other[1:])}\n"
    if not json and not paths and (source is None or source[0] in _LESS_TRUSTED):
        text += f"    {_MORE}\n"
    elif not json and source is None and settings.command:
        text += f"    {_LATER}\n"
    return 0 if show(text) and source else _GUESS


def _mapped(pid: int) -> list[str]:
    """Return the paths of a process's images. Raises NoSuchProcess, NotPermitted."""
    from soscope.instruments.trace.described import mapped
    from soscope.proc.rights import missing_right
    from soscope.proc.status import living_thread

    living_thread(pid)
    try:
        return list(mapped(pid))
    except OSError as error:
        raise missing_right(pid, "reading the mappings", error.errno) from error


def _told(kind: str, file: str, where: str) -> str:
    if kind == TABLE:
        return f"soscope's own table: {where}"
    if kind == USER:
        return f"{kind}: {where}"
    if kind == MANGLED:
        return "its mangled name"
    return f"{kind}: {file}" + ("" if where.startswith(file) else f": {where}")


def _paths(settings: TraceSettings) -> list[str]:
    """Return the paths of the images of the command or processes."""
    if settings.pids:
        return [path for pid in settings.pids for path in _mapped(pid)]
    if not settings.command:
        return []
    from soscope.binfmt.elf.image import ElfImage
    from soscope.control.command import Command
    from soscope.linker.search import closure

    command = Command(settings.command, settings.cwd, settings.environ)
    path = command.program
    library_path = dict(settings.environ or os.environ).get("LD_LIBRARY_PATH", "")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise LaunchError(f"cannot open '{path}': {(error.strerror or '').lower()}") from error
    try:
        program = ElfImage.from_descriptor(descriptor, path)
        needed = closure(program, path, library_path)
    finally:
        os.close(descriptor)
    return [path, *(each.path for each in needed[1:] if each.path)]
