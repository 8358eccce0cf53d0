# SPDX-License-Identifier: Apache-2.0
"""The closing lines on standard error: what was not seen, what is missing, how much.

What the reader of a trace cannot guess from it is printed here, in one line for each thing. The
last line is always printed.
"""

from __future__ import annotations

from itertools import takewhile

from soscope.control.outcome import STOPPED_DURATION, STOPPED_FULL, STOPPED_LIMIT, cost_lines
from soscope.instruments.trace.outcome import DLSYM, STOPPED_CUT, TraceOutcome, TraceProgramOutcome
from soscope.model.image import (
    IMAGE_LATE,
    IMAGE_METHODS_UNSEEN,
    IMAGE_UNREADABLE,
    IMAGE_WRITE_REFUSED,
    REFUSED_ADDRESS_TAKEN,
    REFUSED_FOREIGN,
    REFUSED_FULL,
    REFUSED_IN_USE,
    REFUSED_NO_SITE,
    REFUSED_NOT_A_CALL,
    REFUSED_TEXT,
    REFUSED_WRITE,
    SLOT_ENTRY,
    TracedImage,
)
from soscope.report.trace.display import Display, FunctionNames
from soscope.report.words import attached_lines, delay_lines, plural, untold_line
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MOST_NAMES = 6  # names in one line without -v

# A program that only starts a library has few slots, and the library has several times as many.
_LAUNCHER_SLOTS = 64
_LAUNCHER_TIMES = 2

_REFUSALS = {
    REFUSED_ADDRESS_TAKEN: "address taken, calls cannot be told from other uses of it",
    REFUSED_NOT_A_CALL: "not called as functions are",
    REFUSED_FULL: "no room for more slots",
    REFUSED_WRITE: "slots that cannot be written",
    REFUSED_TEXT: "calling code that cannot be changed",
    REFUSED_FOREIGN: "slots that something else has changed",
    REFUSED_IN_USE: "threads may be in what had to be replaced first",
    REFUSED_NO_SITE: "no code was found that calls through their slots",
}

_STOPPED = {
    STOPPED_DURATION: "recording ended: --duration is over",
    STOPPED_LIMIT: "recording ended: --limit is reached",
    STOPPED_FULL: "recording ended: the buffer was full (--when-full=stop)",
    STOPPED_CUT: "the recording is cut: it ends before the program did",
}

# By the words of process.reasons, which reports must not import.
_UNTRACED = {
    "static": "it is statically linked, so its calls go through no slots:"
    " strace shows its system calls, soscope prof run its functions by samples",
    "started by its loader": "it is a loader, and has started no program that can be seen",
    "setuid": "it gains privileges when it starts, and would lose them",
    "setuid, traced": "it should have gained privileges, but -f traces it, which forbids that",
    "foreign architecture": "it is made for another architecture",
    "not readable": "its file cannot be read",
    "seccomp filter": "its seccomp filter forbids what is needed",
    "unknown loader": "its loader is of an unknown kind",
    "mlockall": "it calls mlockall, and the agent's memory would exceed its limit (ulimit -l)",
    "let go of": "it was being loaded when the trace ended",
    "not followed": "what a command starts is followed with -f",
}


def notes(outcome: TraceOutcome, display: Display) -> list[str]:
    """Return the notes without their prefix, none if they are not wanted."""
    if display.quiet:
        return []
    lines = [*untraced_lines(outcome.untraced), *outcome.executed.lines()]
    lines += [*outcome.remarks, *display.remarks]
    unseen: list[str] = []
    lines += attached_lines(outcome, verbose=display.verbose)
    if outcome.programs:
        functions = FunctionNames(display)
        lines += _unmatched(outcome)
        lines += _not_hooked(outcome.programs, functions, verbose=display.verbose)
        unseen = _inside(outcome, functions, verbose=display.verbose) + unseen_lines(outcome)
        if not unseen and not outcome.shortfalls:
            unseen = _pointers(outcome, functions)
        lines += [*_launchers(outcome), *unseen]
    lines += [f"{plural(count, 'event')} dropped: {why}" for count, why in outcome.dropped if count]
    if outcome.stopped:
        lines.append(_STOPPED.get(outcome.stopped, outcome.stopped))
    if outcome.record is not None:
        lines.append(f"recording: {outcome.record}; show it: soscope report {outcome.record}")
    if outcome.programs:
        lines += _cost(outcome, display)
        lines += [untold_line()] if outcome.has_marks else []
        lines += delay_lines(outcome.delays)
        lines.append(_last(outcome, unseen))
    return lines


