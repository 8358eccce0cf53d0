# SPDX-License-Identifier: Apache-2.0
"""Folded stacks, as flamegraph.pl, inferno and speedscope read them: `a;b;c WEIGHT`.

A stack is a chain of calls that are open at the same time. Its root is the program, and a frame
is "callee`symbol". The weight is the self time in nanoseconds, or the number of calls. If the
recording has the calls' own stacks, their frames precede each call. A profile may have samples,
too: then a file has either calls or samples.
"""

from __future__ import annotations

from soscope.export.calls import ExportStacks, stacks_of
from soscope.export.profiles import (
    NANOSECONDS,
    ROOT,
    WEIGHS_CALLS,
    WEIGHS_SAMPLES,
    ExportSettings,
    forest_of,
)
from soscope.frames.cppnames import CppNames
from soscope.frames.names import Key, frame_name, frame_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from soscope.export.profiles import Forest
    from soscope.instruments.prof.model import Profile
    from soscope.instruments.trace.replay import Replay
    from soscope.model.image import TracedSlot
    from soscope.recording.columns import Columns
    from soscope.recording.names import Programs

VIEWER = "flamegraph.pl FILE > FILE.svg draws it"


def export(replay: Replay, write: Callable[[bytes], object], settings: ExportSettings) -> list[str]:
    """Write a line for each stack; return notes."""
    from soscope.recording.columns import batches

    cpp = CppNames()
    stacks = _Stacks(replay.recording.programs, cpp, stacks_of(replay, cpp))
    for columns in batches(replay.recording):
        stacks.add(columns)
    by_calls = settings.weight == WEIGHS_CALLS
    for line in stacks.lines(by_calls=by_calls):
        write(line.encode("utf-8", "surrogateescape"))
    notes = [] if cpp.lacks is None else [cpp.lacks]
    if stacks.untimed and not by_calls:
        notes.append(f"{stacks.untimed:,} calls without a known duration weigh nothing")
    return notes


_Frame = tuple[int, str]  # program, text


def export_profile(
    profile: Profile, write: Callable[[bytes], object], settings: ExportSettings
) -> list[str]:
    """Write a line for each stack; return notes."""
    forest = forest_of(profile)
    weight = settings.weight or _best(forest)
    kind = WEIGHS_SAMPLES if weight == WEIGHS_SAMPLES else WEIGHS_CALLS
    root = frame_name(forest.program) or "?"
    merged: dict[str, int] = {}
    for tree in forest.trees:
        if tree.kind != kind:
            continue
        texts: list[str] = []
        weights = tree.self_ns if weight == NANOSECONDS else tree.counts
        for frame, parent, own in zip(tree.frames, tree.parents, weights, strict=True):
            below = root if parent == ROOT else texts[parent]
            texts.append(f"{below};{forest.frames[frame].text()}")
            if own:
                merged[texts[-1]] = merged.get(texts[-1], 0) + own
    for text in sorted(merged):
        write(f"{text} {merged[text]}\n".encode("utf-8", "surrogateescape"))
    notes = [f"what weighs are {_MEANINGS[weight]}"]
    others = [
        f"--weight {other}"
        for other, is_there in (
            (NANOSECONDS, forest.is_timed(WEIGHS_CALLS)),
            (WEIGHS_CALLS, forest.has(WEIGHS_CALLS)),
            (WEIGHS_SAMPLES, forest.has(WEIGHS_SAMPLES)),
        )
        if is_there and other != weight
    ]
    if others:
        notes[0] += f"; there is more with {' and '.join(others)}"
    return notes + forest.notes()


_MEANINGS = {
    NANOSECONDS: "nanoseconds of self time",
    WEIGHS_CALLS: "calls",
    WEIGHS_SAMPLES: "samples",
}


def _best(forest: Forest) -> str:
    if forest.is_timed(WEIGHS_CALLS):
        return NANOSECONDS
    return WEIGHS_SAMPLES if forest.has(WEIGHS_SAMPLES) else WEIGHS_CALLS


