# SPDX-License-Identifier: Apache-2.0
"""`soscope mem snapshot`: the objects of a running process, or its new blocks."""

from __future__ import annotations

from soscope.cli.main import Invocation, note
from soscope.options.mem.snapshot import MemSnapshotOptions, parse


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if not everything could be printed."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    if _is_native(options):
        from soscope.cli.mem.visited import show_blocks

        return show_blocks(
            options.pid,
            duration_ns=options.duration,
            older_ns=0,
            json=options.json,
            limit=options.limit,
        )

    # Imported late, as --help and usage errors do not need it.
    from soscope.cli.output import show
    from soscope.inspect.memory import divide
    from soscope.instruments.mem.live import snapshot

    report = snapshot(
        options.pid, collect=options.collect, qualname=options.qualname, divide=divide
    )
    if options.json:
        from soscope.report.mem import document

        said = document(report, options.limit)
    else:
        from soscope.report.mem import text

        said = text(report, options.limit)
    return 0 if show(options.json.shaped(said)) else 1


def _is_native(options: MemSnapshotOptions) -> bool:
    """Return whether blocks are wanted, or the process has only blocks."""
    if options.blocks or options.is_about_objects:
        return options.blocks
    from soscope.instruments.mem.live import has_interpreter
    from soscope.options.units import duration_text

    if has_interpreter(options.pid):
        return False
    time = duration_text(options.duration)
    note(f"process {options.pid} has no Python or Ruby: its new blocks of {time} are shown")
    return True
