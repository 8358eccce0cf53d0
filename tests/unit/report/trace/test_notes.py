# SPDX-License-Identifier: Apache-2.0
"""The closing lines say what was not seen, what is missing, and how much there was."""

from __future__ import annotations

import pytest

from soscope.control import outcome as cost
from soscope.control.outcome import Price, cost_lines, look_lines, waits_so_far
from soscope.instruments.trace.outcome import TraceOutcome, TraceProgramOutcome, price
from soscope.model.image import (
    HOOKED,
    IMAGE_LATE,
    IMAGE_MAIN,
    IMAGE_METHODS_UNSEEN,
    IMAGE_UNREADABLE,
    IMAGE_WRITE_REFUSED,
    REFUSED_ADDRESS_TAKEN,
    SLOT_ENTRY,
    SLOT_JUMP_SLOT,
    TracedImage,
    TracedSlot,
)
from soscope.report.trace.display import Display
from soscope.report.trace.table import document as document_of
from soscope.report.trace.text import notes
from soscope.select.filter import compile_selection
from tests.support.processes.run import besides_cost

UNSEEN = "not seen: calls inside one image, as they go through no slot"


def image(index: int, name: str, hooked: int, left: int, flags: int = 0) -> TracedImage:
    """Make an image with so many slots."""
    return TracedImage(index, 0, name, f"/usr/lib/{name}", 0, 0, 0, b"", flags, hooked, left, 0, 1)


IMAGES = [
    image(0, "cat", 3, 0, IMAGE_MAIN),
    image(1, "libc.so.6", 0, 40),
    image(2, "libm.so", 0, 2),
]


def slot(
    symbol: str,
    refusal: int = HOOKED,
    *,
    caller: int = 0,
    callee: int | None = None,
    partial: bool = False,
) -> TracedSlot:
    """Make a slot of one of the images, of cat where none is said."""
    to = None if callee is None else IMAGES[callee]
    where = (IMAGES[caller], to, 0, SLOT_JUMP_SLOT)
    return TracedSlot(0, 0, symbol, "", *where, refusal, False, False, None, 0, partial)


def outcome(*slots: TracedSlot, **more: object) -> TraceOutcome:
    """Make the end of a trace of cat."""
    program = TraceProgramOutcome(
        0, "/bin/cat", IMAGES, [slot("open"), *slots], rules_matched=[3, 1]
    )
    made = TraceOutcome(["cat"], compile_selection([]), status=0, programs=[program], calls=5)
    for name, value in more.items():
        setattr(made, name, value)
    return made


LAST = "5 calls through 3 slots of cat; 42 slots of 2 other images left alone"


def test_a_whole_trace_ends_with_how_much_there_was() -> None:
    assert notes(outcome(), Display()) == [f"{LAST}; complete: all calls from cat"]
    assert UNSEEN in notes(outcome(), Display(verbose=True))


def test_nothing_is_complete_where_nothing_was_hooked() -> None:
    """If -x names nothing, there is no slot, and no function that a breakpoint is for."""
    made = outcome(calls=0)
    made.programs[:] = [TraceProgramOutcome(0, "/bin/cat", [], [], rules_matched=[0, 0])]
    assert notes(made, Display())[-1] == "0 calls through 0 slots; nothing was hooked"


def test_calls_at_entry_points_are_no_sign_that_nothing_was_hooked() -> None:
    entry = TracedSlot(
        *(0, 0, "inside", "", None, IMAGES[0], 0, SLOT_ENTRY, HOOKED, False, False, None, 0, False)
    )
    made = outcome(calls=2, imported={"dlsym"})
    made.programs[:] = [TraceProgramOutcome(0, "/bin/cat", [], [entry])]
    assert notes(made, Display())[-1] == "2 calls at 1 entry point"
    made.imported = set()
    assert notes(made, Display())[-1] == "2 calls at 1 entry point; complete"


def unseen(*slots: TracedSlot, words: list[str], from_: list[str] | None = None) -> list[str]:
    """Return what is said to be unseen with this filter."""
    made = outcome(*slots, selection=compile_selection(words, from_))
    made.programs[0].rules_matched = [1] * len(made.selection.words)
    return [line for line in notes(made, Display()) if line.startswith("not seen")]


@pytest.mark.parametrize("words", [["malloc"], ["mal*"], ["/mal.*/"], ["malloc@libc.so.6"]])
def test_what_the_filter_names_may_be_called_inside_its_image(words: list[str]) -> None:
    assert unseen(slot("malloc", callee=1), slot("sin", callee=2), words=words) == [
        "not seen: calls of malloc inside libc.so.6, as they go through no slot"
    ]


