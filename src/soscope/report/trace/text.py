# SPDX-License-Identifier: Apache-2.0
"""A trace as text, one line per call, and the notes at its end."""

from __future__ import annotations

from itertools import takewhile
from time import localtime, strftime

from soscope.control.outcome import STOPPED_DURATION, STOPPED_FULL, STOPPED_LIMIT, cost_lines
from soscope.instruments.trace.listener import Listener
from soscope.instruments.trace.outcome import DLSYM, STOPPED_CUT, TraceOutcome, TraceProgramOutcome
from soscope.model.call import (
    ENDED_EXIT,
    ENDED_KILLED,
    ENDED_RETURN,
    Dropped,
    Entry,
    Event,
    Exit,
    ProcessExit,
    ProcessStart,
    Signal,
    Stretch,
    printable,
)
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
    TracedSlot,
    is_error,
)
from soscope.proc.status import signal_name
from soscope.prototypes import Prototypes
from soscope.report.output import Output
from soscope.report.trace.display import (
    TIME_EPOCH,
    TIME_MICROSECONDS,
    TIME_NONE,
    Display,
    FunctionNames,
    wants_colour,
)
from soscope.report.trace.stretchtext import StretchText, duration
from soscope.report.words import (
    attached_lines,
    delay_lines,
    ending,
    plural,
    signal_text,
    untold_line,
)
from soscope.select.filter import Selection
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.recording.names import Programs
    from soscope.report.trace.adorned import Adorned


# The closing lines on standard error. They tell what was not seen, what is missing, and how much.
# The reader of a trace cannot guess these facts from it. Each fact is one line. The last line is
# always printed.

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
    STOPPED_LIMIT: "recording ended: --max-size is reached",
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
    """List functions that a hooked image may call by pointers that the loader put into its data.

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
    """Return what the trace is complete for, or "" if calls may be unseen.

    If no slot was hooked and no call was seen (`is_seen`), nothing can be complete. If calls may
    be unseen, the text does not mention calls that breakpoints have seen.
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


# A call is held back until it is known what comes next. If the next event is the call's own end,
# both become one line. If not, the line is closed with `<unfinished ...>`, and the end becomes a
# line of its own. This code processes every event, so it formats with as little work as possible.

# The times at the beginning of lines.


class LineClock:
    """Formats the times of lines. The text of a second is made once.

    `mode` is one of the TIME_ constants of `display`. With `relative`, the time since the line
    before comes first.
    """

    __slots__ = ("_before", "_mode", "_relative", "_second", "_text")

    def __init__(self, mode: int, *, relative: bool = False) -> None:
        self._mode = mode
        self._relative = relative
        self._before = -1  # ns of the line before
        self._second = -1
        self._text = ""

    def text(self, time_ns: int) -> str:
        """Return the time of a line, followed by a blank."""
        if not self._relative:
            return self._time(time_ns)
        # A filter may show a call after calls inside of it, whose times are later.
        spent = max(time_ns - self._before, 0) if self._before >= 0 else 0
        self._before = time_ns
        seconds, ns = divmod(spent, 1_000_000_000)
        rest = "" if self._mode == TIME_NONE else self._time(time_ns)
        return f"{seconds:3}.{ns // 1000:06} {rest}"

    def _time(self, time_ns: int) -> str:
        second, ns = divmod(time_ns, 1_000_000_000)
        if self._mode == TIME_EPOCH:
            return f"{second}.{ns // 1000:06} "
        if second != self._second:
            self._second = second
            self._text = strftime("%H:%M:%S", localtime(second))
        if self._mode == TIME_MICROSECONDS:
            return f"{self._text}.{ns // 1000:06} "
        return f"{self._text} "


_MOST_HEADS = 1 << 16  # slots are new objects when images come, so old ones are forgotten

LONG = 100_000_000  # nanoseconds; longer calls are shown before they end
_UNFINISHED = " <unfinished ...>"
_NO_RETURN = " <no return ...>"

