# SPDX-License-Identifier: Apache-2.0
"""Options as rows of a table, and a fast way to read well-formed words.

There are two parsers for the same rows: `scan` here, which takes what getopt would take, and the
argparse of `parser.py`, which has the help and the messages for all mistakes. argparse alone
would not do: it takes a quarter of soscope's start, and refuses `-e -malloc`.
"""

from __future__ import annotations

from soscope.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any


FLAG = "flag"  # given or not
COUNT = "count"  # how often it is given
VALUE = "value"  # takes the next word; the last one counts
ONCE = "once"  # takes the next word, and may be given once
LIST = "list"  # takes the next word, each time it is given


class Option:
    """One option: its spelling, its value and its help.

    `flags` are its spellings, and `dest` is the attribute that it sets. `convert` makes a value
    from a word, and `choices` are the words that are allowed. Of the options with the same
    `rivals`, only one may be given.
    """

    __slots__ = (
        "choices",
        "convert",
        "default",
        "dest",
        "flags",
        "group",
        "help",
        "kind",
        "metavar",
        "rivals",
    )

    def __init__(
        self,
        *flags: str,
        dest: str,
        help: str,  # noqa: A002  argparse's name
        group: str,
        kind: str = FLAG,
        metavar: str = "",
        default: Any = None,
        convert: Callable[[str], Any] | None = None,
        choices: tuple[str, ...] = (),
        rivals: str = "",
    ) -> None:
        self.flags = flags
        self.dest = dest
        self.help = help
        self.group = group
        self.kind = kind
        self.metavar = metavar
        self.default = {FLAG: False, COUNT: 0}.get(kind, default)
        self.convert = convert
        self.choices = choices
        self.rivals = rivals

    @property
    def takes_word(self) -> bool:
        """Return whether a value follows."""
        return self.kind in (VALUE, ONCE, LIST)

    def value(self, word: str) -> Any:
        """Return the option's value for a word. Raises UsageError."""
        if self.choices and word not in self.choices:
            raise UsageError(f"{self.flags[-1]}: '{word}' is not one of {', '.join(self.choices)}")
        if self.convert is None:
            return word
        try:
            return self.convert(word)
        except UsageError as error:
            raise UsageError(
                f"{self.flags[-1]}: {error.message}", hint=error.hint, slug=error.slug
            ) from error


class Values:
    """The values of the options: an attribute for each `dest`."""

    def __init__(self, options: list[Option]) -> None:
        for option in options:
            value = [] if option.kind == LIST else option.default
            setattr(self, option.dest, value)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

        def __setattr__(self, name: str, value: Any) -> None: ...

    def take(self, option: Option, word: str | None) -> None:
        """Take one option that was given, with its word if it takes one."""
        if word is not None:
            value = option.value(word)
            if option.kind == LIST:
                getattr(self, option.dest).append(value)
            elif option.kind == ONCE and getattr(self, option.dest) != option.default:
                raise UsageError(f"{option.flags[-1]}: it is given twice")
            else:
                setattr(self, option.dest, value)
        elif option.kind == COUNT:
            setattr(self, option.dest, getattr(self, option.dest) + 1)
        else:
            setattr(self, option.dest, True)


def scan(options: list[Option], words: list[str]) -> tuple[Values, list[str]] | None:
    """Read options up to the first word that is none. Return their values and the rest.

    An option with a value takes the next word, whatever it looks like. `--` ends the options and
    is left out. Return None if something is wrong or help is wanted, which argparse then reports.
    Raises UsageError for an invalid value.
    """
    by_flag = {flag: option for option in options for flag in option.flags}
    values = Values(options)
    rivals: dict[str, Option] = {}
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            return values, words[at + 1 :]
        if len(word) < 2 or word[0] != "-":
            break
        at += 1
        for flag, attached in split(word, by_flag):
            option = by_flag.get(flag)
            if option is None:
                return None
            value = attached
            if option.takes_word and value is None:
                if at == len(words):
                    return None
                value = words[at]
                at += 1
            if not option.takes_word and value is not None:
                return None
            if option.rivals and rivals.setdefault(option.rivals, option) is not option:
                return None
            values.take(option, value)
    return values, words[at:]


def split(word: str, by_flag: dict[str, Option]) -> list[tuple[str, str | None]]:
    """Split `--name=value`, `-abc` or `-ovalue` into flags and attached values."""
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        return [(name, value if equals else None)]
    flags: list[tuple[str, str | None]] = []
    for index in range(1, len(word)):
        option = by_flag.get(f"-{word[index]}")
        if option is not None and option.takes_word:
            flags.append((option.flags[0], word[index + 1 :] or None))
            break
        flags.append((f"-{word[index]}", None))
    return flags


def joined(options: list[Option], words: list[str]) -> list[str]:
    """Return the words with each value joined to its option, as argparse needs it."""
    out: list[str] = []
    at = 0
    for flags, (word, *value) in _pieces(options, words):
        if not flags:
            break
        at += 1 + len(value)
        equals = "=" if value and word.startswith("--") else ""
        out.append("".join([word, equals, *value]))
    return out + words[at:]


def permuted(options: list[Option], words: list[str]) -> list[str]:
    """Return the words with all options in front, for a verb that runs no command.

    Words behind `--` are no options.
    """
    front: list[str] = []
    rest: list[str] = []
    for flags, piece in _pieces(options, words):
        (front if flags else rest).extend(piece[1:] if piece[0] == "--" else piece)
    return [*front, "--", *rest]


def names(options: list[Option], words: list[str], wanted: Option) -> bool:
    """Return whether an option is given before the first word that is no option."""
    for flags, _ in _pieces(options, words):
        if not flags:
            break
        if any(flag in wanted.flags for flag in flags):
            return True
    return False


def unknown(options: list[Option], words: list[str]) -> list[str]:
    """Return the unknown flags before the first word that is no option."""
    known = {flag for option in options for flag in option.flags}
    flags: list[str] = []
    for some, _ in _pieces(options, words):
        if not some:
            break
        flags += [flag for flag in some if flag not in known and flag not in ("-h", "--help")]
    return flags


def _pieces(options: list[Option], words: list[str]) -> Iterator[tuple[list[str], list[str]]]:
    """Yield each option as its flags and its words: itself, and its value if that is separate.

    A word that is no option has no flags. `--` comes last, with everything that follows.
    """
    by_flag = {flag: option for option in options for flag in option.flags}
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            yield [], words[at:]
            return
        at += 1
        if len(word) < 2 or word[0] != "-":
            yield [], [word]
            continue
        flags = split(word, by_flag)
        option = by_flag.get(flags[-1][0])
        piece = [word]
        if option is not None and option.takes_word and flags[-1][1] is None:
            piece += words[at : at + 1]
            at += 1
        yield [flag for flag, _ in flags], piece