def untraced_lines(programs: list[tuple[str, str]]) -> list[str]:
    """Return which programs ran untraced, each reason once."""
    by_reason: dict[str, list[str]] = {}
    for program, reason in programs:
        by_reason.setdefault(reason, []).append(program)
    return [
        f"{_names(names)} ran untraced: {_UNTRACED.get(reason, reason)}"
        for reason, names in by_reason.items()
    ]


def _launchers(outcome: TraceOutcome) -> list[str]:
    """Return notes about programs that only start a library, unless callers were chosen.

    ruby is libruby with a main function, and so are many builds of Python, R and node. The
    program's own calls, which are shown by default, are few.
    """
    if outcome.selection.names_caller:
        return []
    pairs = [
        (image.name, library.name)
        for program in outcome.programs
        for image in program.images
        if image.is_main and 0 < image.slots_hooked <= _LAUNCHER_SLOTS
        for library in program.images
        if _starts(image, library)
    ]
    return [
        f"{name} only starts {library}: --from all shows its calls"
        for name, library in dict(pairs).items()
    ]


def _starts(main: TracedImage, library: TracedImage) -> bool:
    """Return whether `main` does little more than start `library`, by slots and names."""
    is_large = library.slots_left >= _LAUNCHER_TIMES * main.slots_hooked
    return not library.is_main and is_large and _stem(main.name) == _stem(library.name)


def _stem(name: str) -> str:
    """Return the first letters of a name: ruby for ruby3.1 and for libruby-3.1.so."""
    letters = "".join(takewhile(str.isalpha, name))
    return (letters.removeprefix("lib") or letters or name).casefold()


def _unmatched(outcome: TraceOutcome) -> list[str]:
    """Return the words of the filter that matched nothing in any of the programs."""
    matched = _matched(outcome)
    hooked = sum(image.slots_hooked for program in outcome.programs for image in program.images)
    words = outcome.selection.words
    if hooked and all(count or not word.text for word, count in zip(words, matched, strict=True)):
        return []
    from soscope.instruments.trace.outcome import explain_unmatched

    names = set(outcome.imported)
    names.update(slot.symbol for program in outcome.programs for slot in program.slots)
    images = [image for program in outcome.programs for image in program.images]
    return explain_unmatched(outcome.selection, matched, names, images, hooked=hooked)


def _matched(outcome: TraceOutcome) -> list[int]:
    """Return how many slots each word of the filter matched in all programs."""
    size = len(outcome.selection.words)
    matched = [0] * size
    for program in outcome.programs:
        for index, count in enumerate(program.rules_matched[:size]):
            matched[index] += count
    return matched


def _not_hooked(
    programs: list[TraceProgramOutcome], functions: FunctionNames, *, verbose: bool
) -> list[str]:
    """Return what could not be hooked in any of the programs, each once."""
    lines = []
    images = [image for program in programs for image in program.images]
    refused: dict[tuple[int, str], list[str]] = {}
    for program in programs:
        for slot in program.slots:
            if not slot.is_hooked:
                caller = slot.caller.label if slot.caller else "?"
                refused.setdefault((slot.refusal, caller), []).append(slot.symbol)
    for (refusal, caller), symbols in refused.items():
        reason = _REFUSALS.get(refusal, f"reason {refusal}")
        said = _names(symbols, functions.short, verbose=verbose)
        lines.append(f"not hooked in {caller} ({reason}): {said}")
    partial: dict[str, list[str]] = {}
    for program in programs:
        for slot in program.slots:
            if slot.is_hooked and slot.partial:
                partial.setdefault(slot.caller.label if slot.caller else "?", []).append(
                    slot.symbol
                )
    for caller, symbols in partial.items():
        reason = f"counts are lower bounds in {caller} (their addresses are loaded, too)"
        lines.append(f"{reason}: {_names(symbols, functions.short, verbose=verbose)}")
    for flag, what in (
        (IMAGE_UNREADABLE, "not hooked, their headers cannot be read"),
        (IMAGE_WRITE_REFUSED, "not hooked, their slots cannot be written"),
        (IMAGE_METHODS_UNSEEN, "method tables not hooked, no memory or another interpreter"),
        (IMAGE_LATE, "hooked late, after code of theirs may have run"),
    ):
        names = [image.label for image in images if image.flags & flag]
        if names:
            lines.append(f"{what}: {_names(names, verbose=verbose)}")
    if any(program.loader_refused for program in programs):
        lines.append("images that were loaded later are not seen: the loader is of an unknown kind")
    lines += _without_room(programs, verbose=verbose)
    if not all(program.errno_known for program in programs):
        lines.append("errno is not known: the C library keeps it in an unknown place")
    lines += [
        f"results and times are not known in {program.path.rpartition('/')[2]}: "
        "libunwind, which throws its exceptions, would crash at a return trampoline"
        for program in programs
        if not program.exits_known
    ]
    if verbose:
        lines += [
            f"{image.label}: {plural(image.slots_hooked, 'slot')} hooked, "
            f"{image.slots_left:,} left alone, {image.slots_refused:,} refused"
            for image in images
        ]
    return lines


