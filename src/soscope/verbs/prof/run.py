# SPDX-License-Identifier: Apache-2.0
"""Options that `soscope prof run` and `attach` share: what to profile, and how."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.options.prof.ring import BUFFER, WHEN_FULL, check_ring
from soscope.options.units import parse_count
from soscope.verbs.options import LIST, VALUE, Option, Values
from soscope.verbs.shown import follow_option

QUIET, COUNT, SAMPLE, TIME, LOG = "quiet", "count", "sample", "time", "log"
_INTERVAL = 64
_MOST_INTERVAL = 1 << 20
_MOST_HZ = 1000

_WHAT, _HOW = "what to profile", "how"


class ProfMode:
    """How instrumented libraries are profiled: a mode, and the interval for SAMPLE.

    One call in `interval`, a power of two, is timed.
    """

    __slots__ = ("interval", "name")

    def __init__(self, name: str, interval: int = _INTERVAL) -> None:
        self.name = name
        self.interval = interval


def parse_mode(text: str) -> ProfMode:
    """Return the value of --mode. Raises UsageError."""
    name, equals, number = text.partition("=")
    if name == SAMPLE and equals:
        interval = parse_count(number)
        if not 0 < interval <= _MOST_INTERVAL:
            raise UsageError(f"sample={number} is not between 1 and {_MOST_INTERVAL:,}")
        # The agent masks a counter. With another number it would time runs of calls, and too many.
        return ProfMode(SAMPLE, 1 << (interval - 1).bit_length())
    if text in (QUIET, COUNT, SAMPLE, TIME, LOG):
        return ProfMode(text)
    raise UsageError(f"'{text}' is not a mode", hint="quiet, count, sample, sample=N, time or log")


def parse_hz(text: str) -> int:
    """Return the value of --sample. Raises UsageError."""
    hz = parse_count(text)
    if not 0 < hz <= _MOST_HZ:
        raise UsageError(f"{text} is not between 1 and {_MOST_HZ:,} times a second")
    return hz


IMAGES = Option(
    "-l",
    "--image",
    dest="images",
    kind=LIST,
    metavar="IMAGE",
    group=_WHAT,
    help="these images alone, a pattern as in soscope trace -l: with --boundary calls into them, "
    "with --mode calls inside",
)
FOLLOW = follow_option(_WHAT)
MODE = Option(
    "--mode",
    dest="mode",
    kind=VALUE,
    metavar="quiet|count|sample[=N]|time|log",
    default=None,
    convert=parse_mode,
    group=_HOW,
    help="of libraries built with -pg, -mfentry, -finstrument-functions or "
    "-fpatchable-function-entry: nothing, which makes them faster; how often each function is "
    "called; one call in N timed (64); each call timed; each call recorded by itself",
)
BOUNDARY = Option(
    "--boundary",
    dest="boundary",
    kind=VALUE,
    metavar="count|time",
    choices=(COUNT, TIME),
    default=None,
    group=_HOW,
    help="calls from one image to another: how often, or for how long, too",
)
SAMPLE_HZ = Option(
    "--sample",
    dest="sample",
    kind=VALUE,
    metavar="HZ",
    default=None,
    convert=parse_hz,
    group=_HOW,
    help="stacks of all threads, of C, C++ and Python: so often in a second that a thread runs",
)
OPTIONS = [IMAGES, FOLLOW, MODE, BOUNDARY, SAMPLE_HZ, BUFFER, WHEN_FULL]


class What:
    """What to profile. `images` are patterns ([]: all).

    `mode`, `boundary` and `sample` (samples in a second) are None if they are not wanted.
    `buffer`, in bytes, and `when_full` are for the ring of mode LOG, None for the default.
    """

    __slots__ = ("boundary", "buffer", "follow", "images", "mode", "sample", "when_full")

    def __init__(self, values: Values) -> None:
        """Take the options from the parsed words. Raises UsageError."""
        self.images: list[str] = values.images
        self.follow: bool = values.follow
        self.mode: ProfMode | None = values.mode
        self.boundary: str | None = values.boundary
        self.sample: int | None = values.sample
        self.buffer: int | None = values.buffer
        self.when_full: str | None = values.when_full
        check_ring(values, logs=self.mode is not None and self.mode.name == LOG)
