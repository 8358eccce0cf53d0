# SPDX-License-Identifier: Apache-2.0
"""What a session is to do, whatever its instruments measure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.flight import FlightSettings

WHEN_FULL = ("block", "drop", "overwrite", "stop")  # in the order of enum sosc_when_full

DEFAULT_BUFFER = 16 << 20
LEAST_BUFFER = 256 << 10  # sixteen chunks: a few threads with one each
MOST_BUFFER = 64 << 30


class SessionSettings:
    """What to observe, for how long, and where to. Times are nanoseconds, sizes bytes.

    `command` is the program and its arguments; it is empty where `pids` names processes that run
    already. `follow`: observed programs' children, too. `duration_ns`: stop recording after so
    long, None: never. `buffer` is the size of the ring, `when_full` one of WHEN_FULL. `record` is
    the path of the recording to write, None: none is kept; `limit` is its size (None: no limit).
    `flight`: the rings keep the newest, and are written as it says; then `record` is the path of
    the first recording. None: all is recorded. `gate`: calls of a process are recorded while its
    gate is open; True: gates are open at first, False: not before something opens them, None:
    there are none. `toggle` is the number of the signal to soscope that opens and closes all of
    them, None: none does.
    `cwd` is the directory that the command runs in, None: ours; `environ` its environment, None:
    the one that soscope was given. `user` is the name of who runs it, None: who runs soscope.
    """

    __slots__ = (
        "buffer",
        "command",
        "cwd",
        "duration_ns",
        "environ",
        "flight",
        "follow",
        "gate",
        "limit",
        "pids",
        "record",
        "toggle",
        "user",
        "when_full",
    )

    def __init__(
        self,
        command: list[str],
        *,
        pids: list[int] | None = None,
        follow: bool = False,
        duration_ns: int | None = None,
        buffer: int = DEFAULT_BUFFER,
        when_full: str = "block",
        record: str | None = None,
        limit: int | None = None,
        cwd: str | None = None,
        environ: dict[str, str] | None = None,
        user: str | None = None,
        gate: bool | None = None,
        toggle: int | None = None,
        flight: FlightSettings | None = None,
    ) -> None:
        self.flight = flight
        self.gate = gate
        self.toggle = toggle
        self.command = command
        self.cwd = cwd
        self.environ = environ
        self.user = user
        self.pids = pids or []
        self.follow = follow
        self.duration_ns = duration_ns
        self.buffer = buffer
        self.when_full = when_full
        self.record = record
        self.limit = limit
