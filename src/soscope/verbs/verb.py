# SPDX-License-Identifier: Apache-2.0
"""A verb's table of options with its help: how the words behind the verb are read."""

from __future__ import annotations

from soscope.report.output import Form
from soscope.verbs.options import (
    DEBUG,
    FORMAT,
    JSON,
    Option,
    Values,
    joined,
    permuted,
    pid_option,
    scan,
    settle,
    the_pid,
    unknown,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from soscope.verbs.parser import VerbParser


# A verb's table of options with its help, and the reading of the words behind the verb.
#
# Options may be at any place. If a verb runs a command, they end at the command.


class Verb:
    """The usage of one verb.

    `short` is the output of -h. `description` and `epilog` are before and after the options in
    --help. `argument` is (name in the help, its help), None if the verb takes only options.
    `least` and `most` are how many arguments there may be, None for any number. With `habits`,
    options of ltrace and strace that the verb lacks are explained by a sentence each.
    """

    __slots__ = (
        "argument",
        "description",
        "epilog",
        "habits",
        "least",
        "most",
        "name",
        "options",
        "short",
        "usage",
    )

    def __init__(
        self,
        name: str,
        options: list[Option],
        *,
        usage: str,
        short: str,
        description: str,
        epilog: str,
        argument: tuple[str, str] | None = None,
        least: int = 0,
        most: int | None = 0,
        habits: bool = False,
    ) -> None:
        self.name = name
        self.options = options
        self.usage = usage
        self.short = short
        self.description = description
        self.epilog = epilog
        self.argument = argument
        self.habits = habits
        self.least = least
        self.most = most

    def make_parser(self) -> VerbParser:
        """Make the argparse parser of the verb."""
        from soscope.verbs.parser import VerbParser

        parser = VerbParser(
            self.name,
            self.options,
            usage=self.usage,
            short=self.short,
            description=self.description,
            epilog=self.epilog,
        )
        if self.argument is not None:
            metavar, text = self.argument
            more: dict[str, Any] = {}
            if self.most is None:
                more["nargs"] = "+" if self.least else "*"
            elif not self.least:
                more["nargs"] = "?"
            elif self.most > 1:
                more["nargs"] = self.most
            parser.add_argument("arguments", metavar=metavar, help=text, **more)
        return parser

    def read(self, words: list[str]) -> tuple[Values, list[str]]:
        """Return the options' values and the verb's arguments.

        Raises UsageError, or SystemExit if help was printed.
        """
        ordered = permuted(self.options, words)
        scanned = scan(self.options, ordered)
        if scanned is not None:
            count = len(scanned[1])
            if self.least <= count and (self.most is None or count <= self.most):
                settle(scanned[0])
                return scanned
        values = Values(self.options)
        self._explain_habits(ordered)
        self.make_parser().parse_args(joined(self.options, ordered), values)
        settle(values)
        positional: str | list[str] | None = getattr(values, "arguments", None)
        if isinstance(positional, list):
            return values, positional
        return values, [] if positional is None else [positional]

    def _explain_habits(self, words: list[str]) -> None:
        """Raise UsageError for the first option that users know from ltrace or strace."""
        if not self.habits:
            return
        from soscope.verbs.habits import explained

        for flag in unknown(self.options, words):
            error = explained(flag, self.name)
            if error is not None:
                raise error


class CommandVerb(Verb):
    """A verb that runs a command. All words from the command on belong to the command."""

    __slots__ = ()

    def __init__(
        self,
        name: str,
        options: list[Option],
        *,
        usage: str,
        short: str,
        description: str,
        epilog: str,
        habits: bool = False,
    ) -> None:
        super().__init__(
            name,
            options,
            usage=usage,
            short=short,
            description=description,
            epilog=epilog,
            most=None,
            habits=habits,
        )

    def make_parser(self) -> VerbParser:
        """Make the argparse parser of the verb."""
        from argparse import REMAINDER

        parser = super().make_parser()
        parser.add_argument("command", nargs=REMAINDER, metavar="COMMAND", help="what to run")
        return parser

    def read(self, words: list[str]) -> tuple[Values, list[str]]:
        """Return the options' values and the command, which may be missing.

        Raises UsageError, or SystemExit if help was printed.
        """
        values, command = scan(self.options, words) or self.read_slowly(words)
        settle(values)
        return values, command

    def read_slowly(self, words: list[str]) -> tuple[Values, list[str]]:
        """Read words as `read` does, with argparse, which prints help and reports mistakes."""
        values = Values(self.options)
        self._explain_habits(words)
        self.make_parser().parse_args(joined(self.options, words), values)
        command: list[str] = values.command
        if command[:1] == ["--"]:  # REMAINDER keeps the -- that ends the options
            command = command[1:]
        return values, command


# Options of the verbs that undo something in a process.


class TargetOptions:
    """The parsed options of such a verb: the process, and whether to print what was done."""

    __slots__ = ("debug", "json", "pid", "quiet")

    def __init__(self, pid: int, *, json: Form, quiet: bool, debug: bool) -> None:
        self.pid = pid
        self.json = json
        self.quiet = quiet
        self.debug = debug


def make_verb(name: str, about: str, description: str, epilog: str) -> Verb:
    """Return the verb `soscope NAME`. `about` describes its effect on a process."""
    usage = f"soscope {name} [options] -p PID"
    short = [
        f"usage: {usage}",
        "",
        about,
        "",
        "  -p PID  the process",
        "  -q      say nothing",
        "  --json  for programs",
        "",
        f"soscope {name} --help lists all options.",
        "",
    ]
    return Verb(
        name,
        [
            DEBUG,
            pid_option(about="it stands still for some milliseconds"),
            JSON,
            FORMAT,
            Option("-q", "--quiet", dest="quiet", group=JSON.group, help="say nothing"),
        ],
        usage=usage,
        short="\n".join(short),
        description=description,
        epilog=epilog,
    )


def parse_target(verb: Verb, words: list[str]) -> TargetOptions:
    """Parse the words behind such a verb. Raises UsageError, or SystemExit for help."""
    values, _ = verb.read(words)
    pid = the_pid(values, verb.usage)
    return TargetOptions(pid, json=values.json, quiet=values.quiet, debug=values.debug)
