# SPDX-License-Identifier: Apache-2.0
"""Settings of a profile."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class ProfSettings:
    """What to profile in a command, or in a process that runs already, and how.

    `images` are patterns as of `-l`, and [] stands for all. `mode` is one of `model.MODES` for
    instrumented libraries, None if they are not recorded. In mode `sample` one call in `interval`
    is timed. `boundary` is "count" or "time", None if calls between images are not recorded.
    `sample` is how many samples are taken in a second of a thread's processor time, None if no
    samples are wanted. `record` is the path of the recording. `pid` is a process to attach to, in
    place of `command`. `duration_ns` is for how long. If it is None, the recording goes on to the
    end of the process, or until soscope is interrupted. `is_chosen` means that no option chose
    how to profile, but soscope did. `buffer` and `when_full` are the same as in
    `SessionSettings`, None for a suitable value. `begun` is called when everything is hooked.
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
