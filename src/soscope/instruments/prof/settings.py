# SPDX-License-Identifier: Apache-2.0
"""What a profile is to be made of."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class ProfSettings:
    """What to profile in a command, or in a process that runs already, and how.

    `images` are patterns as of `-l`, []: all. `mode` is one of `model.MODES`, for instrumented
    libraries, None: those are left alone; in `sample` one call in `interval` is timed. `boundary`
    is "count" or "time", None: calls between images are left alone. `sample` is how often in a
    second of a thread's processor time its stack is looked at, None: never. `record` is the path of
    the recording. `pid` is a process in the place of `command`; `duration_ns`: for how long, None:
    to its end, or until somebody stops soscope. `is_chosen`: nobody said how, and
    soscope chose. `buffer` and `when_full` are as in `SessionSettings`, None: what fits. `begun` is
    called when everything is hooked.
    """

    __slots__ = (
        "begun",
        "boundary",
        "buffer",
        "command",
        "duration_ns",
        "follow",
        "images",
        "interval",
        "is_chosen",
        "mode",
        "pid",
        "record",
        "sample",
        "when_full",
    )

    def __init__(
        self,
        command: list[str],
        record: str,
        *,
        images: list[str] | None = None,
        mode: str | None = None,
        interval: int = 64,
        boundary: str | None = None,
        sample: int | None = None,
        follow: bool = False,
        pid: int | None = None,
        duration_ns: int | None = None,
    ) -> None:
        self.command = command
        self.record = record
        self.images = images or []
        self.mode = mode
        self.interval = interval
        self.boundary = boundary
        self.sample = sample
        self.follow = follow
        self.pid = pid
        self.duration_ns = duration_ns
        self.is_chosen = False
        self.buffer: int | None = None
        self.when_full: str | None = None
        self.begun: Callable[[], object] = lambda: None