def test_functions_of_cxx_have_the_names_that_lines_have() -> None:
    assert unseen(slot("_Znwm", callee=1), words=["_Zn*"]) == [
        "not seen: calls of operator new inside libc.so.6, as they go through no slot"
    ]


def test_functions_of_each_image_are_one_line() -> None:
    slots = [slot("malloc", callee=1), slot("free", callee=1), slot("sin", callee=2)]
    assert unseen(*slots, words=["malloc,free,sin"]) == [
        "not seen: calls of malloc, free inside libc.so.6, as they go through no slot",
        "not seen: calls of sin inside libm.so, as they go through no slot",
    ]


def test_many_functions_of_a_set_are_counted() -> None:
    slots = [slot(f"f{number}", callee=1) for number in range(7)]
    assert unseen(*slots[:6], words=["f*"])[0].startswith("not seen: calls of f0, f1, f2, f3, f4, ")
    assert unseen(*slots, words=["f*"]) == [
        "not seen: calls of 7 of these functions inside libc.so.6, as they go through no slot"
    ]


@pytest.mark.parametrize(
    ("words", "from_"),
    [
        (["malloc@MAIN"], None),
        (["malloc"], ["MAIN"]),
        (["malloc-@libc.so*"], None),
        (["*-free"], None),  # nobody named it
        (["@cat"], None),
        ([], ["all"]),
    ],
)
def test_calls_that_nobody_asked_for_are_not_missing(
    words: list[str], from_: list[str] | None
) -> None:
    assert unseen(slot("malloc", callee=1), words=words, from_=from_) == []


def test_an_image_that_calls_its_function_through_a_slot_hides_nothing() -> None:
    slots = [slot("malloc", callee=1), slot("malloc", caller=1, callee=1)]
    assert unseen(*slots, words=["malloc"]) == []


def test_a_name_that_nobody_imports_may_be_one_of_calls_inside_an_image() -> None:
    made = outcome(selection=compile_selection(["helper"]))
    made.programs[0].rules_matched = [0]
    assert UNSEEN in notes(made, Display())


def test_quiet_is_quiet() -> None:
    assert notes(outcome(dropped=[(1, "why")]), Display(quiet=True)) == []


def test_what_is_missing_is_said_with_its_reason() -> None:
    made = outcome(dropped=[(1204, "the ring was full"), (0, "nothing"), (1, "too many threads")])
    assert notes(made, Display()) == [
        "1,204 events dropped: the ring was full",
        "1 event dropped: too many threads",
        f"{LAST}; 1,205 dropped",
    ]


@pytest.mark.parametrize(
    ("stopped", "word"),
    [("duration", "--duration"), ("limit", "--max-size"), ("full", "--when-full"), ("cut", "cut")],
)
def test_a_recording_that_ended_early_says_who_wanted_that(stopped: str, word: str) -> None:
    lines = notes(outcome(stopped=stopped), Display())
    assert word in lines[-2]
    assert lines[-1] == f"{LAST}; {'cut' if word == 'cut' else f'ended by {word}'}"


def is_complete(made: TraceOutcome) -> object:
    totals = document_of(made)["totals"]
    assert isinstance(totals, dict)
    return totals["complete"]


LACKING = {
    "dropped": {"dropped": [(1, "why")]},
    "duration": {"stopped": "duration"},
    "limit": {"stopped": "limit"},
    "full": {"stopped": "full"},
    "cut": {"stopped": "cut"},
    "untraced": {"untraced": [("/bin/su", "setuid")]},
}
PROGRAM_LACKING = {
    "cut": {"cut": 1},
    "loader": {"loader_refused": True},
    "refused": {"slots": [slot("memcpy", REFUSED_ADDRESS_TAKEN)]},
    "lower bound": {"slots": [slot("memcpy", partial=True)]},
    "late": {"images": [*IMAGES, image(3, "late.so", 1, 0, IMAGE_LATE)]},
    "unreadable": {"images": [*IMAGES, image(3, "odd.so", 0, 0, IMAGE_UNREADABLE)]},
    "unwritable": {"images": [*IMAGES, image(3, "odd.so", 0, 0, IMAGE_WRITE_REFUSED)]},
    "methods": {"images": [*IMAGES, image(3, "odd.so", 0, 0, IMAGE_METHODS_UNSEEN)]},
}


