# SPDX-License-Identifier: Apache-2.0
"""The calls of a profile that were recorded one by one, for formats with times."""

from __future__ import annotations

from soscope.export.profiles import ExportFrame, frame_of
from soscope.instruments.prof.timeline import BEGIN, END, INSTANT, ThreadTimeline, notes_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.prof.model import Profile, ProfThread

__all__ = ["BEGIN", "END", "INSTANT", "CallTimes", "call_times_of"]


class CallTimes:
    """All threads with their calls; `frames` are the frames of the profile's functions.

    `program` is the command's name. `first_ns` and `last_ns` are CLOCK_REALTIME.
    """

    def __init__(self, profile: Profile, timelines: list[ThreadTimeline]) -> None:
        self.timelines = [each for each in timelines if len(each.start)]
        self.frames: list[ExportFrame] = [frame_of(function) for function in profile.functions]
        self.program = profile.command[0].rpartition("/")[2] if profile.command else ""
        self.command = " ".join(profile.command) or "profile"
        self.first_ns = min((int(each.start[0]) for each in self.timelines), default=0)
        self.last_ns = max((int(each.end.max()) for each in self.timelines), default=0)
        self._threads = profile.threads
        self._samples = len(profile.samples)

    def thread(self, timeline: ThreadTimeline) -> ProfThread:
        """Return the thread of a timeline."""
        return self._threads[timeline.thread]

    def functions(self, timeline: ThreadTimeline) -> list[int]:
        """Return the index of the frame for each call of a thread."""
        places: list[int] = timeline.functions.tolist()
        return places

    def notes(self) -> list[str]:
        """Return notes on data that are changed or missing in the output."""
        notes = notes_of(self.timelines)
        if self._samples:
            notes.append("samples have no times, and are left out: folded or pprof has them")
        return notes


def call_times_of(profile: Profile) -> CallTimes | None:
    """Return the calls of a profile, None if they were not recorded one by one."""
    return None if profile.timeline is None else CallTimes(profile, profile.timeline)
