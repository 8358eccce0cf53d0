# SPDX-License-Identifier: Apache-2.0
"""The lines of a stretch are those of its calls, one after the other, to the byte."""

from __future__ import annotations

import itertools
import os
import random
import struct
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from soscope.instruments.trace.choice import FAILURES, Choice
from soscope.instruments.trace.filters import choose
from soscope.instruments.trace.outcome import TraceOutcome
from soscope.model.call import (
    DATA_NULL,
    DATA_TRUNCATED,
    DATA_UNREADABLE,
    ERRNO_ITEM,
    VALUES_ITEM,
    Event,
    Stretch,
    WholeCall,
)
from soscope.prototypes import load
from soscope.recording.drain import Feed
from soscope.recording.sink import Tee
from soscope.recording.stream import Stream
from soscope.recording.units import key_of
from soscope.report.output import Output
from soscope.report.trace import stretchtext
from soscope.report.trace.display import Display
from soscope.report.trace.stretchtext import StretchText
from soscope.report.trace.text import TextListener
from soscope.report.trace.tree import TreeListener
from soscope.select.filter import compile_selection
from soscope.wire import layout
from tests.unit.recording.fake import FakeAgent, FakeSampler, FakeThread, data_units, make_block

PROTOTYPES = load()
VALUES = [0, 1, 7, 64, 999_999, 1_000_000, 0x5000, 0x7FFF_FFFF_F000, 1 << 31, 1 << 32, 1 << 63]
VALUES += [-one & (1 << 64) - 1 for one in VALUES[1:]]
NAMES = [
    "labs",
    "malloc",
    "free",
    "getpid",
    "strlen",
    "strtol",
    "snprintf",
    "vsnprintf",
    "vsprintf",
    "vfprintf",
    "sprintf",
    "fprintf",
    "sscanf",
    "vsscanf",
    "fgets",
    "recv",
    "strftime",
    "readlink",
    "frexp",
    "fopen",
    "stat",
    "pow",
    "memcpy",
    "read",
    "write",
    "open",
    "close",
    "printf",
    "sin",
    "isatty",
    "signal",
    "toupper",
    "pthread_mutex_lock",
    "dlsym",
    "nobody_knows_this",
]
TEXTS = [b"", b"/etc/hostname", b'"a\\\n', b"x" * 24, b"y" * 25, b"\x01\xff" * 300, b"%5$d", b"%"]
TEXTS += [b"%d %s\n", b"%ld of %s%%", b"%.*f %s %c", b"%Lf%g", b"%ls %hhd %x %o %p"]
ERRORS = {"malloc": layout.ERROR_NULL, "open": layout.ERROR_INT_NEGATIVE}
DISPLAYS = [
    {"time": time, "durations": durations, "string_limit": limit, "several": several}
    for time, durations, limit, several in (
        (0, False, 32, False),
        (0, True, 5, True),
        (1, False, 32, True),
        (2, True, 100, False),
        (3, False, 0, False),
        (3, True, 32, True),
    )
]


def packed(words: list[int]) -> bytes:
    """Make the unit of the second to the sixth word, of 48 bits each."""
    low = [word & (1 << 48) - 1 for word in words]
    payload = b"".join(word.to_bytes(6, "little") for word in low[:4])
    commit = layout.UNIT_DATA << 28 | layout.DATA_PACKED << 24 | low[4] >> 32
    return layout.DATA.struct.pack(commit, low[4] & 0xFFFF_FFFF, payload)


