# SPDX-License-Identifier: Apache-2.0
"""Add the samples of a recording to a profile."""

from __future__ import annotations

from collections import Counter

from soscope.errors import FormatError
from soscope.frames.interpreters import NO_PART, Evaluator, mix
from soscope.instruments.prof.model import HOOKS, Profile, ProfSample, ProfThread
from soscope.instruments.prof.names import UNKNOWN, ImageFunctions
from soscope.model.call import StackFrame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MS = 1_000_000  # nanoseconds
_NO_IMAGE = -1


def add_samples(blocks: list[dict[str, Any]], profile: Profile, *, with_lines: bool = True) -> None:
    """Add the samples in the SAMPLES blocks of a recording, in their order.

    Without `with_lines` functions have no lines, and less of their files is read. Raises
    FormatError for blocks that no sampler writes.
    """
    try:
        _SampleReduction(with_lines=with_lines).add(blocks, profile)
    except (TypeError, ValueError, KeyError, IndexError) as error:
        raise FormatError(f"its samples are damaged: {error}") from error


class _SampledFile:
    """The file of a sampled image."""

    __slots__ = ("_evaluator", "functions")

    def __init__(self, name: str, path: str, identity: bytes, *, with_lines: bool) -> None:
        self.functions = ImageFunctions(path, identity, image=name, with_lines=with_lines)
        self._evaluator: Evaluator | None = self.functions.evaluator()

    def frame(self, name: str, vaddr: int) -> tuple[StackFrame, int]:
        """Return the frame of an address, and the part of an interpreter's evaluator it is in."""
        function = self.functions.at(vaddr)
        part = NO_PART if self._evaluator is None else self._evaluator.part(vaddr)
        if function.symbol == UNKNOWN:
            return StackFrame(name, None, function.addr if function.size else None), part
        file, line = self.functions.line_at(vaddr) or (None, None)
        return StackFrame(name, function.symbol, None, file, line), part


class _SampleReduction:
    def __init__(self, *, with_lines: bool) -> None:
        self._with_lines = with_lines
        self._images: list[tuple[str, _SampledFile | None]] = []
        self._frames: list[list[Any]] = []
        self._stacks: list[list[Any]] = []
        self._named: dict[int, tuple[StackFrame, int]] = {}
        self._same: dict[tuple[object, ...], StackFrame] = {}

    def add(self, blocks: list[dict[str, Any]], profile: Profile) -> None:
        threads: dict[int, int] = {}
        counts: Counter[tuple[int, int]] = Counter()
        missed: Counter[str] = Counter()
        for block in blocks:
            profile.sample_ns = int(block["period"])
            for number, pid, tid, name in block.get("threads", ()):
                threads[number] = len(profile.threads)
                profile.threads.append(ProfThread(pid, tid, name))
            for _, name, path, identity in block.get("images", ()):
                file = None
                if path:
                    told = bytes.fromhex(identity)
                    file = _SampledFile(name, path, told, with_lines=self._with_lines)
                self._images.append((name, file))
            self._frames += block.get("frames", ())
            self._stacks += block.get("stacks", ())
            for thread, stack, count in block["counts"]:
                counts[thread, stack] += count
            missed.update(block["missed"])
        weights: dict[tuple[int, tuple[StackFrame, ...]], int] = {}
        for (thread, stack), count in counts.items():
            key = threads[thread], self._stack(stack)
            weights[key] = weights.get(key, 0) + count
        for (thread, frames), weight in weights.items():
            profile.samples.append(ProfSample(thread, frames, weight))
        profile.hooks_ns = missed[HOOKS]
        profile.missed_ns = dict((+missed).most_common())
        for why, nanoseconds in profile.missed_ns.items():
            profile.notes.append(f"{nanoseconds // _MS:,} ms of processor time not sampled: {why}")
        notes = [note for _, file in self._images if file for note in file.functions.notes]
        profile.notes += dict.fromkeys(notes)

    def _stack(self, number: int) -> tuple[StackFrame, ...]:
        is_whole, *numbers = self._stacks[number]
        native: list[StackFrame] = []
        parts: list[int] = []
        own: list[tuple[StackFrame, bool]] = []
        for frame in numbers:
            known = self._named.get(frame)
            if known is None:
                known = self._named[frame] = self._name(self._frames[frame])
            if isinstance(self._frames[frame][0], str):
                own.append((known[0], bool(known[1])))
            else:
                native.append(known[0])
                parts.append(known[1])
        return tuple(mix(native, parts, own, is_cut=not is_whole) if own else native)

    def _name(self, frame: list[Any]) -> tuple[StackFrame, int]:
        """Return a frame, and for native ones the part of an interpreter's evaluator it is in.

        For a frame of an interpreter, the second value tells whether C code has called it.
        """
        if isinstance(frame[0], str):
            name, file, line, is_entry = frame
            return self._one(StackFrame(None, name, None, file, line)), is_entry
        image, addr = frame[:2]
        if image == _NO_IMAGE:
            return self._one(StackFrame(None, None, None)), NO_PART
        name, file = self._images[image]
        if file is None:
            return self._one(StackFrame(name, frame[2] if len(frame) > 2 else None, None)), NO_PART
        named, part = file.frame(name, addr - 1)  # return addresses lie behind the call
        return self._one(named), part

    def _one(self, frame: StackFrame) -> StackFrame:
        """Return the one shared record for equal frames, so that equal stacks become one row."""
        return self._same.setdefault(frame.values(), frame)