class _Stacks:
    """Weights of stacks.

    A stack is stored as the stack below and one more function or frame of `frames`.
    """

    def __init__(self, programs: Programs, cpp: CppNames, frames: ExportStacks | None) -> None:
        self._programs = programs
        self._cpp = cpp
        self._frames = frames
        # (stack below or -1, function or frame) -> number
        self._numbers: dict[tuple[int, int | _Frame], int] = {}
        self._calls: list[int] = []
        self._ns: list[int] = []
        # thread -> stack, is its duration known, function and own stack of each open call
        self._open: dict[tuple[int, int, int], list[tuple[int, bool, int, int]]] = {}
        self.untimed = 0

    def add(self, columns: Columns) -> None:
        """Add calls, in the order of their times."""
        numbers, calls, ns = self._numbers, self._calls, self._ns
        threads = zip(
            columns.program.tolist(), columns.pid.tolist(), columns.tid.tolist(), strict=True
        )
        functions = (columns.program << 28 | columns.slot).tolist()
        rest = zip(
            functions,
            columns.depth.tolist(),
            columns.duration_ns.tolist(),
            columns.stack.tolist(),
            strict=True,
        )
        for thread, (function, depth, duration, stack) in zip(threads, rest, strict=True):
            open_calls = self._open.get(thread)
            if open_calls is None:
                open_calls = self._open[thread] = []
            del open_calls[depth:]
            outer, has_time, *around = open_calls[-1] if open_calls else (-1, False)
            below = outer if self._frames is None else self._under(outer, thread, stack, around)
            key = below, function
            number = numbers.get(key)
            if number is None:
                number = self._new(key)
            calls[number] += 1
            is_known = duration >= 0
            if is_known:
                ns[number] += duration
                if has_time:
                    ns[outer] -= duration
            else:
                self.untimed += 1
            open_calls.append((number, is_known, function, stack))

    def _new(self, key: tuple[int, int | _Frame]) -> int:
        number = self._numbers[key] = len(self._numbers)
        self._calls.append(0)
        self._ns.append(0)
        return number

    def _under(
        self, below: int, thread: tuple[int, int, int], stack: int, around: list[int]
    ) -> int:
        """Return the stack below a call: the call around it, and the frames between them."""
        assert self._frames is not None
        program, pid, _ = thread
        key: Key = program, pid, stack
        if around:
            function, outer = around
            slot = self._programs[program].slot(function & 0xFFF_FFFF)
            frames = self._frames.between(key, (program, pid, outer), slot)
        else:
            frames = self._frames.whole(key)
        for frame in frames:
            step = below, (program, frame_text(frame))
            number = self._numbers.get(step)
            below = self._new(step) if number is None else number
        return below

    def lines(self, *, by_calls: bool) -> Iterator[str]:
        """Yield a line for each stack with a weight, in the order of their texts."""
        slots: dict[int, TracedSlot] = {}
        texts: list[str] = []
        merged: dict[str, int] = {}
        for (below, function), number in self._numbers.items():
            if isinstance(function, tuple):
                program_number, text = function
                root = self._root(program_number) if below < 0 else texts[below]
                texts.append(f"{root};{text}")
                continue
            slot = slots.get(function)
            if slot is None:
                program = self._programs[function >> 28]
                slot = slots[function] = program.slot(function & 0xFFF_FFFF)
            root = self._root(function >> 28) if below < 0 else texts[below]
            callee = slot.callee.name if slot.callee else "?"
            texts.append(
                f"{root};{frame_name(callee)}`{frame_name(self._cpp.written(slot.symbol))}"
            )
            weight = self._calls[number] if by_calls else max(0, self._ns[number])
            if weight:
                merged[texts[number]] = merged.get(texts[number], 0) + weight
        for text in sorted(merged):
            yield f"{text} {merged[text]}\n"

    def _root(self, program: int) -> str:
        return frame_name(self._programs[program].path.rpartition("/")[2]) or "?"