def _without_room(programs: list[TraceProgramOutcome], *, verbose: bool) -> list[str]:
    """Return which images have slots that are not hooked because the table is full."""
    missing: dict[str, int] = {}
    for program in programs:
        counts = program.without_room
        for image in program.images if counts else ():
            if count := counts.get(image.index):
                missing[image.label] = missing.get(image.label, 0) + count
    way_out = "choose fewer with -e, --from or -l"
    if missing:
        slots = plural(sum(missing.values()), "slot")
        names = _names(list(missing), verbose=verbose)
        return [f"not hooked, no room for {slots} of {names}: {way_out}"]
    if cut := sum(program.cut for program in programs):
        return [f"no room for {plural(cut, 'image or slot', 'images or slots')}: {way_out}"]
    return []


def _cost(outcome: TraceOutcome, display: Display) -> list[str]:
    """Return the cost of the hooks for the programs, including what these waited for."""
    if any(program.records for program in outcome.programs):
        return cost_lines(outcome.cost, "tracing", verbose=display.verbose)
    if any(program.counts is not None for program in outcome.programs):
        return cost_lines(outcome.cost, "counting", verbose=display.verbose)
    if any(program.stats is not None for program in outcome.programs):
        without = (
            "" if outcome.delays.unknown else f"; the table's times are without it{_doubt(outcome)}"
        )
        return cost_lines(outcome.cost, "-c", verbose=display.verbose, note=without)
    return cost_lines(outcome.cost, "injecting", verbose=display.verbose)


def _doubt(outcome: TraceOutcome) -> str:
    """Return the possible error of a call's time after subtracting the cost of hooks."""
    return f", to ± {outcome.doubt_ns:.0f} ns a call" if outcome.doubt_ns else ""


def _inside(outcome: TraceOutcome, functions: FunctionNames, *, verbose: bool) -> list[str]:
    """Return a note that calls inside one image go through no slot.

    It is printed if the filter lists such functions. This is so for every trace, so if the user
    has listed no function, it is only printed with -v.
    """
    if verbose or _names_what_nobody_imports(outcome):
        return ["not seen: calls inside one image, as they go through no slot"]
    words = outcome.selection.words
    if not any(word.text and not word.symbol.is_any for word in words):
        return []
    from soscope.instruments.trace.outcome import called_inside

    slots = [slot for program in outcome.programs for slot in program.slots]
    return [
        f"not seen: calls of {_of_these(symbols, functions)} inside {image}, as they go through"
        " no slot"
        for image, symbols in called_inside(outcome.selection, slots).items()
    ]


def _pointers(outcome: TraceOutcome, functions: FunctionNames) -> list[str]:
    """Say which functions a hooked image may call by pointers that the loader put into its data.

    Files are read for this, so it is asked where nothing else is missing.
    """
    from soscope.instruments.trace.outcome import called_by_pointers

    images = [image for program in outcome.programs for image in program.images]
    return [
        f"not seen: calls of {_names(symbols, functions.short)} by pointers in the data of {image}"
        for image, symbols in called_by_pointers(outcome.selection, images).items()
    ]


