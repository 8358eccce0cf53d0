# SPDX-License-Identifier: Apache-2.0
"""argparse as soscope uses it: it raises, abbreviates nothing, and has a short -h."""

from __future__ import annotations

import sys
from argparse import SUPPRESS, Action, ArgumentParser, Namespace, RawDescriptionHelpFormatter

from soscope.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is slow to import
    from collections.abc import Sequence
    from typing import Any, NoReturn


class VerbParser(ArgumentParser):
    """The parser of one verb.

    `-h` prints `short`, which fits a screen; `--help` prints all options by groups, then
    `epilog`. Raises UsageError where argparse would exit.
    """

    def __init__(self, verb: str, *, usage: str, short: str, description: str, epilog: str) -> None:
        super().__init__(
            prog=f"soscope {verb}",
            usage=usage,
            description=description,
            epilog=epilog,
            formatter_class=_Formatter,
            add_help=False,
            allow_abbrev=False,
        )
        self.short = short
        self._optionals.title = "general"
        self.add_argument("-h", action=_ShortHelp, help="the most common options")
        self.add_argument("--help", action="help", help="this text")
        self.add_argument(
            "--debug", action="store_true", help="show tracebacks of soscope's own errors"
        )

    def error(self, message: str) -> NoReturn:
        """Raise the error instead of printing it."""
        raise UsageError(message, hint=f"{self.prog} --help lists the options")


class _ShortHelp(Action):
    """Print the short help and leave."""

    def __init__(self, option_strings: list[str], dest: str, help: str | None = None) -> None:  # noqa: A002  argparse's name
        super().__init__(option_strings, dest=SUPPRESS, default=SUPPRESS, nargs=0, help=help)

    def __call__(
        self,
        parser: ArgumentParser,
        namespace: Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        sys.stdout.write(getattr(parser, "short", ""))
        parser.exit()


class _Formatter(RawDescriptionHelpFormatter):
    """Help with room for long options; 80 columns where there is no terminal."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30)
