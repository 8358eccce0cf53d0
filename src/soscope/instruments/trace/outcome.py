# SPDX-License-Identifier: Apache-2.0
"""The outcome of a trace: programs, hooks, losses, and patterns that matched nothing."""

from __future__ import annotations

from soscope.control import outcome as session
from soscope.control.outcome import Price
from soscope.model.call import Delays, Stats, add
from soscope.model.image import (
    IMAGE_LATE,
    IMAGE_METHODS_UNSEEN,
    IMAGE_UNREADABLE,
    IMAGE_WRITE_REFUSED,
    SLOT_METHOD,
    TracedImage,
    TracedSlot,
)
from soscope.model.record import fresh
from soscope.select.filter import (
    Pattern,
    Selection,
    Word,
    chooses,
    compile_pattern,
    compile_symbol,
    near_misses,
    without_anchors,
)
from soscope.select.patterns import Automaton
from soscope.wire import layout
from soscope.wire.block import ControlBlock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

# Functions of a filter that their own image may also call directly, through no slot.


def called_inside(selection: Selection, slots: Iterable[TracedSlot]) -> dict[str, list[str]]:
    """Return image -> functions of it that the filter lists, and whose calls there it chooses.

    Functions that the image itself calls through a slot, like other callers, are left out, and so
    are functions that are called by a method table.
    """
    named = [
        compile_symbol(word.symbol)
        for word in selection.words
        if word.kind == layout.RULE_INCLUDE and word.text and not word.symbol.is_any
    ]
    if not named:
        return {}
    known = list(slots)
    through_slots = {(slot.caller, slot.symbol) for slot in known}
    functions: dict[str, list[str]] = {}
    for image, symbol in dict.fromkeys(
        (slot.callee, slot.symbol) for slot in known if slot.kind != SLOT_METHOD
    ):
        if image is None or (image, symbol) in through_slots:
            continue
        name = symbol.encode("utf-8", "surrogateescape")
        if any(pattern.matches(name) for pattern in named) and chosen(
            selection, symbol, image, image
        ):
            functions.setdefault(image.name, []).append(symbol)
    return {image: list(dict.fromkeys(symbols)) for image, symbols in functions.items()}


def called_by_pointers(selection: Selection, images: Iterable[TracedImage]) -> dict[str, list[str]]:
    """Return hooked image -> functions that the filter chooses and its data has pointers to.

    What it calls through these goes through no slot.
    """
    from soscope.control.imports import pointed_functions, which_define

    known = list({image.path: image for image in images}.values())
    functions: dict[str, list[str]] = {}
    for image in known:
        for symbol in pointed_functions(image.path) if image.slots_hooked else ():
            paths = which_define(symbol, [other.path for other in known if other is not image])
            callee = next((other for other in known if other.path in paths[:1]), image)
            if chosen(selection, symbol, image, callee):
                functions.setdefault(image.name, []).append(symbol)
    return functions


def chosen(
    selection: Selection, symbol: str, caller: TracedImage | None, callee: TracedImage | None
) -> bool:
    """Return whether a filter chooses the calls of a symbol, with the same result as in the agent.

    Images are None if they are not known.
    """
    by, of = for_filters(caller), for_filters(callee)
    return chooses(
        selection,
        symbol,
        caller=by[0],
        callee=of[0],
        caller_path=by[1],
        callee_path=of[1],
        caller_is_main=by[2],
        callee_is_main=of[2],
    )


def for_filters(image: TracedImage | None) -> tuple[str, str, bool]:
    """Return an image as filters know it: name, path, and whether it is the program itself."""
    return ("", "", False) if image is None else (image.name, image.path, image.is_main)


# The outcome of a trace: the programs, what was hooked, what was lost.
#
# A live run and a recording that is read back both end in a `TraceOutcome`. Reports use nothing
# else.

STOPPED_CUT = "cut"  # a recording that ends in the middle: damaged, or soscope was killed

# Flags of images whose calls were not seen, or not all of them.
_NOT_WHOLE = IMAGE_LATE | IMAGE_UNREADABLE | IMAGE_WRITE_REFUSED | IMAGE_METHODS_UNSEEN

# Functions that return pointers which are then called through no slot.
DLSYM = frozenset({"dlsym", "dlvsym"})


