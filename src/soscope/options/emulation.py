# SPDX-License-Identifier: Apache-2.0
"""Options for programs of other architectures, which run under an emulator."""

from __future__ import annotations

from soscope.control.settings import AUTO, ENGINES, ENTRIES
from soscope.errors import UsageError
from soscope.options.remote import remote_option
from soscope.verbs.options import LIST, VALUE, Option, Values

_GROUP = "programs of other architectures"

EMULATION = (
    remote_option(_GROUP),
    Option(
        "--sysroot",
        dest="sysroot",
        kind=VALUE,
        metavar="DIR",
        group=_GROUP,
        help="where the system of the command's machine lies (Debian's cross libraries)",
    ),
    Option(
        "--qemu",
        dest="qemu",
        kind=VALUE,
        metavar="PATH",
        group=_GROUP,
        help="the emulator that runs the command (qemu-ARCH, by the command's machine)",
    ),
    Option(
        "--engine",
        dest="engine",
        kind=VALUE,
        metavar="NAME",
        choices=ENGINES,
        group=_GROUP,
        help="how its calls are seen: auto, poison (slots that fault), sites (breakpoints), slot",
    ),
    Option(
        "--check",
        dest="check",
        group=_GROUP,
        help="see its calls by two engines: the last line compares, status 1 if they differ",
    ),
    Option(
        "-x",
        "--inside",
        dest="inside",
        kind=LIST,
        metavar="SYMBOL[@IMAGE]",
        group=_GROUP,
        help="calls of functions inside an image, by their entry points; * and ? may stand in it",
    ),
)


def engine_from(values: Values) -> str | None:
    """Return the engine that is asked for. Raises UsageError for conflicting options."""
    engine: str | None = values.engine
    has_words = bool(values.select or values.from_ or values.to)
    if values.inside and not has_words and engine in (None, AUTO) and not values.check:
        engine = ENTRIES
    if engine == ENTRIES and not values.inside:
        raise UsageError("--engine entries: of which functions?", hint="-x SYMBOL")
    if engine == ENTRIES and values.check:
        raise UsageError("--check compares calls through slots, and --engine entries sees none")
    return engine
