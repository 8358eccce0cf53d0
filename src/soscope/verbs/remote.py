# SPDX-License-Identifier: Apache-2.0
"""`--remote`: programs that run under a stub of the GDB remote protocol."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.verbs.options import ONCE, VALUE, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.entry.remote.packets import RemoteAddress


ADDRESS = "unix:PATH|HOST:PORT"


def parse_address(text: str) -> RemoteAddress:
    """Return the address of a stub. Raises UsageError."""
    from soscope.entry.remote.packets import RemoteAddress  # not needed for a process

    return RemoteAddress(text)


def remote_option(group: str) -> Option:
    """Return --remote."""
    return Option(
        "--remote",
        dest="remote",
        kind=ONCE,
        metavar=ADDRESS,
        convert=parse_address,
        group=group,
        help="the program of a gdbserver or an emulator that waits there, on this machine; it is"
        " let go afterwards",
    )


def sysroot_option(group: str, about: str) -> Option:
    """Return --sysroot."""
    return Option(
        "--sysroot",
        dest="sysroot",
        kind=VALUE,
        metavar="DIR",
        default="",
        group=group,
        help=about,
    )


def without_program(words: list[str]) -> tuple[list[str], str]:
    """Remove PROGRAM from the words, which is behind `--` if --remote is given.

    Return the other words, and PROGRAM or "". Raises UsageError if `--` is the last word.
    """
    if "--" not in words:
        return words, ""
    at = words.index("--")
    if not any(word == "--remote" or word.startswith("--remote=") for word in words[:at]):
        return words, ""
    if at + 1 == len(words):
        raise UsageError("no program behind '--'")
    return words[:at] + words[at + 2 :], words[at + 1]
