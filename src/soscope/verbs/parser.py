# SPDX-License-Identifier: Apache-2.0
"""argparse as soscope uses it: for help, and for messages about wrong words."""

from __future__ import annotations

import os
from argparse import SUPPRESS, Action, ArgumentParser, Namespace, RawDescriptionHelpFormatter

from soscope.errors import UsageError
from soscope.verbs.options import COUNT, FLAG, LIST, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn


_ACTIONS = {FLAG: "store_true", COUNT: "count", LIST: "append"}


class Help(SystemExit):
    """The user asks for help. `text` is the help."""

    def __init__(self, text: str) -> None:
        super().__init__(0)
        self.text = text


class VerbParser(ArgumentParser):
    """The parser of one verb.

    `-h` prints `short`, which fits on a screen. `--help` prints all options by groups, then
    `epilog`. Raises UsageError in cases in which argparse would exit.
    """

    def __init__(
        self,
        verb: str,
        options: list[Option],
        *,
        usage: str,
        short: str,
        description: str,
        epilog: str,
    ) -> None:
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
        self._positionals.title = "arguments"
        self._optionals.title = "general"
        self.add_argument("-h", action=_ShortHelp, help="the most common options")
        self.add_argument("--help", action="help", help="this text")
        self._add(options)

    def _add(self, options: list[Option]) -> None:
        """Add the rows of the table, by groups."""
        groups: dict[str, Any] = {"": self}
        rivals: dict[str, Any] = {}
        for option in options:
            if option.group not in groups:
                groups[option.group] = self.add_argument_group(option.group)
            group = groups[option.group]
            if option.rivals:
                if option.rivals not in rivals:
                    rivals[option.rivals] = group.add_mutually_exclusive_group()
                group = rivals[option.rivals]
            more: dict[str, Any] = {}
            if option.takes_word:
                more = {"metavar": option.metavar, "type": option.value}
            # Each parser needs a list of its own, as argparse appends to the default.
            more["default"] = [] if option.kind == LIST else option.default
            group.add_argument(
                *option.flags,
                dest=option.dest,
                help=option.help,
                action=_ACTIONS.get(option.kind, "store"),
                **more,
            )

    def print_help(self, file: object = None) -> NoReturn:
        """Raise the help in place of printing it."""
        raise Help(self.format_help())

    def error(self, message: str) -> NoReturn:
        """Raise the error in place of printing it."""
        hint = f"{self.prog} --help lists the options"
        option, is_given, _ = message.partition(": ignored explicit argument ")
        if is_given:
            message = f"{option.removeprefix('argument ').rpartition('/')[2]} takes no value"
        told, unknown, listed = message.partition("unrecognized arguments: ")
        words = [
            word for word in listed.split(" ") if word != "--"
        ]  # the user may not have typed it
        message = told + unknown + " ".join(words)
        if words and words[0].startswith("--"):
            from difflib import get_close_matches

            word = words[0].partition("=")[0]
            if near := get_close_matches(word, self._option_string_actions, n=1):
                message, hint = f"there is no {word}", f"did you mean {near[0]}?"
        raise UsageError(message, hint=hint)


class _ShortHelp(Action):
    """Raise the short help."""

    def __init__(self, option_strings: list[str], dest: str, help: str | None = None) -> None:  # noqa: A002  argparse's name
        super().__init__(option_strings, dest=SUPPRESS, default=SUPPRESS, nargs=0, help=help)

    def __call__(
        self,
        parser: ArgumentParser,
        namespace: Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        raise Help(getattr(parser, "short", ""))


class _Formatter(RawDescriptionHelpFormatter):
    """Help with room for long options, as wide as the terminal up to 100 columns.

    argparse makes a formatter for every option that is added, and would import shutil for
    its width.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=_width())


def _width() -> int:
    """Return the columns of the help, 80 if there is no terminal."""
    try:
        columns = os.get_terminal_size(1).columns
    except OSError:
        columns = 0
    return min(max(columns, 60), 100) - 2 if columns else 78
