# SPDX-License-Identifier: Apache-2.0
"""`soscope mem where`: the uses of a process's memory."""

from __future__ import annotations

from soscope.cli.main import Invocation
from soscope.options.mem.where import parse

_NS = 1_000_000_000


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if the result could not be written."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.cli.output import show
    from soscope.inspect.memory import judge, look_at, watch
    from soscope.live.process import Process
    from soscope.report.mem import where_document, where_text

    with Process(options.pid, is_gentle=True) as process:
        looks = [look_at(process)]
        if options.duration is not None:
            looks += watch(process, looks[0], options.duration / _NS)
    verdict = judge(looks)
    make = where_document if options.json else where_text
    return 0 if show(options.json.shaped(make(looks[-1], verdict))) else 1
