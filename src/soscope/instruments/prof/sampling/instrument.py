# SPDX-License-Identifier: Apache-2.0
"""The sampling instrument (`--sample`), beside whatever else a session records."""

from __future__ import annotations

from soscope.control.cost import STOPS
from soscope.control.settings import Hooks, Instrument
from soscope.instruments.prof.sampling.process import SamplerProcess
from soscope.proc import status
from soscope.recording.sink import Sink
from soscope.wire import layout
from soscope.wire.block import ControlBlock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from soscope.control.cost import Price

_PAUSE = 0.2  # seconds between reads of the sampler's output
_LEFT = (  # Programs that may not be read, or not be understood.
    status.ENDED,
    status.FOREIGN,
    status.LET_GO,
    status.NOT_FOLLOWED,
    status.SETUID,
    status.SETUID_LOST,
    status.VALGRIND,
)
_FAILED = "samples were not taken to the end: the process that took them was killed"


class SamplingInstrument(Instrument):
    """Lets a sampler take `hz` samples in each second of the threads' processor time."""

    name = "sample"
    needs_no_agent = True

    def __init__(self, hz: int, *, is_alone: bool, follows: bool) -> None:
        """Prepare the instrument.

        `is_alone` means that no other instrument hooks, and `follows` that children are followed.
        """
        if is_alone:
            self.pause = _PAUSE
            from soscope.prototypes import load
            from soscope.select.filter import compile_selection

            self.hooks = Hooks(layout.INSTRUMENT_COUNT, compile_selection(["-*"]), load())
        self._hz = hz
        self._follows = follows
        self._sampler: SamplerProcess | None = None
        self._recording: Sink = Sink()
        self._last: list[dict[str, Any]] = []
        self._remarks: dict[str, None] = {}
        self._not_sampled: dict[str, None] = {}
        self._stood_ns = 0

    def options(self) -> dict[str, object]:
        """Return the frequency, for a recording."""
        return {"sample": self._hz}

    def recorder(self, recording: Sink, beat: Callable[[], object]) -> Sink:
        """Keep the recording, to which samples are written, and start the sampler."""
        del beat
        self._recording = recording
        self._sampler = SamplerProcess(
            self._hz, follows=self._follows
        )  # so that it is ready when the command is
        self.asker = self._sampler.asker
        return recording

    def process(self, pid: int, block: ControlBlock) -> None:
        """Sample a process, from the first instruction of its program on."""
        del block
        if self._sampler is not None:
            self._sampler.add(pid)  # a new process stands still until then

    def without_agent(self, pid: int, reason: str) -> None:
        """Sample a process without agent, too, as samples do not need one."""
        if reason not in _LEFT and self._sampler is not None:
            self._sampler.add(pid)

    def move(self) -> bool:
        """Record the new samples."""
        if self._sampler is not None:
            for said in self._sampler.said():
                self._take(said)
        return False

    def stopping(self, block: ControlBlock) -> None:
        """End the sampling, as threads are about to be stopped for another reason."""
        del block
        self._end()

    def finish(self) -> list[str]:
        """End the sampling, and record the last samples."""
        self._end()
        for said in self._last:
            self._take(said)
        return list(self._remarks)

    def totals(self) -> dict[str, object]:
        """Return why processes were not sampled."""
        return {"not_sampled": list(self._not_sampled)} if self._not_sampled else {}

    def price(self, cost: Price, ns_per_tick: float, units: int) -> None:
        """Add how long threads stood still for samples."""
        del ns_per_tick, units
        if self._stood_ns:
            cost.parts[STOPS] = cost.parts.get(STOPS, 0) + self._stood_ns

    def _end(self) -> None:
        sampler, self._sampler = self._sampler, None
        if sampler is not None:
            self._last += sampler.end()
            if sampler.has_failed:
                self._remarks[_FAILED] = None

    def _take(self, said: dict[str, Any]) -> None:
        if "process" in said:
            pid, why, unseen = said["process"]
            if why is not None:
                self._remarks[f"process {pid} was not sampled: {why}"] = None
                self._not_sampled[why] = None
            if unseen is not None:
                self._remarks[unseen] = None
        elif "stood" in said:
            self._stood_ns = said["stood"]
        else:
            self._recording.samples(said)
