# SPDX-License-Identifier: Apache-2.0
"""Letters that mean something else in strace, recognised by the word behind them.

`-n` and `-A` take a word here and none in strace; `-b` and `-S` take none here and one in strace.
"""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.options.units import parse_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.verbs.options import Values

_INDENT = "-n N indents nested calls; strace's -n: --json has addresses, no numbers of system calls"
_ELEMENTS = "-A N shows N elements of arrays; strace's -A: -o -, and >> FILE of the shell"
_DETACH = "strace's -b execve: without -f, a process that executes another program is let go of"
_SORT = "strace's -S of -c is --sort KEY; -S shows functions that are system calls, too"
# The sort orders of strace. None of these words is a program that users trace.
_SORTED_BY = frozenset(
    """avg-time calls count errors error max-time min-time name none nothing syscall syscall-name
    time-avg time-max time-min time-total total total-time""".split()
)


def parse_indent(text: str) -> int:
    """Return the number of -n. Raises UsageError."""
    return _count(text, _INDENT)


def parse_elements(text: str) -> int:
    """Return the number of -A. Raises UsageError."""
    return _count(text, _ELEMENTS)


def _count(text: str, hint: str) -> int:
    try:
        return parse_count(text)
    except UsageError as error:
        raise UsageError(error.message, hint=hint, slug="number") from None


def check_command(values: Values, command: list[str]) -> None:
    """Refuse a command that is strace's word for -b or -S, unless such a program exists."""
    word = command[0] if command else ""
    if values.no_signals and word == "execve":
        option, hint = "-b", _DETACH
    elif values.system_calls and word in _SORTED_BY:
        option, hint = "-S", _SORT
    else:
        return
    from shutil import which

    if which(word) is None:
        raise UsageError(f"{option} takes no word, and no program is called '{word}'", hint=hint)
