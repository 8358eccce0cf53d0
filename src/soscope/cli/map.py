# SPDX-License-Identifier: Apache-2.0
"""`soscope map`: the slots of files, or of the images of a process."""

from __future__ import annotations

from soscope.cli.main import Invocation, note
from soscope.verbs.map import MapOptions, parse

TYPE_CHECKING = False
if TYPE_CHECKING:  # imported after the words were parsed
    from soscope.inspect.map.processmap import Chooses, ProcessMap
    from soscope.live.images.image import LoadedImage
    from soscope.live.images.space import Space


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if nothing was chosen or something could not be read."""
    options = parse(invocation.words)
    invocation.debug |= options.debug
    if options.pid is None and options.remote is None:
        from soscope.cli.mapfiles import show_files

        return show_files(options)
    return _show_process(options)


def _space(options: MapOptions) -> Space:
    """Open the process, or the program of a GDB stub. Raises SoscopeError."""
    if options.remote is not None:
        from soscope.control.qemu.memory import open_remote

        return open_remote(options.remote, options.program, options.sysroot)
    from soscope.live.images.space import Space

    assert options.pid is not None
    return Space(options.pid)


def _show_process(options: MapOptions) -> int:
    # Imported late, as --help and usage errors do not need it.
    from soscope.cli.output import show
    from soscope.inspect.map.processmap import read_map

    process_map = read_map(_space(options), _chooser(options))
    chosen = sum(process_map.counts().values())
    if options.changed:
        process_map.keep_changed()
    is_drawn = _write_pictures(options, process_map)
    text = ""
    if options.json:
        from soscope.report.mapjson import process_document

        text = options.json.shaped(process_document(process_map))
    elif options.svg is None and options.dot is None:
        from soscope.report.mapprocess import lines_of

        lines = lines_of(process_map, only_slots=options.is_filtered)
        text = "".join(f"{line}\n" for line in lines)
    if not (show(text) and is_drawn):
        return 1
    if process_map.is_changing:
        note("libraries come and go in this process: only those that stay are shown")
    elif process_map.is_guessed:
        note("the loader's own scopes were not found: interposed and hooked may be wrong")
    if process_map.is_static:
        from soscope.proc.status import in_full, static

        note(f"no calls to see: {in_full(static(process_map.path))}")
    if options.is_filtered and not chosen:
        note("no slot matches")
        return 1
    return 1 if process_map.damaged or process_map.is_changing else 0


def _chooser(options: MapOptions) -> Chooses:
    """Return a function that tells whether a slot was asked for. Raises UsageError."""
    from soscope.prototypes import load
    from soscope.select.filter import chooses, compile_selection

    selection = compile_selection(
        options.select, options.from_ or ["all"], options.to, sets=lambda: load().groups()
    )

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

    if options.select or options.from_ or options.to:
        return wanted
    return lambda *_: True


def _write_pictures(options: MapOptions, process_map: ProcessMap) -> bool:
    """Write the files that were asked for. Return whether they are complete.

    Raises SoscopeError.
    """
    if options.svg is None and options.dot is None:
        return True
    from soscope.cli.output import finish
    from soscope.report import mapprocess as mapdot
    from soscope.report import mapsvg
    from soscope.report.mapprocess import graph_of
    from soscope.report.output import Output

    graph = graph_of(process_map)
    is_whole = True
    for path, write in ((options.svg, mapsvg.document), (options.dot, mapdot.document)):
        if path is None:
            continue
        output = Output.open(path)
        output.write(write(graph))
        is_whole &= finish(output)
    return is_whole
