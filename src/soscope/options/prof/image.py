# SPDX-License-Identifier: Apache-2.0
"""Options for profiles of other profilers: the profiled file, and its load address."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.verbs.options import VALUE, Option, Values

_GROUP = "profiles of gprof and LD_PROFILE"


def parse_addr(text: str) -> int:
    """Return a hexadecimal address, with or without 0x. Raises UsageError."""
    try:
        value = int(text, 16)
    except ValueError:
        value = -1
    if not 0 <= value < 1 << 64:
        raise UsageError(f"'{text}' is not an address", hint="for example 0x7f3a5c000000")
    return value


IMAGE = Option(
    "--image",
    dest="image",
    kind=VALUE,
    metavar="IMAGE",
    group=_GROUP,
    help="the program or library that FILE is of",
)


class ProfFile:
    """A profile's file: a recording, or another profiler's file.

    `image` and the biases are None if they were not given.
    """

    __slots__ = ("image", "load_bias", "path", "program_bias")

    def __init__(self, path: str, values: Values) -> None:
        self.path = path
        self.image: str | None = values.image
        self.load_bias: int | None = values.load_bias
        self.program_bias: int | None = values.program_bias

    @property
    def is_said_to_be_foreign(self) -> bool:
        """Return whether an option was given that is for files of other profilers."""
        return any(value is not None for value in (self.image, self.load_bias, self.program_bias))


BIASES = [
    Option(
        "--load-bias",
        dest="load_bias",
        kind=VALUE,
        metavar="ADDR",
        default=None,
        convert=parse_addr,
        group=_GROUP,
        help="where a library lay in the process: its lowest address in /proc/PID/maps",
    ),
    Option(
        "--program-bias",
        dest="program_bias",
        kind=VALUE,
        metavar="ADDR",
        default=None,
        convert=parse_addr,
        group=_GROUP,
        help="where the program lay, if it was a PIE: glibc has taken that off all addresses",
    ),
]
