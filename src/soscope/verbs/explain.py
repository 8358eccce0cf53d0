# SPDX-License-Identifier: Apache-2.0
"""`soscope explain`: the steps of a symbol's calls, in files or in a running process."""

from __future__ import annotations

import os

from soscope.errors import SoscopeError, UsageError
from soscope.verbs.main import Invocation, finish, note, show
from soscope.verbs.options import (
    FORM,
    JSON,
    Option,
    Values,
    Verb,
    pid_option,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.inspect.explain.callway import Explanation, Importer


_WHAT = "what to look at"
_FILES = "of files"
_SHOW = JSON.group


VERB = Verb(
    "explain",
    pid_option(group=_WHAT),
    _WHAT,
    Option(
        "--from",
        dest="from_",
        metavar="IMAGE",
        help="calls of this image; MAIN is the program (-p)",
    ),
    _FILES,
    Option(
        "--arch",
        metavar="ARCH",
        help="of a fat file the image for this architecture (x86_64, arm64, …)",
    ),
    Option("--svg", metavar="FILE", help="write a picture to FILE"),
    _SHOW,
    Option("--width", metavar="N", help="write for N columns instead of the terminal's"),
    *FORM,
    usage="soscope explain [options] FILE SYMBOL [OTHER-FILE]"
    "  or  soscope explain [options] -p PID SYMBOL",
    short="""\
Show step by step how calls of SYMBOL go: as a file, or two files side by side, lay them down, from
the call to the dynamic linker; or in a running process, and how a hook gets there.

  --arch
  --svg
  --from
  --width
  --json

  soscope explain /bin/ls malloc
  soscope explain ./program malloc program.dylib
  soscope explain -p 4242 malloc
""",
    description="""\
Follow one call. In a file: show the instructions that call, the stub and the slot, what the slot
holds at first, the path to the lazy resolver and the resolver's arguments, and what every later
call does. Two ELF or Mach-O files, or one universal file, are shown in two columns. In a process:
show the addresses of this process, and what a hook would write. Nothing is run, and a process is
only read.
""",
    epilog="""\
exit status: 0 fine, 1 no slot for this symbol, or the file is damaged, 2 wrong usage, 3 not
permitted, 4 no such process.
""",
    argument=("FILE SYMBOL", "a file and a function (NAME or NAME@VERSION); with -p the function"),
    least=1,
    most=3,
)


_NO_TERMINAL = 132  # columns for a pipe or a file


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if no slot leads to the symbol or a file is damaged."""
    values, words = invocation.read(VERB)
    symbol, files = asked_of(values, words)
    explanation = _explained(values, symbol, files)
    if not _show(explanation, values):
        return 1
    is_whole = explanation.has_ways and not explanation.is_changing
    if explanation.is_changing:
        note("libraries come and go in this process: this explanation may mix two moments")
    if explanation.pid is not None:
        if not explanation.has_ways:
            note(_nothing_in_process(explanation, values.from_))
        return 0 if is_whole else 1
    for image in explanation.images:
        is_whole &= _is_whole(image)
    return 0 if is_whole else 1


def asked_of(values: Values, words: list[str]) -> tuple[str, list[str]]:
    """Return the symbol and the files, one or two, or none with -p. Raises UsageError."""
    if values.pid is not None:
        if len(words) != 1:
            raise VERB.wrong("-p PID takes one SYMBOL")
        symbol, files = words[0], []
    elif len(words) == 1:
        raise VERB.wrong("no process: -p PID is missing, and no FILE stands before the symbol")
    else:
        symbol, files = words[1], [words[0], *words[2:]]
    if not symbol.partition("@")[0]:
        raise UsageError(f"'{symbol}' is no symbol")
    if values.width is not None and values.width < 1:
        raise UsageError("--width: at least one column")
    if values.pid is None and values.from_ is not None:
        raise UsageError("--from needs -p PID")
    if values.pid is not None:
        for name in ("arch", "svg"):
            if getattr(values, name) is not None:
                raise UsageError(f"--{name} is for files")
    return symbol, files


def _explained(values: Values, symbol: str, files: list[str]) -> Explanation:

    if values.pid is not None:
        from soscope.inspect.explain.process import explain_process

        return explain_process(values.pid, symbol, values.from_)
    from soscope.inspect.explain.files import explain_files
    from soscope.linker.collect import in_path

    try:
        return explain_files([in_path(name) for name in files], symbol, values.arch)
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise SoscopeError(
            f"{error.filename}: {reason}", slug="no-such-file", errno=error.errno
        ) from error


def _show(explanation: Explanation, values: Values) -> bool:
    """Write what was asked for. Return whether all of it was written."""
    said = ""
    if values.json:
        from soscope.report.explain import document

        said = values.json.shaped(document(explanation))
    elif values.svg is None and explanation.has_ways:
        from soscope.report.explain import text

        said = text(explanation, values.width or _columns())
    is_written = True
    if values.svg is not None and explanation.has_ways:
        from soscope.report import explainsvg
        from soscope.report.output import Output

        output = Output.open(values.svg)
        output.write(explainsvg.document(explanation))
        is_written = finish(output)
    return show(said) and is_written


def _is_whole(image: Importer) -> bool:
    """Return whether a file could be explained completely. Print what is missing."""
    from soscope.report.explain import nothing

    if not image.ways:
        note(f"{image.path}: {nothing(image)}")
    for reason in image.partial:
        note(f"{image.path}: partial: {reason}")
    return bool(image.ways) and not image.partial and not any(way.wrong for way in image.ways)


def _nothing_in_process(explanation: Explanation, importer: str | None) -> str:
    """Return a message that no slot of `importer`, or of any image if None, leads to the symbol."""
    said = f"no image has a slot for '{explanation.symbol}'"
    if importer is not None:
        said = f"{importer} has no slot for '{explanation.symbol}'"
    others = explanation.others
    if others:
        said += f"; {', '.join(others)} {'has' if len(others) == 1 else 'have'} one"
    return said


def _columns() -> int:
    """Return the width of the terminal on standard output, else enough for two columns."""
    try:
        return int(os.environ["COLUMNS"])
    except (KeyError, ValueError):
        pass  # COLUMNS is not set: ask the terminal
    try:
        return os.get_terminal_size(1).columns or _NO_TERMINAL
    except OSError:
        return _NO_TERMINAL
