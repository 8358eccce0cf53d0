# SPDX-License-Identifier: Apache-2.0
"""What was counted by slot, as arcs from an image to a function of another one."""

from __future__ import annotations

from soscope.instruments.prof.model import Profile
from soscope.instruments.prof.sums import ArcSums
from soscope.model.image import TracedImage
from soscope.model.slot import TracedSlot
from soscope.recording.reader import RecordingFile


def add_boundary(recording: RecordingFile, profile: Profile) -> None:
    """Add the calls through slots.

    Which function of an image has called is not known: the image itself stands for it, with "" as
    symbol. Time of a function that calls itself through slots is counted for each of its calls.
    """
    sums = ArcSums(profile)
    rate = recording.clock.rate
    for program in recording.programs.all():
        for index, calls in recording.counts.get(program.index, {}).items():
            if calls:
                slot = program.slot(index)
                sums.add(_caller(sums, slot), _callee(sums, slot), calls)
        for index, cell in recording.stats.get(program.index, {}).items():
            calls, _, _, total, _, _, own = cell
            if calls:
                slot = program.slot(index)
                own_ns = None if own is None else round(own * rate)
                sums.add(
                    _caller(sums, slot), _callee(sums, slot), calls, round(total * rate), own_ns
                )
    sums.finish()


def _caller(sums: ArcSums, slot: TracedSlot) -> int:
    return sums.function(_name(slot.caller), "", _path(slot.caller))


def _callee(sums: ArcSums, slot: TracedSlot) -> int:
    return sums.function(_name(slot.callee), slot.symbol, _path(slot.callee))


def _name(image: TracedImage | None) -> str:
    return "" if image is None else image.label


def _path(image: TracedImage | None) -> str:
    return "" if image is None else image.path