@pytest.mark.parametrize("lacking", LACKING.values(), ids=LACKING)
def test_what_lacks_anything_is_not_complete(lacking: dict[str, object]) -> None:
    made = outcome(**lacking)
    last = notes(made, Display())[-1].rpartition("; ")[2]
    assert last == ", ".join(made.shortfalls) != ""
    assert not last.startswith("complete")
    assert is_complete(made) is False


@pytest.mark.parametrize("lacking", PROGRAM_LACKING.values(), ids=PROGRAM_LACKING)
def test_a_program_that_lacks_calls_is_not_complete(lacking: dict[str, object]) -> None:
    made = outcome()
    for name, value in lacking.items():
        setattr(made.programs[0], name, value)
    assert notes(made, Display())[-1].endswith("; not complete")
    assert is_complete(made) is False


def test_only_what_lacks_nothing_is_complete() -> None:
    assert is_complete(outcome()) is True


def test_functions_that_are_not_hooked_are_named() -> None:
    taken = [slot(name, REFUSED_ADDRESS_TAKEN) for name in "abcdefgh"]
    lines = notes(outcome(*taken), Display())
    assert lines[0] == (
        "not hooked in cat (address taken, calls cannot be told from other uses of it): "
        "a, b, c, d, e, f and 2 more"
    )
    verbose = notes(outcome(*taken), Display(verbose=True))
    assert "a, b, c, d, e, f, g, h" in verbose[0]
    assert "libc.so.6: 0 slots hooked, 40 left alone, 0 refused" in verbose


def test_many_programs_say_it_once() -> None:
    made = outcome(slot("a", REFUSED_ADDRESS_TAKEN))
    made.programs += outcome(*(slot(name, REFUSED_ADDRESS_TAKEN) for name in "ab")).programs
    lines = [line for line in notes(made, Display()) if line.startswith("not hooked")]
    assert [line.rpartition(": ")[2] for line in lines] == ["a, b"]


def test_pointers_from_dlsym_are_not_seen() -> None:
    assert "not seen: calls through pointers that dlsym gave to cat" in notes(
        outcome(slot("dlsym")), Display()
    )
    made = outcome(imported={"dlsym", "read"})
    assert "not seen: calls through pointers that dlsym gave" in notes(made, Display())


def test_a_static_program_is_said_and_nothing_else() -> None:
    made = TraceOutcome(["hello"], compile_selection([]), untraced=[("/bin/hello", "static")])
    said = "it is statically linked, so its calls go through no slots:"
    next_ = "strace shows its system calls, soscope prof run its functions by samples"
    assert notes(made, Display()) == [f"/bin/hello ran untraced: {said} {next_}"]


def test_programs_of_one_reason_are_one_line() -> None:
    made = outcome(untraced=[("a", "not followed"), ("b", "not followed"), ("c", "odd reason")])
    assert notes(made, Display())[:2] == [
        "a, b ran untraced: what a command starts is followed with -f",
        "c ran untraced: odd reason",
    ]


def test_a_filter_that_matched_nothing_is_named() -> None:
    made = outcome(selection=compile_selection(["opne", "read"]), imported={"open", "read"})
    made.programs[0].rules_matched = [0, 2]
    assert notes(made, Display())[0] == "-e opne matches no symbol; did you mean open?"


def test_a_word_that_one_program_matched_is_not_named() -> None:
    made = outcome(selection=compile_selection(["open"]))
    made.programs[0].rules_matched = [0]
    made.programs.append(TraceProgramOutcome(1, "/bin/b", [], [], rules_matched=[2]))
    assert notes(made, Display()) == [f"{LAST}; complete: all calls of these functions from cat"]


def test_images_that_came_late_or_not_at_all_are_named() -> None:
    made = outcome()
    made.programs[0].images = [*IMAGES, image(3, "libz.so.1", 1, 0, IMAGE_LATE)]
    made.programs[0].loader_refused = True
    made.programs[0].cut = 2
    made.programs[0].errno_known = False
    made.programs[0].exits_known = False
    lines = notes(made, Display())
    assert lines[0] == "hooked late, after code of theirs may have run: libz.so.1"
    assert lines[1].startswith("images that were loaded later are not seen")
    assert lines[2] == "no room for 2 images or slots: choose fewer with -e, --from or -l"
    assert lines[3].startswith("errno is not known")
    assert lines[4].startswith("results and times are not known in ")