class TraceProgramOutcome(session.ProgramOutcome):
    """One traced program: the contents of one control block at the end.

    `slots` are the chosen slots that a report may list: called, refused, partial, or of DLSYM. If
    a word of the filter has matched nothing, they are all chosen slots. `counts` (slot index ->
    calls) and `stats` are set in their modes only. `ns_per_tick` converts the ticks of `stats`.
    `rules_matched` has a number for each rule of the filter. `slots_left` counts function slots
    that were not chosen. `loader_refused` means that images loaded later were not seen,
    `errno_known` that errno could be read, and `exits_known` that returns could be seen. `cut`
    counts images and slots for which there was no room: see `without_room`. `durations` are
    numbers of returns by slot and class (`recording.durations`), if they were asked for.
    `call_ticks` is the least cost of a call for its caller in ticks, as measured by the agent (0:
    not measured), and `usual_ticks` its cost among other calls. `doubt_ticks` is the possible
    error of the time of each return. `delays` are waits for a processor during calls with times.
    `records` means that each call was recorded.
    """

    slots: list[TracedSlot]
    counts: dict[int, int] | None = None
    stats: Stats | None = None
    ns_per_tick: float = 1.0
    rules_matched: Sequence[int] = ()
    slots_left: int = 0
    loader_refused: bool = False
    errno_known: bool = True
    exits_known: bool = True
    cut: int = 0
    durations: dict[int, dict[int, int]] | None = None
    call_ticks: int = 0
    usual_ticks: int = 0
    doubt_ticks: float = 0
    records: bool = False
    delays: Delays = fresh(Delays)

    @property
    def without_room(self) -> dict[int, int]:
        """Return how many slots found no room in the table of slots, by the index of their image.

        The image counts them as refused, but they have no record with a name.
        """
        missing = {image.index: image.slots_refused for image in self.images}
        for slot in self.slots:
            if not slot.is_hooked and slot.caller is not None and slot.caller.index in missing:
                missing[slot.caller.index] -= 1
        return {index: count for index, count in missing.items() if self.cut and count > 0}

    @property
    def lacks_calls(self) -> bool:
        """Return whether calls that were asked for, or their returns, could not be seen."""
        return (
            self.loader_refused
            or not self.exits_known
            or self.cut > 0
            or any(slot.partial or not slot.is_hooked for slot in self.slots)
            or any(image.flags & _NOT_WHOLE for image in self.images)
        )


