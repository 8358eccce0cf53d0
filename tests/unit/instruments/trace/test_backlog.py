# SPDX-License-Identifier: Apache-2.0
"""Lines come out in the order in which they began, whatever memory they may take."""

from __future__ import annotations

from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from soscope.instruments.trace.backlog import Backlog
from soscope.model.call import NOTHING, Entry
from soscope.model.image import HOOKED, SLOT_JUMP_SLOT, TracedSlot
from tests.support.processes.leftovers import at_end

SLOT = TracedSlot(0, 0, "f", "", None, None, 0, SLOT_JUMP_SLOT, HOOKED, False, False, None, 0)


def entry() -> Entry:
    """Make a call."""
    return Entry(1, 1, 1, SLOT, 0, 0, NOTHING, False)


def test_lines_wait_for_the_call_before_them() -> None:
    out: list[str] = []
    backlog = Backlog(out.append)
    outer, inner = entry(), entry()
    backlog.add("a\n")
    backlog.open(outer)
    backlog.open(inner)
    backlog.close(inner, "inner\n")
    backlog.add("b\n")
    backlog.write()
    assert "".join(out) == "a\n"
    assert backlog.still_open() == [outer]
    backlog.close(outer, "outer\n")
    assert not backlog.is_open(outer)
    backlog.write()
    assert "".join(out) == "a\nouter\ninner\nb\n"


def test_at_the_end_open_calls_have_no_line() -> None:
    out: list[str] = []
    backlog = Backlog(out.append)
    backlog.open(entry())
    backlog.add("behind\n")
    backlog.write(everything=True)
    assert "".join(out) == "behind\n"


# What happens: a line, a call that begins, the end of one of the open calls, a write.
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.text(alphabet="xyé", max_size=30)),
        st.tuples(st.just("open"), st.just("")),
        st.tuples(st.just("close"), st.text(alphabet="ab", max_size=30)),
        st.tuples(st.just("write"), st.just("")),
    ),
    max_size=60,
)


@settings(max_examples=200)
@given(ACTIONS, st.integers(0, 5), st.integers(0, 60), st.randoms(use_true_random=False))
def test_the_order_is_kept_however_little_memory_there_is(
    actions: list[tuple[str, str]], most_pieces: int, most_text: int, random: object
) -> None:
    """Compare with a list in which every line has its place from the beginning."""
    out: list[str] = []
    backlog = Backlog(out.append, most_pieces=most_pieces, most_text=most_text)
    # Hypothesis may end an example in the middle; then the file is still open.
    at_end(partial(backlog.write, everything=True))
    expected: list[str | None] = []
    places: dict[Entry, int] = {}
    for what, text in actions:
        if what == "add":
            backlog.add(f"{text}\n")
            expected.append(f"{text}\n")
        elif what == "open":
            call = entry()
            backlog.open(call)
            places[call] = len(expected)
            expected.append(None)
        elif what == "close" and places:
            # random is a random.Random here
            call = random.choice(list(places))  # type: ignore[attr-defined]
            backlog.close(call, f"{text}\n")
            expected[places.pop(call)] = f"{text}\n"
        elif what == "write":
            backlog.write()
            ready = expected[: expected.index(None)] if None in expected else expected
            assert "".join(out) == "".join(line or "" for line in ready)
    backlog.write(everything=True)
    assert "".join(out) == "".join(line or "" for line in expected)


def test_long_waits_go_to_a_file_and_not_to_memory() -> None:
    out: list[str] = []
    backlog = Backlog(out.append, most_text=1000)
    outer = entry()
    backlog.open(outer)
    for number in range(2000):
        backlog.add(f"line {number}\n")
        if number % 10 == 0:
            backlog.write()
    assert backlog._text < 1200
    assert len(backlog._pieces) < 120
    backlog.close(outer, "first\n")
    backlog.write()
    assert "".join(out).splitlines() == ["first", *(f"line {n}" for n in range(2000))]
    backlog.write(everything=True)  # it closes the file


def test_without_a_place_for_the_file_lines_wait_in_memory() -> None:
    out: list[str] = []
    backlog = Backlog(out.append, most_text=10)
    backlog._file_works = False
    outer = entry()
    backlog.open(outer)
    for number in range(100):
        backlog.add(f"line {number}\n")
        backlog.write()
    backlog.close(outer, "first\n")
    backlog.write()
    assert len("".join(out).splitlines()) == 101
