# SPDX-License-Identifier: Apache-2.0
"""What a session is to do, whatever its instruments measure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.flight import FlightSettings
    from soscope.entry.remote.address import RemoteAddress

WHEN_FULL = ("block", "drop", "overwrite", "stop")  # in the order of enum sosc_when_full

AGENT = "agent"  # of programs of this machine
AUTO, POISON, SITES, SLOT = "auto", "poison", "sites", "slot"
ENTRIES = "entries"
ENGINES = (AUTO, POISON, SITES, SLOT, ENTRIES)  # of programs of other architectures

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
    `remote` is where a stub waits that holds the program, None: soscope starts it.
    `sysroot` is where the system of another machine lies, `qemu` what runs its programs, `engine`
    one of ENGINES; None: soscope chooses. `check`: another engine sees the same calls, and both
    are compared. `inside` names functions whose calls are seen at their entry points, as `-x` does.
    """

    __slots__ = (
        "buffer",
        "check",
        "command",
        "cwd",
        "duration_ns",
        "engine",
        "environ",
        "flight",
        "follow",
        "gate",
        "inside",
        "limit",
        "pids",
        "qemu",
        "record",
        "remote",
        "sysroot",
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
        remote: RemoteAddress | None = None,
        sysroot: str | None = None,
        qemu: str | None = None,
        engine: str | None = None,
        check: bool = False,
        inside: list[str] | None = None,
    ) -> None:
        self.flight = flight
        self.remote = remote
        self.sysroot = sysroot
        self.qemu = qemu
        self.engine = engine
        self.check = check
        self.inside = inside or []
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

    @property
    def wants_no_agent(self) -> bool:
        """Return whether something is asked for that only other engines than the agent have."""
        return bool(self.sysroot or self.qemu or self.engine or self.check or self.inside)

    @property
    def wants_emulator(self) -> bool:
        """Return whether something is asked for that only programs under an emulator have."""
        return bool(self.sysroot or self.qemu or self.check)

    @property
    def goes_by_breakpoints(self) -> bool:
        """Return whether programs of this machine are to be traced without an agent, too."""
        return self.engine in (SITES, ENTRIES) or (
            bool(self.inside) and self.engine in (None, AUTO)
        )
