# SPDX-License-Identifier: Apache-2.0
"""The settings of a session, whatever its instruments measure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.flight import FlightSettings
    from soscope.entry.remote.packets import RemoteAddress

WHEN_FULL = ("block", "drop", "overwrite", "stop")  # in the order of enum sosc_when_full

AGENT = "agent"  # the engine for programs of this machine
AUTO, POISON, SITES, SLOT = "auto", "poison", "sites", "slot"
ENTRIES = "entries"
ENGINES = (AUTO, POISON, SITES, SLOT, ENTRIES)  # engines of programs of other architectures

DEFAULT_BUFFER = 16 << 20
LEAST_BUFFER = 256 << 10  # sixteen chunks: one for each of a few threads
MOST_BUFFER = 64 << 30


class SessionSettings:
    """What to observe, for how long, and where to record it. Times are ns, sizes bytes.

    `command` is the program and its arguments, or empty if `pids` lists running processes. With
    `follow` the children of observed programs are observed, too. `duration_ns` is the time after
    which recording stops (None: never). `buffer` is the size of the ring, and `when_full` one of
    WHEN_FULL. `record` is the path of the recording to write (None: no recording), and `limit`
    its largest size (None: no limit). With `flight` the rings keep the newest calls and are
    written when it tells so. `record` is then the path of the first recording. Without it all
    calls are recorded.

    With `gate` the calls of a process are recorded only while its gate is open: True means that
    gates are open at first, False that they are closed until something opens them, None that
    there are none. `toggle` is the number of the signal to soscope that opens and closes all
    gates, or None.

    `cwd` is the directory in which the command runs (None: soscope's), `environ` its environment
    (None: the one that soscope was given), and `user` the name of the user that runs it (None:
    soscope's user). `remote` is the address of a GDB stub that holds the program (None: soscope
    starts the program). `sysroot` is the root directory of another machine's system, `qemu` the
    emulator for its programs, and `engine` one of ENGINES (None: soscope chooses). With `check`
    another engine sees the same calls, and both are compared. `inside` are the functions whose
    calls are seen at their entry points (option `-x`).
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
        """Return whether a setting needs another engine than the agent."""
        return bool(self.sysroot or self.qemu or self.engine or self.check or self.inside)

    @property
    def wants_emulator(self) -> bool:
        """Return whether a setting needs a program under an emulator."""
        return bool(self.sysroot or self.qemu or self.check)

    @property
    def goes_by_breakpoints(self) -> bool:
        """Return whether programs of this machine are traced by breakpoints, not by the agent."""
        return self.engine in (SITES, ENTRIES) or (
            bool(self.inside) and self.engine in (None, AUTO)
        )
