# SPDX-License-Identifier: Apache-2.0
"""The help of a verb, and messages about wrong words: both made from its table of options."""

from __future__ import annotations

import os

from soscope.errors import UsageError
from soscope.verbs.options import Option, Values, pieces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from soscope.verbs.options import Verb

_INDENT = 2
_COLUMN = 30  # the last column at which texts of options begin
_NARROW, _WIDE, _USUAL = 60, 100, 80  # columns of the help: least, most, and without a terminal
_SHORT = ("-h", "the most common options")
_LONG = ("--help", "this text")


class Help(SystemExit):
    """The user asks for help. `text` is the help."""

    def __init__(self, text: str) -> None:
        super().__init__(0)
        self.text = text


def long_help(verb: Verb) -> str:
    """Return the help with all options by groups, as wide as the terminal up to 100 columns."""
    groups: dict[str, list[tuple[str, str]]] = {"arguments": [], "general": [_SHORT, _LONG]}
    if verb.argument is not None:
        groups["arguments"].append(verb.argument)
    if verb.runs_command:
        groups["arguments"].append(("COMMAND", "what to run"))
    for option in verb.options:
        groups.setdefault(option.group or "general", []).append((_spelled(option), option.help))
    widest = max(len(name) for rows in groups.values() for name, _ in rows)
    column = min(widest + 2 * _INDENT, _COLUMN)
    parts = [f"usage: {verb.usage}", verb.description.strip("\n")]
    for title, rows in groups.items():
        if rows:
            lines = [line for name, text in rows for line in _row(name, text, column, _width())]
            parts.append("\n".join([f"{title}:", *lines]))
    return "\n\n".join([*parts, verb.epilog.strip("\n")]).strip("\n") + "\n"


def short_help(verb: Verb) -> str:
    """Return the help for one screen: the usage, `verb.short`, and where the rest is.

    In `verb.short`, a line with nothing but an option stands for that option with its value, and
    the first clause of its text. Rows beside it, of arguments, are aligned with it.
    """
    by_flag = {flag: option for option in verb.options for flag in option.flags}
    lines = [f"usage: {verb.usage}", ""]
    rows: list[tuple[str, str]] = []
    rest = f"soscope {verb.name} --help lists all options."
    for line in [*verb.short.strip("\n").split("\n"), "", rest, ""]:
        name, _, text = line.strip().partition("  ")
        option = by_flag.get(name)
        if option is not None:
            value = f" {option.metavar}" if option.takes_word else ""
            rows.append((f"{name}{value}", option.help.partition("; ")[0].partition(" (")[0]))
        elif text and line.startswith("  ") and not name.startswith("soscope "):
            rows.append((name, text.strip()))
        else:
            column = min(max((len(row[0]) for row in rows), default=0) + 2 * _INDENT, _COLUMN)
            lines += [each for row in rows for each in _row(*row, column, _WIDE)]
            rows = []
            lines.append(line)
    return "\n".join(lines)


def _spelled(option: Option) -> str:
    """Return all spellings of an option, each with its value."""
    value = f" {option.metavar}" if option.takes_word else ""
    return ", ".join(f"{flag}{value}" for flag in option.flags)


def _row(name: str, text: str, column: int, width: int) -> list[str]:
    """Return the lines of an option: its spelling, and its text from `column` on."""
    lines: list[str] = []
    head = f"{' ' * _INDENT}{name}"
    if len(head) + _INDENT > column:
        lines.append(head)
        head = ""
    line = ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width - column:
            lines.append(f"{head:{column}}{line}")
            head, line = "", word
        else:
            line = f"{line} {word}" if line else word
    return [*lines, f"{head:{column}}{line}"]


def _width() -> int:
    """Return the columns of the help."""
    try:
        columns = os.get_terminal_size(1).columns or _USUAL
    except OSError:
        columns = _USUAL
    return min(max(columns, _NARROW), _WIDE) - 2


def refuse(verb: Verb, words: list[str]) -> NoReturn:
    """Raise what is wrong with words that `scan` has refused, or the help that they ask for.

    The options of the words are in front. Raises UsageError, or Help.
    """
    by_flag = {flag: option for option in verb.options for flag in option.spellings}
    hint = f"soscope {verb.name} --help lists the options"
    values = Values(verb.options)
    rivals: dict[str, Option] = {}
    unknown: list[str] = []
    at = 0
    for flags, piece in pieces(by_flag, words):
        if not flags:
            break
        at += len(piece)
        for flag, value in flags:
            if flag in (_SHORT[0], _LONG[0]):
                raise Help(short_help(verb) if flag == _SHORT[0] else long_help(verb))
            option = by_flag.get(flag)
            if option is None:
                unknown.append(piece[0])
                break
            if option.takes_word and value is None:
                raise UsageError(f"{flag}: {option.metavar} is missing", hint=hint)
            if not option.takes_word and value is not None:
                raise UsageError(f"{flag} takes no value", hint=hint)
            rival = rivals.setdefault(option.rivals, option) if option.rivals else option
            if rival is not option:
                raise UsageError(f"{flag}: not allowed with {rival.flags[-1]}", hint=hint)
            values.take(option, value)
    rest = words[at + 1 :] if words[at : at + 1] == ["--"] else words[at:]
    if unknown and unknown[0].startswith("--"):
        from difflib import get_close_matches

        name = unknown[0].partition("=")[0]
        if near := get_close_matches(name, [*by_flag, _LONG[0]], n=1):
            raise UsageError(f"there is no {name}", hint=f"did you mean {near[0]}?")
    excess = [] if verb.most is None else rest[verb.most :]
    if unknown or excess:
        raise UsageError(f"unrecognized arguments: {' '.join([*unknown, *excess])}", hint=hint)
    assert verb.argument is not None  # nothing else is left that can be wrong
    raise UsageError(f"the following arguments are required: {verb.argument[0]}", hint=hint)