# Functions that never return, so nothing is missing if their end was not seen.
NO_RETURN = frozenset(
    "exit _exit _Exit quick_exit abort pthread_exit thrd_exit longjmp _longjmp siglongjmp "
    "__longjmp_chk __libc_longjmp __libc_siglongjmp setcontext err errx verr verrx "
    "__assert_fail __assert_perror_fail __assert __stack_chk_fail __fortify_fail __chk_fail "
    "__cxa_throw __cxa_rethrow _Unwind_Resume __libc_start_main _ZSt9terminatev".split()
)


class TextListener(Listener):
    """Writes a line for each call, signal and end of a process."""

    takes_stretches = True

    def __init__(self, output: Output, display: Display) -> None:
        self._output = output
        self._limit = display.string_limit
        self._names = FunctionNames(display)
        self._durations = display.durations
        is_timed = display.time != TIME_NONE or display.relative
        self.wants_durations = display.durations or is_timed
        self._clock = LineClock(display.time, relative=display.relative) if is_timed else None
        self._padding = max(display.column - 1, 0)
        self._elements = display.elements
        self._adorned: Adorned | None = None
        is_coloured = wants_colour(display.colour, output)
        if is_coloured or display.is_adorned:
            from soscope.report.trace.adorned import Adorned

            self._adorned = Adorned(display, is_coloured=is_coloured)
        self.takes_stretches = self.takes_stretches and self._adorned is None
        self._names_caller = False
        self._prototypes: Prototypes
        self._heads: dict[TracedSlot, str] = {}  # the text before the arguments
        self._several = display.several  # whether there are several threads or processes
        self._tid = 0  # the only thread so far
        self._open: Entry | None = None  # the call that is held back
        self._shown = ""  # the part of its line that is written already
        self._parts: list[str] = []  # lines to be written

    def meet(self, programs: Programs) -> None:
        """Take the programs. They have the images in which calls return."""
        if self._adorned is not None:
            self._adorned.programs = programs

    def begin(self, prototypes: Prototypes, selection: Selection) -> None:
        """Take the prototypes, which determine the form of calls."""
        self._prototypes = prototypes
        if self._elements is not None:
            prototypes.show_elements(self._elements)
        self._names_caller = selection.names_caller
        self._stretches = StretchText(prototypes, self._limit, self._head, self._result)

    def events(self, batch: list[Event]) -> None:
        """Add the lines of events, and write complete ones."""
        plain = self._clock is None  # lines begin with "[pid N] " at most
        heads, add, result_of = self._heads, self._parts.append, self._result
        texts_of, limit, durations = self._prototypes.format_texts, self._limit, self._durations
        padding, is_adorned = self._padding, self._adorned is not None
        for event in batch:
            if isinstance(event, Exit):
                entry = event.entry
                if (
                    entry is None
                    or entry is not self._open
                    or self._shown
                    or event.ended != ENDED_RETURN
                    or event.tid != entry.tid
                    or is_adorned
                ):
                    self._exit(event)
                    continue
                # Most calls: the end of the previous call, in one line with it.
                self._open = None
                slot = entry.slot
                texts = texts_of(slot, entry.captured, limit, event)
                line = f"{heads.get(slot) or self._head(slot)}{', '.join(texts)}) "
                if self._several or not plain or entry.tid != self._tid:
                    line = self._start(entry.time_ns, entry.tid) + line
                if durations:
                    add(f"{line:{padding}}= {result_of(event)}{_duration(event)}")
                else:
                    add(f"{line:{padding}}= {result_of(event)}\n")
            elif isinstance(event, Entry):
                if self._open is not None:
                    self._close(_UNFINISHED)
                if event.entry_only:
                    self._entry_only(event)
                else:
                    self._open = event
            elif isinstance(event, Stretch):
                self._stretch(event)
            else:
                self._other(event)
        self._write()

    def _stretch(self, stretch: Stretch) -> None:
        """Add the lines of calls each of which has returned before the next one."""
        if self._open is not None:
            self._close(_UNFINISHED)
        whose = self._whose(stretch.tid)
        time = self._clock.text if self._clock is not None else None
        self._stretches.add(
            self._parts, stretch, whose, self._padding - len(whose), time, self._durations
        )

    def caught_up(self, time_ns: int) -> None:
        """Show the open call of the target, as far as it is known."""
        entry = self._open
        if entry is not None and not self._shown and time_ns - entry.time_ns >= LONG:
            self._shown = self._begun(entry)
            self._output.write(self._shown)

    def end(self, outcome: TraceOutcome) -> None:
        """Close a call that is held back."""
        self._close(_UNFINISHED)
        self._write()

    def _write(self) -> None:
        if self._parts:
            self._output.write("".join(self._parts))
            self._parts.clear()

    # ---- parts of lines ----

    def _start(self, time_ns: int, tid: int) -> str:
        """Return the beginning of a line."""
        start = self._whose(tid)
        return start if self._clock is None else start + self._clock.text(time_ns)

    def _whose(self, tid: int) -> str:
        """Return the text for a thread, if there are several."""
        if tid != self._tid:
            self._several |= self._tid != 0
            self._tid = tid
        return f"[pid {tid}] " if self._several else ""

    def _head(self, slot: TracedSlot) -> str:
        """Return the name of a function up to the parenthesis, and remember it."""
        symbol = self._names.short(slot.symbol)
        if self._adorned is not None:
            symbol = self._adorned.symbol(symbol)
        head = f"{symbol}("
        if self._names_caller:
            head = f"{printable(slot.caller.label) if slot.caller else '?'}->{head}"
        if len(self._heads) > _MOST_HEADS:
            self._heads.clear()
        self._heads[slot] = head
        return head

    def _begun(self, entry: Entry) -> str:
        """Return a line up to the arguments that are known before the call returns."""
        known = self._prototypes.known_at_entry(entry.slot)
        texts = self._texts(entry, None)
        shown = ", ".join(texts[:known])
        if known and len(texts) > known:
            shown += ", "
        return f"{self._start_of(entry)}{shown}"

    def _texts(self, entry: Entry, leave: Exit | None) -> list[str]:
        """Return the arguments of a call as text."""
        arguments = self._prototypes.format_call(entry.slot, entry.captured, self._limit, leave)
        if self._adorned is not None:
            return self._adorned.texts(entry, arguments)
        return [argument.shown for argument in arguments]

    def _start_of(self, entry: Entry) -> str:
        """Return the line of a call up to its arguments."""
        slot = entry.slot
        lead = "" if self._adorned is None else self._adorned.lead(entry)
        start = self._start(entry.time_ns, entry.tid)
        return f"{start}{lead}{self._heads.get(slot) or self._head(slot)}"

    def _result(self, leave: Exit) -> str:
        """Return the text behind the equals sign."""
        text, failed = self._plain_result(leave)
        return text if self._adorned is None else self._adorned.result(leave, text, failed=failed)

    def _plain_result(self, leave: Exit) -> tuple[str, bool]:
        """Return the result of a call, and whether it means failure."""
        if leave.ended != ENDED_RETURN:
            return f"<{leave.ended}>", False
        slot, prototypes = leave.slot, self._prototypes
        result = prototypes.format_result(slot, leave, leave.entry, self._limit)
        if result is None:
            return "<void>", False
        if slot.error_rule and leave.result is not None:
            errno = prototypes.failure_errno(slot, leave)
            if errno:
                name, text = prototypes.errno_name(errno), prototypes.errno_text(errno)
                return f"{result.text} {name} ({text})", True
            return result.text, is_error(slot.error_rule, leave.result)
        return result.text, False

    # ---- lines ----

    def _entry_only(self, entry: Entry) -> None:
        """Add the line of a call whose end is not recorded."""
        shown = ", ".join(self._texts(entry, None))
        ends = _NO_RETURN if entry.slot.symbol in NO_RETURN else ")"
        line = f"{self._start_of(entry)}{shown}{self._end_of(entry, ends)}\n"
        self._parts.append(line + self._below(entry))

    def _below(self, entry: Entry) -> str:
        """Return the lines below the line of a call."""
        return "" if self._adorned is None else self._adorned.below(entry)

    def _end_of(self, entry: Entry, ends: str) -> str:
        """Return the end of the line of a call whose end is not recorded."""
        del entry
        return ends

    def _exit(self, leave: Exit) -> None:
        """Add the end of a call, behind its beginning if nothing came in between."""
        entry = leave.entry
        ended = leave.ended
        if entry is None:  # the call's entry was lost, and counted as lost
            return
        if entry is not self._open or leave.tid != entry.tid:
            # The open calls of a process that ends are not worth a line each.
            if ended != ENDED_EXIT and ended != ENDED_KILLED:  # noqa: PLR1714  on every call's path
                self._resumed(leave)
            return
        if ended in (ENDED_EXIT, ENDED_KILLED):
            self._close(_NO_RETURN if ended == ENDED_EXIT else _UNFINISHED)
            return
        slot, written = entry.slot, self._shown
        texts = self._texts(entry, leave)
        if written:
            known = self._prototypes.known_at_entry(slot)
            late = "" if known is None else ", ".join(texts[known:])
            line = f"{written}{late}"
        else:
            line = f"{self._start_of(entry)}{', '.join(texts)}"
        self._open, self._shown = None, ""
        self._finish(line, leave, len(written))
        self._parts.append(self._below(entry))

    def _resumed(self, leave: Exit) -> None:
        """Add the line of a call that ends after other lines."""
        if self._open is not None:
            self._close(_UNFINISHED)
        slot, entry, late = leave.slot, leave.entry, ""
        known = self._prototypes.known_at_entry(slot)
        if known is not None and entry is not None and not leave.is_inherited:
            late = ", ".join(self._texts(entry, leave)[known:])
        symbol, lead = self._names.short(slot.symbol), ""
        if self._adorned is not None:
            symbol = self._adorned.symbol(symbol)
            lead = "" if entry is None else self._adorned.lead(entry)
        line = f"{self._start(leave.time_ns, leave.tid)}{lead}<... {symbol} resumed> {late}"
        self._finish(line, leave, 0)

    def _finish(self, line: str, leave: Exit, written: int) -> None:
        """Add a line with its result, without the characters that are written already."""
        line = f"{line}) "
        hidden = 0 if self._adorned is None else self._adorned.hidden(line)
        line = f"{line:{self._padding + hidden}}= {self._result(leave)}"
        line += _duration(leave) if self._durations else "\n"
        self._parts.append(line[written:])

    def _close(self, how: str) -> None:
        """End the line of the call that is held back, without its result."""
        entry, written = self._open, self._shown
        if entry is not None:
            line = written or self._begun(entry)
            if line.endswith(" "):
                how = how.lstrip()
            self._parts.append(f"{line[len(written) :]}{how}\n{self._below(entry)}")
            self._open, self._shown = None, ""

    def _other(self, event: Event) -> None:
        """Add the line of an event that is no call."""
        if isinstance(event, ProcessStart):
            if event.event == "exec":
                self._tell(event.time_ns, event.pid, "--- Called exec() ---")
            elif event.event == "fork":
                self._several = True
        elif isinstance(event, Signal):
            name, text = signal_name(event.signal), signal_text(event.signal)
            self._tell(event.time_ns, event.tid, f"--- {name} ({text}) ---")
        elif isinstance(event, ProcessExit):
            self._tell(event.time_ns, event.pid, ending(event.status, event.signal))
        elif isinstance(event, Dropped):
            self._close(_UNFINISHED)
            self._parts.append(f"--- {plural(event.count, 'event')} dropped: {event.why} ---\n")

    def _tell(self, time_ns: int, tid: int, text: str) -> None:
        self._close(_UNFINISHED)
        self._parts.append(f"{self._start(time_ns, tid)}{text}\n")


def _duration(leave: Exit) -> str:
    """Return the duration of a call, if known, as the end of its line."""
    return "\n" if leave.duration_ns is None else duration(leave.duration_ns)