def test_images_whose_slots_found_no_room_are_named_and_the_trace_is_not_complete() -> None:
    made = outcome(slot("free", REFUSED_ADDRESS_TAKEN))
    full = TracedImage(3, 0, "libfull.so", "/usr/lib/libfull.so", 0, 0, 0, b"", 0, 2, 0, 40, 1)
    refused = TracedImage(0, 0, "cat", "/usr/bin/cat", 0, 0, 0, b"", IMAGE_MAIN, 3, 0, 1, 1)
    made.programs[0].images = [refused, *IMAGES[1:], full]
    made.programs[0].cut = 40
    lines = notes(made, Display())
    way_out = "choose fewer with -e, --from or -l"
    assert f"not hooked, no room for 40 slots of libfull.so: {way_out}" in lines
    assert lines[-1].endswith("; not complete")
    assert not any("no room" in line and "cat" in line for line in lines)


def test_counted_calls_are_summed_where_there_is_no_stream() -> None:
    made = outcome(calls=None)
    made.programs[0].counts = {0: 7}
    assert notes(made, Display())[-1].startswith("7 calls through")


def test_calls_that_nobody_counted_are_not_said_to_be_none() -> None:
    last = notes(outcome(calls=None), Display())[-1]
    assert last.startswith("3 slots of cat hooked; 42 slots of 2 other images")


def test_a_recording_is_named_with_what_to_type_next() -> None:
    lines = notes(outcome(record="run.sosr"), Display())
    assert "recording: run.sosr; show it: soscope report run.sosr" in lines


def test_what_taking_times_has_cost_is_said_of_the_whole() -> None:
    made = outcome()
    timed = TraceProgramOutcome(
        0, "/bin/cat", [IMAGES[0]], [slot("open")], call_ticks=60,
        stats={0: (90_000, 80_000, 0, 900_000, 4, 5000, 480_000)},
    )  # fmt: skip
    made.programs = [timed]
    made.cost = Price(24_000_000, {cost.IMAGES: 100_000})
    price(made.cost, [timed], 0.5, None)
    (line,) = [line for line in notes(made, Display()) if "cost" in line]
    assert line.startswith("-c cost the program at least 30 ns a call, 2.5 ms in all, 10.4 % of")
    timed.call_ticks = 0  # an agent that could not measure it
    made.cost = Price(24_000_000)
    price(made.cost, [timed], 0.5, None)
    assert not [line for line in notes(made, Display(verbose=True)) if "cost" in line]
    assert not notes(made, Display(quiet=True))


def test_what_records_have_cost_is_said_beside_the_time_the_program_ran() -> None:
    made = outcome(calls=40_000)
    traced = TraceProgramOutcome(
        0, "/bin/cat", [IMAGES[0]], [slot("open")], call_ticks=48, records=True
    )
    made.programs, made.cost = [traced], Price(96_000_000)
    price(made.cost, [traced], 0.5, 80_000)  # each call has kept a string
    (line,) = [line for line in notes(made, Display()) if "cost" in line]
    each, everything, share = line.split(", ")
    assert each == "tracing cost the program at least 24 ns a call"
    assert (everything, share) == ("1.92 ms in all", "2 % of the time it ran")
    made.cost.ran_ns = 193_000_000  # less than one in a hundred is worth no line
    assert not [line for line in notes(made, Display()) if "cost" in line]
    assert [line for line in notes(made, Display(verbose=True)) if "cost" in line]
    made.cost = None  # a recording of an earlier version
    assert not [line for line in notes(made, Display()) if "cost" in line]
    counted = TraceProgramOutcome(
        0, "/bin/cat", [IMAGES[0]], [slot("open")], call_ticks=1, counts={0: 7}
    )
    made.programs, made.cost = [counted], Price(0)
    price(made.cost, [counted], 0.5, None)
    (line,) = [line for line in notes(made, Display(verbose=True)) if "cost" in line]
    assert line == "counting cost the program less than 1 ns a call, 4 ns in all"


def test_what_was_measured_for_calls_is_added_to_what_an_empty_call_takes() -> None:
    traced = TraceProgramOutcome(
        0, "/bin/cat", [IMAGES[0]], [slot("open")], call_ticks=48, usual_ticks=60, records=True
    )
    cost = Price(96_000_000)
    cost.calls_ns = 700_000.0
    price(cost, [traced], 0.5, 9_000)
    assert cost.call_ns == 24
    assert cost.calls_ns == 700_000 + 30 * 9_000