class Program:
    """Calls functions with all kinds of arguments, decoded both ways."""

    def __init__(self, seed: int, *, nests: bool = False, most: int = 3) -> None:
        chance = random.Random(seed)
        self.choice = chance.choice
        # with functions of all kinds, whatever is declared
        names = NAMES + chance.sample(sorted(PROTOTYPES.names()), 40)
        self.block = make_block(64)
        agent = FakeAgent(self.block)
        agent.image("program", flags=layout.IMAGE_MAIN)
        self.slots = [agent.slot(name, error_rule=ERRORS.get(name, 0)) for name in names]
        self.open: dict[int, list[tuple[int, int]]] = {}  # slots and sp, by thread
        self.alike: dict[object, list[bytes]] = {}  # data of one shape
        self.threads = [agent.thread(100, tid) for tid in (100, 101)]
        plain, stretched = Stream(), Stream(stretches=True)
        feed = Feed(Tee(plain, stretched), FakeSampler())
        feed.add(self.block, "/bin/program", 100)
        for _ in range(40):
            thread = self.choice(self.threads)
            thread.compact = self.choice((True, True, False))
            thread.tsc = max(one.tsc for one in self.threads)
            if nests:
                self.nest(thread)
            for _ in range(self.choice(range(20))):
                slot, data, after = self.choice(self.slots), self.data(), self.after()
                alike = self.alike.setdefault(key_of(data, b""), [])
                alike.append(data)
                for _ in range(self.choice((1, 1, most))):  # calls of one shape
                    self.call(thread, slot, data, self.choice((after, b"", b"")))
                    data = self.choice((data, self.choice(alike)))
        feed.finish()
        self.plain = plain.take() + plain.finish()
        self.stretched = stretched.take() + stretched.finish()
        feed.close()
        self.block.close()

    def nest(self, thread: FakeThread) -> None:
        """Begin or end a call around those that follow."""
        open_ = self.open.setdefault(thread.tid, [])
        if open_ and self.choice((1, 0, 0)) == 1:
            thread.last = None  # its entry is handed over already
            thread.leave(*open_.pop(), result=self.choice(VALUES))
        elif len(open_) < 4:
            open_.append((self.choice(self.slots), 2000 - 100 * len(open_)))
            thread.enter(*open_[-1], arg0=self.choice(VALUES))

    def call(self, thread: FakeThread, slot: int, data: bytes, after: bytes) -> None:
        thread.enter(slot, 1000, arg0=self.choice(VALUES), data=data)
        thread.tsc += self.choice((0, 3, 70_000, 1 << 24))
        thread.leave(slot, 1000, result=self.choice(VALUES), errno=self.choice((0, 2)), data=after)

    def data(self) -> bytes:
        choice = self.choice
        words = [choice(VALUES) for _ in range(5)]
        if choice((True, False, False)):  # enough for any format
            kept = data_units(layout.DATA_WORDS, 1, struct.pack("<5Q", *words))
            kept += data_units(layout.DATA_FLOATS, 0, struct.pack("<2d", 2.5, -1e300))
            kept += data_units(layout.DATA_STACK, 0, struct.pack("<5Q", *words))
            return kept + self.strings(8) + self.values()
        kept = choice(
            (
                b"",
                packed(words),
                data_units(layout.DATA_WORDS, 1, struct.pack("<5Q", *words)),
                data_units(layout.DATA_WORDS, 1, struct.pack("<1Q", words[0])),
            )
        )
        if choice((True, False)):
            return kept
        kept += self.strings(choice((2, 6))) + self.values()
        if choice((True, False)):
            kept += data_units(layout.DATA_STACK, 0, struct.pack("<4Q", *words[1:]))
        if choice((True, False)):
            kept += data_units(layout.DATA_FLOATS, 0, struct.pack("<d", 2.5))
        if choice((True, False)):
            kept += data_units(layout.DATA_BYTES, ERRNO_ITEM, struct.pack("<i", 2))
        return kept

    def values(self) -> bytes:
        """Make what a va_list had, at times."""
        choice = self.choice
        words = [choice(VALUES) for _ in range(choice((0, 1, 3, 4, 8)))]
        data = struct.pack(f"<{len(words)}Q", *words)
        kept = data_units(layout.DATA_BYTES, VALUES_ITEM, data)
        return choice((b"", kept, kept))

    def strings(self, most: int) -> bytes:
        kept = b""
        for item in range(most):
            if self.choice((True, True, False)):
                text = self.choice(TEXTS)
                flags = self.choice((0, 0, 0, DATA_TRUNCATED, DATA_NULL, DATA_UNREADABLE))
                kept += data_units(layout.DATA_STRING, item, text, flags)
        return kept

    def after(self) -> bytes:
        return self.choice((self.strings(3), self.strings(3), self.data(), self.stored()))

    def stored(self) -> bytes:
        """Make what a call of scanf may have stored."""
        kept = b""
        for item in range(1, 6):
            data = self.choice((b"\1\0\0\xff", b"\2" * 8, b"\0\0\0\0\0\0\0\x80\xff\x3f", b""))
            flags = self.choice((0, 0, 0, 0, DATA_TRUNCATED, DATA_UNREADABLE))
            kind = self.choice((layout.DATA_BYTES, layout.DATA_STRING))
            if data or self.choice((True, False)):
                kept += data_units(kind, item, data, flags)
        return kept


