# SPDX-License-Identifier: Apache-2.0
"""`soscope map`: the slots of files, or of the images of a process."""

from __future__ import annotations

from soscope.cli.main import Invocation, note
from soscope.options.map import MapOptions, parse

TYPE_CHECKING = False
if TYPE_CHECKING:  # imported when the words are fine
    from soscope.inspect.processmap import Chooses, ProcessMap
    from soscope.process.images.loadedimage import LoadedImage


def run(invocation: Invocation) -> int:
    """Run the verb; return 0, or 1 where nothing was chosen or not all could be read."""
    options = parse(invocation.words)
    invocation.debug |= options.debug
    if options.pid is None:
        from soscope.cli.mapfiles import show_files

        return show_files(options)
    return _show_process(options, options.pid)


def _show_process(options: MapOptions, pid: int) -> int:
    # --help and usage errors need none of these
    from soscope.cli.output import show
    from soscope.inspect.processmap import read_map
    from soscope.report import processmap

    found = read_map(pid, _chooser(options))
    chosen = sum(found.counts().values())
    if options.changed:
        found.keep_changed()
    is_drawn = _write_pictures(options, found)
    text = ""
    if options.json:
        text = processmap.document(found)
    elif options.svg is None and options.dot is None:
        lines = processmap.text(found, only_slots=options.is_filtered)
        text = "".join(f"{line}\n" for line in lines)
    if not (show(text) and is_drawn):
        return 1
    if found.is_changing:
        note("libraries come and go in this process: only those that stay are shown")
    elif found.is_guessed:
        note("the loader's own scopes were not found: interposed and hooked may be wrong")
    if options.is_filtered and not chosen:
        note("no slot matches")
        return 1
    return 1 if found.damaged or found.is_changing else 0


def _chooser(options: MapOptions) -> Chooses:
    """Return what says whether a slot was asked for. Raises UsageError."""
    from soscope.instruments.trace.filter import chooses, compile_selection

    selection = compile_selection(options.select, options.callers or ["all"], options.callees)

    def wanted(symbol: str, caller: LoadedImage, callee: LoadedImage | None) -> bool:
        return chooses(
            selection,
            symbol,
            caller=caller.name,
            caller_path=caller.path,
            caller_is_main=caller.is_main,
            callee="" if callee is None else callee.name,
            callee_path="" if callee is None else callee.path,
            callee_is_main=callee is not None and callee.is_main,
        )

    if options.select or options.callers or options.callees:
        return wanted
    return lambda *_: True


def _write_pictures(options: MapOptions, found: ProcessMap) -> bool:
    """Write the files that were asked for; say whether they are whole. Raises SoscopeError."""
    if options.svg is None and options.dot is None:
        return True
    from soscope.cli.output import finish
    from soscope.report import mapdot, mapsvg
    from soscope.report.callgraph import graph_of
    from soscope.report.output import Output

    graph = graph_of(found)
    is_whole = True
    for path, write in ((options.svg, mapsvg.document), (options.dot, mapdot.document)):
        if path is None:
            continue
        output = Output.open(path)
        output.write(write(graph))
        is_whole &= finish(output)
    return is_whole