def test_the_start_is_told_apart_where_it_is_a_tenth_of_the_cost() -> None:
    spent = Price(5_000_000_000, {cost.START: 200_000_000, cost.CHUNKS: 800_000_000})
    (line,) = cost_lines(spent, "tracing")
    assert line.endswith("1 s in all, 20 % of the time it ran, 200 ms of it at the start")
    spent.parts[cost.START] = 80_000_000
    (line,) = cost_lines(spent, "tracing")
    assert line.endswith("17.6 % of the time it ran")


def test_what_the_host_took_of_the_processors_is_said_from_a_hundredth_on() -> None:
    spent = Price(5_000_000_000, {cost.CHUNKS: 800_000_000})
    spent.stolen_ns, spent.stolen_of_ns = 210_000_000, 10_000_000_000
    again = Price.of(spent.document())
    assert again is not None
    assert cost_lines(again, "tracing")[1:] == [
        "the host took 2.1 % of the processors' time: times are longer by as much"
    ]
    spent.stolen_ns = 90_000_000
    assert len(cost_lines(spent, "tracing")) == 1


def test_the_largest_wait_is_named_with_what_helps() -> None:
    made = outcome(calls=40_000)
    made.cost = Price(11_400_000_000, {cost.PRINT: 11_300_000_000, cost.START: 30_000_000})
    made.cost.faster_ns = 310_000_000
    (line,) = [line for line in notes(made, Display()) if "waited" in line]
    assert line == (
        "the program waited 11.3 s of 11.4 s for soscope to print; --record FILE takes about 310 ms"
    )
    made.cost = Price(4_000_000_000, {cost.DISK: 5_000_000_000, cost.RING: 1_000_000_000})
    (line,) = [line for line in notes(made, Display()) if "waited" in line]
    assert line.startswith("threads of the program waited 6 s in 4 s, 5 s of it for the disk; ")
    made.cost = Price(4_000_000_000, {cost.START: 900_000_000})  # that is so each time
    assert not [line for line in notes(made, Display()) if "waited" in line]


def test_complete_names_whose_calls_and_stands_beside_nothing_unseen() -> None:
    named = outcome(selection=compile_selection(["open"]))
    named.programs[0].rules_matched = [1]
    assert notes(named, Display())[-1] == f"{LAST}; complete: all calls of these functions from cat"
    lines = notes(outcome(), Display(verbose=True))
    assert any(line.startswith("not seen") for line in lines)
    assert lines[-1] == f"{LAST}; all calls from cat through slots"


@pytest.mark.parametrize(
    ("main", "library", "left", "is_started"),
    [
        ("ruby3.1", "libruby-3.1.so.3.1", 1626, True),
        ("R", "libR.so", 900, True),
        ("node", "libnode.so.108", 4000, True),
        ("ruby3.1", "libruby-3.1.so.3.1", 12, False),  # as little as the program
        ("ruby3.1", "librubber.so", 1626, False),
        ("cat", "libc.so.6", 1626, False),
    ],
)
def test_a_program_that_only_starts_a_library_gets_a_hint(
    main: str, library: str, left: int, *, is_started: bool
) -> None:
    images = [image(0, main, 9, 0, IMAGE_MAIN), image(1, library, 0, left)]
    program = TraceProgramOutcome(0, main, images, [slot("open")], rules_matched=[3, 1])
    hint = f"{main} only starts {library}: --from all shows its calls"
    for words in ([], ["open"]):
        selection = compile_selection(words)
        made = TraceOutcome([main], selection, status=0, programs=[program], calls=5)
        assert (hint in notes(made, Display())) == (is_started and not words)


def test_notes_on_cost_are_told_from_all_others() -> None:
    waits = Price(2_000_000_000, {cost.PRINT: 1_500_000_000, cost.DISK: 100_000_000})
    several = Price(1_000_000_000, {cost.LOOK: 3_000_000_000})
    said = [*cost_lines(waits, "recording"), *cost_lines(several, "-c"), *look_lines(several)]
    said.append(waits_so_far(waits))
    assert len(said) == 5
    printed = "".join(f"soscope: {line}\n" for line in said)
    assert besides_cost(printed + "".join(f"soscope: 'x.sosr': {line}\n" for line in said)) == ""
    assert not any(map(besides_cost, said))
    others = "soscope: 7 events lost: the program waited for nobody\nthe program: waited\n"
    assert besides_cost(printed + others + printed) == others