class MergedPrograms:
    """Programs one after the other. Repeated runs of one program are added up.

    A shell script runs a few programs thousands of times. They become one `TraceProgramOutcome`
    for each program with the same images.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[object, ...], tuple[TraceProgramOutcome, dict[object, int]]] = {}

    def add(self, program: TraceProgramOutcome) -> None:
        """Add a program, which belongs to this object from then on."""
        known = self._found.get(program.key)
        if known is None:
            self._found[program.key] = program, {_key(slot): slot.index for slot in program.slots}
        else:
            _merge(program, *known)

    def all(self) -> list[TraceProgramOutcome]:
        """Return the programs in the order in which the first run of each ended."""
        return [program for program, _ in self._found.values()]


def _key(slot: TracedSlot) -> object:
    caller = slot.caller.index if slot.caller else None
    callee = slot.callee.index if slot.callee else None
    return slot.symbol, slot.version, caller, callee, slot.kind, slot.refusal, slot.partial


def _merge(run: TraceProgramOutcome, into: TraceProgramOutcome, places: dict[object, int]) -> None:
    """Add a run of a program to earlier runs. `places` are the indices of known slots by key."""
    index_of: dict[int, int] = {}  # the order of slots differs in each run
    for slot in run.slots:
        key = _key(slot)
        if key not in places:
            places[key] = max(places.values(), default=-1) + 1
            into.slots.append(slot.but(index=places[key]))
        index_of[slot.index] = places[key]
    for index, calls in (run.counts or {}).items():
        if into.counts is not None and index in index_of:
            at = index_of[index]
            into.counts[at] = into.counts.get(at, 0) + calls
    for index, stats in (run.stats or {}).items():
        if into.stats is not None and index in index_of:
            at = index_of[index]
            into.stats[at] = add(into.stats.get(at), stats)
    for index, classes in (run.durations or {}).items():
        if into.durations is not None and index in index_of:
            there = into.durations.setdefault(index_of[index], {})
            for each, returns in classes.items():
                there[each] = there.get(each, 0) + returns
    size = max(len(run.rules_matched), len(into.rules_matched))
    into.rules_matched = [
        sum(matched[at] for matched in (run.rules_matched, into.rules_matched) if at < len(matched))
        for at in range(size)
    ]
    into.slots_left = max(into.slots_left, run.slots_left)
    into.loader_refused |= run.loader_refused
    into.errno_known &= run.errno_known
    into.exits_known &= run.exits_known
    into.cut += run.cut
    into.call_ticks = max(into.call_ticks, run.call_ticks)
    into.usual_ticks = max(into.usual_ticks, run.usual_ticks)
    into.doubt_ticks = max(into.doubt_ticks, run.doubt_ticks)
    into.delays.add(run.delays)


class TraceOutcome(session.Outcome):
    """The end of a trace.

    `calls` counts the calls in the event stream (None if there was no stream), and `shown` those
    of them that were shown (None if all were). `imported` are the function symbols that images of
    the programs import, if they were looked up, as candidates for near misses. `has_marks` means
    that a report has marked times that are not larger than their possible error.
    """

    __slots__ = ("calls", "has_marks", "imported", "selection", "shown")

    programs: list[TraceProgramOutcome]

    def __init__(
        self,
        command: list[str],
        selection: Selection,
        *,
        status: int | None = None,
        signal: int | None = None,
        programs: list[TraceProgramOutcome] | None = None,
        calls: int | None = None,
        dropped: list[tuple[int, str]] | None = None,
        stopped: str = "",
        untraced: list[tuple[str, str]] | None = None,
        remarks: list[str] | None = None,
        imported: set[str] | None = None,
        record: str | None = None,
    ) -> None:
        super().__init__(
            command,
            status=status,
            signal=signal,
            programs=programs or [],
            untraced=untraced,
            dropped=dropped,
            stopped=stopped,
            remarks=remarks,
            record=record,
        )
        self.selection = selection
        self.calls = calls
        self.shown: int | None = None
        self.imported = imported or set()
        self.has_marks = False

    @property
    def doubt_ns(self) -> float:
        """Return the possible error of the time of each return in ns, 0 if it is not known."""
        return max((each.doubt_ticks * each.ns_per_tick for each in self.programs), default=0)

    @property
    def delays(self) -> Delays:
        """Return how long threads of all programs waited for a processor."""
        delays = Delays()
        for program in self.programs:
            delays.add(program.delays)
        return delays

    @classmethod
    def of(
        cls,
        ended: session.Outcome,
        selection: Selection,
        *,
        programs: list[TraceProgramOutcome],
        calls: int | None,
        imported: set[str],
    ) -> TraceOutcome:
        """Make the outcome of a trace from the outcome of its session."""
        made = cls(ended.command, selection, programs=programs, calls=calls, imported=imported)
        for name in session.Outcome.__slots__:
            if name != "programs":
                setattr(made, name, getattr(ended, name))
        return made

    @property
    def is_whole(self) -> bool:
        """Return whether all calls that were asked for could be seen."""
        return super().is_whole and not any(program.lacks_calls for program in self.programs)


def price(
    cost: Price, programs: list[TraceProgramOutcome], ns_per_tick: float, units: int | None
) -> None:
    """Add to `cost` the time that hooks added to the calls of `programs`.

    The agents have measured the cost of an empty call. `units` is the number of units that such
    calls recorded, None if it is not known. The cost of keeping strings and structures is in
    `cost` already.
    """
    usual = max((_usual(program) for program in programs), default=0)
    if not usual:
        return
    cost.call_ns = round(max(program.call_ticks for program in programs) * ns_per_tick, 1)
    if any(program.records for program in programs):
        ticks = None if units is None else usual * units
    else:
        ticks = sum(_counted(program) * _usual(program) for program in programs)
    if ticks is not None:
        cost.calls_ns = (cost.calls_ns or 0) + round(ticks * ns_per_tick)


def _usual(program: TraceProgramOutcome) -> int:
    """Return the cost of a call among other calls in ticks, at least the least cost of a call."""
    return max(program.usual_ticks, program.call_ticks)


def _counted(program: TraceProgramOutcome) -> int:
    """Return how many calls the program counted, with or without times."""
    if program.counts is not None:
        return sum(program.counts.values())
    return sum(cell[1] for cell in (program.stats or {}).values())


# Reports words of a filter that have matched nothing, and what the user may have meant.
#
# It does so twice: when the images are loaded that the target starts with, and after its end.
# Images may be loaded late, so only then it is certain that nothing has matched.

# Libraries that are part of glibc's libc.so.6 since version 2.34.
_LIBC = "libc.so.6"
_IN_LIBC = tuple(f"lib{name}.so" for name in ("pthread", "dl", "util", "anl", "rt"))
_SO_FAR = " so far (what is loaded later may match)"


def explain_unmatched(
    selection: Selection,
    matched: Sequence[int],
    symbols: Iterable[str],
    images: Iterable[TracedImage],
    *,
    hooked: int | None = None,
) -> list[str]:
    """Return one line for each word that has matched nothing, with near misses.

    `matched` has the number of matches of each rule (ControlBlock.rules_matched, which may be
    summed over several programs). `symbols` are all function symbols that some image imports, and
    `images` are all images that were seen. `hooked` is the number of chosen slots. If every word
    has matched and yet no slot was chosen, a line tells so.
    """
    names = sorted(set(symbols))
    seen = list(images)
    lines = [line for word in selection.unmatched(matched) for line in _explain(word, names, seen)]
    if not lines and hooked == 0 and any(word.text for word in selection.words):
        words = [f"{word.option} {word.text}" for word in selection.words if word.text]
        lines.append(f"no call matches {' with '.join(dict.fromkeys(words))}")
    return lines


def explain_so_far(
    missing: Sequence[Word], blocks: Sequence[ControlBlock], meanwhile: Callable[[], object]
) -> Iterator[str]:
    """Yield a line for each word that has matched nothing in any of the programs.

    Calls `meanwhile` often, as the target runs already.
    """
    from soscope.control.imports import imported_functions

    images = [image for number, block in enumerate(blocks) for image in block.images(number)]
    names: set[str] = set()
    for path in {image.path for image in images}:
        names |= imported_functions([path])
        meanwhile()
    symbols = sorted(names)
    for word in missing:
        yield from _explain(word, symbols, images, _SO_FAR)
        meanwhile()


def _explain(
    word: Word, symbols: list[str], images: list[TracedImage], so_far: str = ""
) -> list[str]:
    """Explain one word; no line if it is an exclusion that had nothing to exclude."""
    shown = f"{word.option} {word.text}"
    matching = [image for image in images if _matches_image(word.image, image)]
    if word.kind in (layout.RULE_FROM, layout.RULE_TO):
        what = "caller" if word.kind == layout.RULE_FROM else "callee"
        if matching:
            return [f"{shown} matches no {what}{so_far}: {matching[0].name} has no such calls"]
        if word.image.text.startswith(_IN_LIBC) and any(image.name == _LIBC for image in images):
            why = f": glibc 2.34 and newer has it in {_LIBC} ({word.option} {_LIBC})"
        else:
            why = _did_you_mean(_near_images(word.image, images))
        return [f"{shown} matches no {what}{so_far}{why}"]
    known = word.symbol.is_any or _any_matches(compile_symbol(word.symbol), symbols)
    if word.kind == layout.RULE_EXCLUDE:
        if known or not word.symbol.is_plain:
            return []
        misses = near_misses(without_anchors(word.symbol.text), symbols)
        return [f"{shown} excludes nothing{so_far}{_did_you_mean(misses)}"] if misses else []
    if not known:
        inside = "" if so_far or not word.symbol.is_plain else _inside(word.symbol.text, images)
        misses = [] if inside else near_misses(_literal(word.symbol), symbols)
        return [f"{shown} matches no symbol{so_far}{inside}{_did_you_mean(misses)}"]
    if not matching:
        # A sign in an expression begins a rule, so @ld-linux.so.2 was cut short.
        misses = [
            name.replace("-", r"\-").replace("+", r"\+")
            for name in _near_images(word.image, images)
        ]
        return [f"{shown} matches no caller{so_far}{_did_you_mean(misses)}"]
    if word.image.is_any:
        return [f"{shown} matches no call{so_far}"]
    # The word behind the at-sign is the caller. Most users who write it mean the callee.
    meant = _did_you_mean([f"-l {word.image.text}"])
    return [f"{shown} matches no caller{so_far}: behind @ stands who calls{meant}"]


def _inside(name: str, images: list[TracedImage]) -> str:
    """Return which images define a function that no image calls through a slot, and an option."""
    from soscope.control.imports import which_define

    by_path = {image.path: image.name for image in images if image.path and image.name}
    words = [f"-x {name}@{by_path[path]}" for path in which_define(name, by_path)]
    if not words:
        return ""
    whose = ", ".join(word.partition("@")[2] for word in words)
    has = "has a function" if len(words) == 1 else "have functions"
    return f": {whose} {has} of that name inside; {' '.join(words)} shows its calls"


def _did_you_mean(words: list[str]) -> str:
    """Return the end of a line that lists what the user may have meant."""
    return f"; did you mean {', '.join(words)}?" if words else ""


def _any_matches(automaton: Automaton, names: list[str]) -> bool:
    """Return whether one of the names matches."""
    return any(automaton.matches(name.encode("utf-8", "surrogateescape")) for name in names)


def _matches_image(pattern: Pattern, image: TracedImage) -> bool:
    """Return whether a pattern for images matches this one."""
    if pattern.is_main:
        return image.is_main
    if pattern.is_any:
        return True
    name = image.path if pattern.is_path else image.name
    return _any_matches(compile_pattern(pattern), [name])


def _near_images(pattern: Pattern, images: list[TracedImage]) -> list[str]:
    """Return the images that a pattern may have meant, as words for the command line."""
    if pattern.is_path:
        names = sorted({image.path for image in images if image.path})
    else:
        names = sorted({image.name for image in images if image.name})
    return near_misses(_literal(pattern), names)


def _literal(pattern: Pattern) -> str:
    """Return the longest part of a pattern without special characters."""
    import re  # takes milliseconds, and most traces have matched everything

    special = r"\\.|\[[^]]*\]|[*?.^$\\]" if pattern.is_regex else r"\[[^]]*\]|[*?]|^\^|\$$"
    runs = re.split(special, pattern.text)
    return max(runs, key=len, default="")
