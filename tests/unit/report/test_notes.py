# SPDX-License-Identifier: Apache-2.0
"""The closing lines say what was not seen, what is missing, and how much there was."""

from __future__ import annotations

import pytest

from soscope.instruments.trace.filter import compile_selection
from soscope.instruments.trace.outcome import Outcome, ProgramOutcome
from soscope.model.image import IMAGE_LATE, IMAGE_MAIN, Image
from soscope.model.slot import HOOKED, REFUSED_ADDRESS_TAKEN, SLOT_JUMP_SLOT, Slot
from soscope.report.display import Display
from soscope.report.notes import notes

UNSEEN = "not seen: calls inside one image, as they go through no slot"


def image(index: int, name: str, hooked: int, left: int, flags: int = 0) -> Image:
    """Make an image with so many slots."""
    return Image(index, 0, name, f"/usr/lib/{name}", 0, 0, 0, b"", flags, hooked, left, 0, 1)


IMAGES = [
    image(0, "cat", 3, 0, IMAGE_MAIN),
    image(1, "libc.so.6", 0, 40),
    image(2, "libm.so", 0, 2),
]


def slot(symbol: str, refusal: int = HOOKED) -> Slot:
    """Make a slot of cat."""
    return Slot(
        0, 0, symbol, "", IMAGES[0], None, 0, SLOT_JUMP_SLOT, refusal, False, False, None, 0
    )


def outcome(*slots: Slot, **more: object) -> Outcome:
    """Make the end of a trace of cat."""
    program = ProgramOutcome(0, "/bin/cat", IMAGES, [slot("open"), *slots], rules_matched=[3, 1])
    made = Outcome(["cat"], compile_selection([]), status=0, programs=[program], calls=5)
    for name, value in more.items():
        setattr(made, name, value)
    return made


LAST = "5 calls through 3 slots of cat; 42 slots of 2 other images left alone"


def test_a_whole_trace_ends_with_what_cannot_be_seen_and_how_much_there_was() -> None:
    assert notes(outcome(), Display()) == [UNSEEN, f"{LAST}; complete"]


def test_quiet_is_quiet() -> None:
    assert notes(outcome(dropped=[(1, "why")]), Display(quiet=True)) == []


def test_what_is_missing_is_said_with_its_reason() -> None:
    made = outcome(dropped=[(1204, "the ring was full"), (0, "nothing"), (1, "too many threads")])
    assert notes(made, Display()) == [
        UNSEEN,
        "1,204 events dropped: the ring was full",
        "1 event dropped: too many threads",
        f"{LAST}; 1,205 dropped",
    ]


@pytest.mark.parametrize(
    ("stopped", "word"),
    [("duration", "--duration"), ("limit", "--limit"), ("full", "--when-full"), ("cut", "cut")],
)
def test_a_recording_that_ended_early_is_cut(stopped: str, word: str) -> None:
    lines = notes(outcome(stopped=stopped), Display())
    assert word in lines[-2]
    assert lines[-1] == f"{LAST}; cut"


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
    made = Outcome(["hello"], compile_selection([]), untraced=[("/bin/hello", "static")])
    assert notes(made, Display()) == [
        "/bin/hello ran untraced: it is statically linked, so its calls go through no slots"
    ]


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
    made.programs.append(ProgramOutcome(1, "/bin/b", [], [], rules_matched=[2]))
    assert notes(made, Display())[0] == UNSEEN


def test_images_that_came_late_or_not_at_all_are_named() -> None:
    made = outcome()
    made.programs[0].images = [*IMAGES, image(3, "libz.so.1", 1, 0, IMAGE_LATE)]
    made.programs[0].loader_refused = True
    made.programs[0].cut = 2
    made.programs[0].errno_known = False
    lines = notes(made, Display())
    assert lines[0] == "hooked late, after code of theirs may have run: libz.so.1"
    assert lines[1].startswith("images that were loaded later are not seen")
    assert lines[2] == "no room for 2 images or slots"
    assert lines[3].startswith("errno is not known")


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


@pytest.mark.parametrize(("hooked", "said"), [(0, False), (7, True)])
def test_times_that_overlap_are_explained(hooked: int, said: bool) -> None:
    made = outcome()
    images = [IMAGES[0], image(1, "libc.so.6", hooked, 40)]
    made.programs = [
        ProgramOutcome(0, "/bin/cat", images, [slot("open")], stats={0: (2, 2, 0, 9, 4, 5)})
    ]
    assert any("nested" in line for line in notes(made, Display())) == said
