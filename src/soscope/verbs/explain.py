# SPDX-License-Identifier: Apache-2.0
"""The options of `soscope explain`."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.options.process import FORMAT, JSON, pid_option
from soscope.options.units import parse_count
from soscope.options.verb import Verb
from soscope.report.output import Form
from soscope.verbs.display import DEBUG
from soscope.verbs.options import VALUE, Option, Values

USAGE = (
    "soscope explain [options] FILE SYMBOL [OTHER-FILE]"
    "  or  soscope explain [options] -p PID SYMBOL"
)

SHORT = f"""\
usage: {USAGE}

Show step by step how calls of SYMBOL go: as a file, or two files side by side, lay them down, from
the call to the dynamic linker; or in a running process, and how a hook gets there.

  --arch ARCH   of a fat file this image
  --svg FILE    the same as a picture
  --from IMAGE  (-p) the calls of this image; MAIN is the program
  --width N     for so many columns
  --json        for programs

  soscope explain /bin/ls malloc
  soscope explain ./program malloc program.dylib
  soscope explain -p 4242 malloc
"""

DESCRIPTION = """\
Follows one call. In a file: the instructions that call, the stub and the slot, what the slot holds
at first, the way to the lazy resolver and what that is given, and what every later call does; with
two ELF or Mach-O files, or one universal file, in two columns. In a process: with the
addresses of that very process, and what a hook would write where. Nothing is run, and a process
is only read.
"""

EPILOG = """\
exit status: 0 fine, 1 no slot for this symbol, or the file is damaged, 2 wrong usage, 3 not
permitted, 4 no such process.
"""

_WHAT = "what to look at"
_FILES = "of files"
_SHOW = JSON.group

OPTIONS = [
    DEBUG,
    pid_option(group=_WHAT),
    Option(
        "--from",
        dest="from_",
        kind=VALUE,
        metavar="IMAGE",
        group=_WHAT,
        help="calls of this image; MAIN is the program (-p)",
    ),
    Option(
        "--arch",
        dest="arch",
        kind=VALUE,
        metavar="ARCH",
        group=_FILES,
        help="of a fat file the image for this architecture (x86_64, arm64, …)",
    ),
    Option(
        "--svg",
        dest="svg",
        kind=VALUE,
        metavar="FILE",
        group=_FILES,
        help="write a picture to FILE",
    ),
    Option(
        "--width",
        dest="width",
        kind=VALUE,
        metavar="N",
        convert=parse_count,
        group=_SHOW,
        help="write for N columns instead of the terminal's",
    ),
    JSON,
    FORMAT,
]


class ExplainOptions:
    """The parsed options of `soscope explain`.

    `pid` is None if `files`, one or two, are to be explained. `from_`, `arch`, `svg` and `width`
    are None if they were not given.
    """

    __slots__ = ("arch", "debug", "files", "from_", "json", "pid", "svg", "symbol", "width")

    def __init__(self, values: Values, words: list[str]) -> None:
        self.pid: int | None = values.pid
        self.from_: str | None = values.from_
        self.arch: str | None = values.arch
        self.svg: str | None = values.svg
        self.width: int | None = values.width
        self.json: Form = values.json
        self.debug: bool = values.debug
        self.symbol, self.files = self._words(words)
        if not self.symbol.partition("@")[0]:
            raise UsageError(f"'{self.symbol}' is no symbol")
        self._check()

    def _words(self, words: list[str]) -> tuple[str, list[str]]:
        if self.pid is not None:
            if len(words) != 1:
                raise UsageError("-p PID takes one SYMBOL", hint=f"usage: {USAGE}")
            return words[0], []
        if len(words) == 1:
            raise UsageError(
                "no process: -p PID is missing, and no FILE stands before the symbol",
                hint=f"usage: {USAGE}",
            )
        return words[1], [words[0], *words[2:]]

    def _check(self) -> None:
        if self.width is not None and self.width < 1:
            raise UsageError("--width: at least one column")
        if self.pid is None and self.from_ is not None:
            raise UsageError("--from needs -p PID")
        if self.pid is not None:
            for name in ("arch", "svg"):
                if getattr(self, name) is not None:
                    raise UsageError(f"--{name} is for files")


VERB = Verb(
    "explain",
    OPTIONS,
    usage=USAGE,
    short=SHORT,
    description=DESCRIPTION,
    epilog=EPILOG,
    argument=("FILE SYMBOL", "a file and a function (NAME or NAME@VERSION); with -p the function"),
    least=1,
    most=3,
)
make_parser = VERB.make_parser


def parse(arguments: list[str]) -> ExplainOptions:
    """Parse the words behind `soscope explain`. Raises UsageError, or SystemExit for help."""
    values, words = VERB.read(arguments)
    return ExplainOptions(values, words)
