# SPDX-License-Identifier: Apache-2.0
"""`soscope mem live`: growth in a running process."""

from __future__ import annotations

import sys

from soscope.cli.main import Invocation
from soscope.options.mem.live import MemLiveOptions, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.mem.live import LiveObjects

IN_PLACE = "\x1b[H\x1b[J"  # escape sequences: to the corner, and clear the rest

_NS = 1_000_000_000


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if not everything could be printed."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    if _is_native(options):
        from soscope.verbs.mem.live import run_blocks

        return run_blocks(options)

    from soscope.instruments.mem.live import LiveObjects, counting, unhurried

    with unhurried(), counting(options.pid) as goes_on:
        watch = LiveObjects(
            options.pid, collect=options.collect, qualname=options.qualname, goes_on=goes_on
        )
        watch.look()
        return _show(watch, options)


def _is_native(options: MemLiveOptions) -> bool:
    """Return whether blocks are wanted, or the process has only blocks."""
    if options.blocks or options.is_about_objects:
        return options.blocks
    from soscope.instruments.mem.live import has_interpreter

    return not has_interpreter(options.pid)


def _show(watch: LiveObjects, options: MemLiveOptions) -> int:
    from soscope.cli.output import show
    from soscope.instruments.mem.live import waited
    from soscope.report.mem import live_document, live_text

    make = live_document if options.json else live_text
    if options.duration is not None:
        waited(options.duration / _NS)
        growth = watch.look()
        assert growth is not None
        return 0 if show(options.json.shaped(make(growth, options.limit))) else 1
    before = IN_PLACE if sys.stdout.isatty() else ""
    while waited(options.every / _NS):
        growth = watch.look()
        assert growth is not None
        if not show(
            before + options.json.shaped(make(growth, options.limit)) + "\n" * (not before)
        ):
            return 1
    return 0