def _of_these(symbols: list[str], functions: FunctionNames) -> str:
    """Return the functions that a filter has chosen, if they are not many."""
    if len(symbols) > MOST_NAMES:
        return f"{len(symbols):,} of these functions"
    return _names(symbols, functions.short)


def _names_what_nobody_imports(outcome: TraceOutcome) -> bool:
    """Return whether a function of the filter matched in none of the programs."""
    matched = _matched(outcome)
    return any(
        word.kind == layout.RULE_INCLUDE and word.text and not word.symbol.is_any and not count
        for word, count in zip(outcome.selection.words, matched, strict=True)
    )


def unseen_lines(outcome: TraceOutcome) -> list[str]:
    """Return which calls no slot can show."""
    lines = []
    users = {
        slot.caller.name if slot.caller else "?"
        for program in outcome.programs
        for slot in program.slots
        if slot.symbol in DLSYM
    }
    if users:
        lines.append(f"not seen: calls through pointers that dlsym gave to {_names(sorted(users))}")
    elif DLSYM & outcome.imported:
        lines.append("not seen: calls through pointers that dlsym gave")
    return lines


def _last(outcome: TraceOutcome, unseen: list[str]) -> str:
    """Return the last line: how much there was, and whether that is everything."""
    images: list[TracedImage] = [image for program in outcome.programs for image in program.images]
    hooked = [image for image in images if image.slots_hooked]
    others = [image for image in images if not image.slots_hooked and image.slots_left]
    slots = plural(sum(image.slots_hooked for image in hooked), "slot")
    whose = ""
    if hooked:
        is_one = len({image.name for image in hooked}) == 1
        whose = hooked[0].name if is_one else plural(len(hooked), "image")
        slots += f" of {whose}"
    calls = _calls(outcome)
    inside = sum(slot.kind == SLOT_ENTRY for program in outcome.programs for slot in program.slots)
    ways = [f"through {slots}"] * bool(hooked or not inside)
    ways += [f"at {plural(inside, 'entry point')}"] * bool(inside)
    parts = [f"{slots} hooked" if calls is None else f"{plural(calls, 'call')} {', '.join(ways)}"]
    if outcome.shown not in (None, calls) and calls is not None:
        parts = [f"{outcome.shown:,} of {parts[0]} shown"]
    left = sum(image.slots_left for image in others)
    if others:
        parts.append(f"{plural(left, 'slot')} of {plural(len(others), 'other image')} left alone")
    seen = calls or inside
    parts.append(", ".join(outcome.shortfalls) or _all(outcome, whose, unseen, is_seen=bool(seen)))
    return "; ".join(filter(None, parts))


def _all(outcome: TraceOutcome, whose: str, unseen: list[str], *, is_seen: bool) -> str:
    """Say what the trace has all of; it is not complete if there are calls that nobody saw.

    If no slot was hooked and no call was seen (`is_seen`), there is nothing that can be complete.
    Of calls that breakpoints have seen nothing is said if others may be unseen.
    """
    if not whose and not is_seen:
        return "nothing was hooked"
    if not whose:
        return "" if unseen else "complete"
    are_named = any(word.option == "-e" and word.text for word in outcome.selection.words)
    calls = f"all calls{' of these functions' if are_named else ''} from {whose}"
    return f"{calls} through slots" if unseen else f"complete: {calls}"


def _calls(outcome: TraceOutcome) -> int | None:
    """Return how many calls were seen, None if they were not counted (only recorded)."""
    if outcome.calls is not None:
        return outcome.calls
    counted = [program.counts for program in outcome.programs if program.counts is not None]
    timed = [program.stats for program in outcome.programs if program.stats is not None]
    if not counted and not timed:
        return None
    return sum(sum(counts.values()) for counts in counted) + sum(
        cell[0] for stats in timed for cell in stats.values()
    )


def _names(names: list[str], said: Callable[[str], str] = str, *, verbose: bool = False) -> str:
    """Join distinct names, formatted by `said`, only the first few of many."""
    unique = list(dict.fromkeys(names))
    if verbose or len(unique) <= MOST_NAMES:
        return ", ".join(map(said, unique))
    return f"{', '.join(map(said, unique[:MOST_NAMES]))} and {len(unique) - MOST_NAMES:,} more"
