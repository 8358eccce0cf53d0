# SPDX-License-Identifier: Apache-2.0
"""From the samples of a recording to those of a profile."""

from __future__ import annotations

from collections import Counter

from soscope.errors import FormatError
from soscope.frames.evaluator import NO_PART
from soscope.frames.interpreted import mix
from soscope.frames.names import NamedFile
from soscope.instruments.prof.model import Profile, ProfSample, ProfThread
from soscope.model.stackframe import StackFrame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MS = 1_000_000  # ns
_NO_IMAGE = -1


def add_samples(blocks: list[dict[str, Any]], profile: Profile) -> None:
    """Add what the SAMPLES blocks of a recording say, in their order.

    Raises FormatError for what no sampler writes.
    """
    try:
        _SampleReduction().add(blocks, profile)
    except (TypeError, ValueError, KeyError, IndexError) as error:
        raise FormatError(f"its samples are damaged: {error}") from error


class _SampleReduction:
    def __init__(self) -> None:
        self._images: list[tuple[str, NamedFile | None]] = []
        self._frames: list[list[Any]] = []
        self._stacks: list[list[Any]] = []
        self._named: dict[int, tuple[StackFrame, int]] = {}
        self._same: dict[tuple[object, ...], StackFrame] = {}
        self._others: set[str] = set()

    def add(self, blocks: list[dict[str, Any]], profile: Profile) -> None:
        threads: dict[int, int] = {}
        counts: Counter[tuple[int, int]] = Counter()
        missed: Counter[str] = Counter()
        for block in blocks:
            profile.sample_ns = int(block["period"])
            for number, pid, tid, name in block.get("threads", ()):
                threads[number] = len(profile.threads)
                profile.threads.append(ProfThread(pid, tid, name))
            for _, name, path, build_id in block.get("images", ()):
                self._images.append((name, self._open(path, bytes.fromhex(build_id))))
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
        for why, nanoseconds in missed.items():
            profile.notes.append(f"{nanoseconds // _MS:,} ms of processor time not sampled: {why}")
        for path in sorted(self._others):
            profile.notes.append(f"{path} has changed since: its functions have no names")

    def _open(self, path: str, build_id: bytes) -> NamedFile | None:
        if not path:
            return None
        file = NamedFile(path, build_id)
        if file.is_other:
            self._others.add(path)
        return file

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
        """Return what a frame is called, and which part of an evaluator it is in, if native.

        Else whether C code has called for it.
        """
        if isinstance(frame[0], str):
            name, file, line, is_entry = frame
            return self._one(StackFrame(None, name, None, file, line)), is_entry
        image, addr = frame[:2]
        if image == _NO_IMAGE:
            return StackFrame(None, None, addr), NO_PART
        name, file = self._images[image]
        if file is None:
            return self._one(StackFrame(name, frame[2] if len(frame) > 2 else None, addr)), NO_PART
        return self._one(file.frame(name, addr)), file.part(addr)

    def _one(self, frame: StackFrame) -> StackFrame:
        """Return the one record of all that say the same: those are equal as they are one.

        Samples at many places of one line are one row.
        """
        offset = frame.offset if frame.symbol is None else None
        said = frame.image, frame.symbol, offset, frame.file, frame.line
        return self._same.setdefault(said, StackFrame(*said))
