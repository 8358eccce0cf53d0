# SPDX-License-Identifier: Apache-2.0
"""The options of `soscope map`."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.options.process import FORMAT, JSON, pid_option
from soscope.options.remote import remote_option, sysroot_option, without_program
from soscope.options.selection import selection_options
from soscope.options.verb import Verb
from soscope.report.output import Form
from soscope.verbs.display import DEBUG
from soscope.verbs.options import FLAG, VALUE, Option, Values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.entry.remote.packets import RemoteAddress


USAGE = (
    "soscope map [options] FILE…  or  soscope map [options] -p PID  or  soscope map [options]"
    " --remote ADDRESS [-- PROGRAM]"
)

SHORT = f"""\
usage: {USAGE}

Show every slot of ELF and Mach-O files with its stubs, symbol, version, provider and binding;
or the images of a running process, and what each of their slots leads to now.

  -e GLOB      only slots of these symbols, as soscope trace's -e
  --slots, --stubs, --symbols, --needed   only these tables
  --arch ARCH  only images for this architecture
  --from IMAGE only slots of this image; --to IMAGE: only those that lead to this one
  --changed    (-p) only slots that differ from what the loader would have written
  --svg FILE   (-p) a picture of who calls whom; --dot FILE: for graphviz
  --remote ADDRESS   of the program of a gdbserver or an emulator that waits
  --json       for programs

  soscope map /bin/ls
  soscope map -p 4242 -e 'malloc+free'

soscope map --help lists all options.
"""

DESCRIPTION = """\
Of files: facts, and a row for every slot through which code reaches a symbol, with all the
linker's stubs that lead through it. Nothing is run. Of a process: its images in the order of the
loader, with their mappings, and every slot: unbound, bound, interposed or hooked. The process is
not stopped, and no code runs in it.
"""

EPILOG = """\
exit status: 0 fine, 1 no such slot or not all could be read, 2 wrong usage, 3 not permitted,
4 no such process.
"""

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
_FILES_ALONE = [
    *_TABLES,
    Option(
        "--arch",
        dest="arch",
        kind=VALUE,
        metavar="ARCH",
        group=_FILES,
        help="only images for this architecture (x86-64, aarch64, arm64, …)",
    ),
    Option(
        "--embedded",
        dest="embedded",
        group=_FILES,
        help="also images that lie within other files",
    ),
]
_SYSROOT = sysroot_option(
    _FILES, "look for libraries below this folder, as a system that lies there would"
)
_PROCESS_ALONE = [
    Option(
        "--changed",
        dest="changed",
        group=_WHICH,
        help="only slots that differ from what the loader would have written (-p)",
    ),
    Option(
        "--svg",
        dest="svg",
        kind=VALUE,
        metavar="FILE",
        group=_WHERE,
        help="write a picture of who calls whom to FILE (-p)",
    ),
    Option(
        "--dot",
        dest="dot",
        kind=VALUE,
        metavar="FILE",
        group=_WHERE,
        help="write the same as a graph for graphviz to FILE (-p)",
    ),
]

OPTIONS = [
    DEBUG,
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
    JSON,
    FORMAT,
]


class MapOptions:
    """The parsed options of `soscope map`.

    `pid` and `remote` are None if `files` are to be mapped. `program` is the program that the
    stub at `remote` runs, "" if the stub has to tell. `tables` are the names of chosen tables, in
    their order on the page, [] for the usual page. `svg` and `dot` are files, None if they are
    not wanted.
    """

    __slots__ = (
        "arch",
        "changed",
        "debug",
        "dot",
        "embedded",
        "files",
        "from_",
        "json",
        "pid",
        "program",
        "remote",
        "select",
        "svg",
        "sysroot",
        "tables",
        "to",
    )

    def __init__(self, values: Values, files: list[str], program: str) -> None:
        self.pid: int | None = values.pid
        self.remote: RemoteAddress | None = values.remote
        self.program = program
        self.files = files
        is_process = self.pid is not None or self.remote is not None
        if not is_process and not files:
            raise UsageError("nothing to look at: neither FILE nor -p PID", hint=f"usage: {USAGE}")
        if self.pid is not None and self.remote is not None:
            raise UsageError("either -p or --remote", hint=f"usage: {USAGE}")
        if is_process and files:
            flag = "-p" if self.remote is None else "--remote"
            raise UsageError(f"either {flag} or files: '{files[0]}'", hint=f"usage: {USAGE}")
        alone = _FILES_ALONE if is_process else _PROCESS_ALONE
        if self.pid is not None:
            alone = [*alone, _SYSROOT]
        for option in alone:
            if getattr(values, option.dest) != option.default and (
                option.kind == FLAG or getattr(values, option.dest)
            ):
                is_file = is_process
                raise UsageError(
                    f"{option.flags[-1]} is for {'files' if is_file else 'processes (-p)'}"
                )
        self.select: list[str] = values.select
        self.from_: list[str] = values.from_
        self.to: list[str] = values.to
        self.changed: bool = values.changed
        self.tables = [option.dest for option in _TABLES if getattr(values, option.dest)]
        self.arch: str | None = values.arch
        self.embedded: bool = values.embedded
        self.sysroot: str = values.sysroot
        self.json: Form = values.json
        self.svg: str | None = values.svg
        self.dot: str | None = values.dot
        self.debug: bool = values.debug

    @property
    def is_filtered(self) -> bool:
        """Return whether only some slots are wanted."""
        return bool(self.select or self.from_ or self.to or self.changed)


VERB = Verb(
    "map",
    OPTIONS,
    usage=USAGE,
    short=SHORT,
    description=DESCRIPTION,
    epilog=EPILOG,
    argument=("FILE", "an ELF or Mach-O file, or a folder of them"),
    most=None,
)
make_parser = VERB.make_parser


def parse(arguments: list[str]) -> MapOptions:
    """Parse the words behind `soscope map`. Raises UsageError, or SystemExit for help."""
    words, program = without_program(arguments)
    return MapOptions(*VERB.read(words), program)