def written(
    path: Path,
    events: list[Event],
    display: dict[str, int],
    *,
    each: int,
    of: type[TextListener] = TextListener,
    choice: Choice | None = None,
) -> bytes:
    """Return what a listener writes of events, `each` of them at once."""
    output = Output.open(os.fspath(path))
    output.begin()
    lines = of(output, Display(**display))  # type: ignore[arg-type]  # as in DISPLAYS
    assert lines.takes_stretches
    listener = choose(lines, choice)
    listener.begin(PROTOTYPES, compile_selection([], ["all"]))
    for at in range(0, len(events), each):
        listener.events(events[at : at + each])
    listener.end(TraceOutcome([], compile_selection([])))
    output.close()
    return path.read_bytes()


@pytest.mark.every(3)
@pytest.mark.parametrize("seed", range(8))
def test_each_line_is_that_of_the_events(seed: int, tmp_path: Path) -> None:
    program = Program(seed)
    stretches = [one for one in program.stretched if isinstance(one, Stretch)]
    assert sum(len(one.calls) for one in stretches) > 50
    for number, display in enumerate(DISPLAYS):
        expected = written(tmp_path / "plain", program.plain, display, each=100)
        found = written(tmp_path / f"{number}", program.stretched, display, each=7)
        assert found == expected


@pytest.mark.every(2)
@pytest.mark.parametrize("seed", range(4))
def test_calls_inside_of_others_are_as_deep_in_a_tree(seed: int, tmp_path: Path) -> None:
    program = Program(seed, nests=True)
    depths = {one.depth for one in program.stretched if isinstance(one, Stretch)}
    assert len(depths) > 2
    choices = [None, Choice(slower_ns=1000), Choice(slower_ns=10**9), Choice(ends=FAILURES)]
    for number, (display, choice) in enumerate(itertools.product(DISPLAYS, choices)):
        tree = partial(written, of=TreeListener, choice=choice)
        expected = tree(tmp_path / "plain", program.plain, display, each=100)
        assert tree(tmp_path / str(number), program.stretched, display, each=7) == expected


def test_what_never_repeats_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program(7)
    expected = written(tmp_path / "plain", program.plain, DISPLAYS[0], each=100)
    monkeypatch.setattr(stretchtext, "_MOST", 3)
    monkeypatch.setattr(stretchtext, "_FORGET", 50)
    assert written(tmp_path / "out", program.stretched, DISPLAYS[0], each=2) == expected


@pytest.mark.every(3)
@pytest.mark.parametrize("seed", range(8))
def test_calls_of_one_shape_are_shown_at_once(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(seed, most=12)
    expected = written(tmp_path / "plain", program.plain, DISPLAYS[0], each=100)
    at_once = 0

    def lefts(form: stretchtext._Form, calls: list[WholeCall]) -> list[str] | None:
        nonlocal at_once
        found = real(form, calls)
        at_once += len(found or ())
        return found

    real = stretchtext._Form._lefts
    monkeypatch.setattr(stretchtext._Form, "_lefts", lefts)
    monkeypatch.setattr(StretchText, "_forget_in_time", lambda of: setattr(of, "_keeps", False))
    assert written(tmp_path / "out", program.stretched, DISPLAYS[0], each=7) == expected
    assert at_once > 100


def test_what_is_kept_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program(99)
    expected = written(tmp_path / "plain", program.plain, DISPLAYS[1], each=100)
    monkeypatch.setattr(stretchtext, "_MOST", 10)
    monkeypatch.setattr(stretchtext, "_FORGET", 50)
    made: list[int] = []

    class Counted(stretchtext._Form):
        """Counts how often the look of a slot's calls is found out."""

        def __init__(self, *words: Any) -> None:
            made.append(1)
            super().__init__(*words)

    monkeypatch.setattr(stretchtext, "_Form", Counted)
    assert written(tmp_path / "out", program.stretched, DISPLAYS[1], each=100) == expected
    assert len(made) > 2 * len(NAMES)
