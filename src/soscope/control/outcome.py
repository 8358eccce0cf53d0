# SPDX-License-Identifier: Apache-2.0
"""The outcome of a session, whatever its instruments have measured."""

from __future__ import annotations

from soscope.model.image import TracedImage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from soscope.control.attach import Visited
    from soscope.control.cost import Price

# Why a session stopped recording before its programs ended. "" means that it did not.
STOPPED_DURATION = "duration"  # --duration
STOPPED_LIMIT = "limit"  # --limit
STOPPED_FULL = "full"  # --when-full=stop

# The option is printed, because the user asked for the stop.
_ENDED = {
    STOPPED_DURATION: "ended by --duration",
    STOPPED_LIMIT: "ended by --limit",
    STOPPED_FULL: "ended by --when-full",
}


class ProgramOutcome:
    """One observed program: the contents of one control block at the end.

    `index` is its number in the recording, and the `process` of its images and slots. `path` is
    the file that was run. `images` are all images that were seen.
    """

    __slots__ = ("images", "index", "path")

    def __init__(self, index: int, path: str, images: list[TracedImage]) -> None:
        self.index = index
        self.path = path
        self.images = images

    @property
    def key(self) -> tuple[object, ...]:
        """The key that two runs of one program share: the program and the files of its images."""
        return (self.path, *((image.name, image.path, image.identity) for image in self.images))


class AttachedOutcome:
    """A process that was attached to, and goes on.

    `has_ended` is set if it does not go on, or if it runs another program by now. `executed` is
    that program, or None if the process ended. `longest_stop_ns` is the longest time that one of
    its threads was stopped. `restored` counts the words that have their old value again, and
    `left` those that other code has changed meanwhile. `kept` counts the words by which unwinders
    still ask the agent, because calls may return through it. `failure` tells why the agent could
    not be taken out. `is_exit_known` is set if its exit status is known.
    """

    __slots__ = (
        "executed",
        "failure",
        "has_ended",
        "is_exit_known",
        "kept",
        "left",
        "longest_stop_ns",
        "pid",
        "restored",
    )

    def __init__(
        self,
        pid: int,
        *,
        has_ended: bool,
        executed: str | None,
        longest_stop_ns: int,
        restored: int,
        kept: int,
        left: int,
        failure: str | None,
        is_exit_known: bool = False,
    ) -> None:
        self.pid = pid
        self.has_ended = has_ended
        self.executed = executed
        self.longest_stop_ns = longest_stop_ns
        self.restored = restored
        self.kept = kept
        self.left = left
        self.failure = failure
        self.is_exit_known = is_exit_known


class ChildPrograms:
    """Programs that children of the observed programs have executed without being followed.

    The agents in the children report them. `count` is the number of programs, `names` has the
    names of most of them, each once. `can_follow` is set if they would have been observed with
    `-f`.
    """

    MOST_NAMES = 6  # names in a line

    __slots__ = ("can_follow", "count", "names")

    def __init__(self) -> None:
        self.count = 0
        self.names: list[str] = []
        self.can_follow = True

    @classmethod
    def of(cls, document: object) -> ChildPrograms:
        """Return the programs from the result of `document`, or none if it has another form."""
        made = cls()
        if isinstance(document, dict):
            count, names = document.get("programs"), document.get("names")
            made.add(
                count if isinstance(count, int) else 0,
                [str(name) for name in names] if isinstance(names, list) else [],
            )
            made.can_follow = bool(document.get("can_follow"))
        return made

    def add(self, count: int, names: list[str]) -> None:
        """Add the programs that the children of one program have executed."""
        self.count += count
        self.names += [name for name in names if name not in self.names]

    def lines(self) -> list[str]:
        """Return a line about the programs that are not observed, none if all are."""
        from soscope.model.call import printable

        if not self.count:
            return []
        names = [printable(name) for name in self.names[: self.MOST_NAMES]]
        if len(self.names) > self.MOST_NAMES:
            names.append("…")
        named = f" ({', '.join(names)})" if names else ""
        if self.count == 1:
            said, them = f"1 program that a child executed is not in it{named}", "it"
        else:
            said = f"{self.count:,} programs that children executed are not in it{named}"
            them = "them"
        return [f"{said}: -f follows {them}" if self.can_follow else said]

    def document(self) -> dict[str, object]:
        """Return the count and names as a document for JSON and recordings."""
        return {"programs": self.count, "names": self.names, "can_follow": self.can_follow}


class EngineVerdict:
    """The result of comparing two engines: `line` is to be shown, `is_same` if they agree."""

    __slots__ = ("is_same", "line")

    def __init__(self, line: str, *, is_same: bool) -> None:
        self.line = line
        self.is_same = is_same


class Outcome:
    """The end of a session.

    `status` is the exit status of the command, and `signal` the number of the signal that killed
    it. Both are None if the end was not seen. `programs` are the observed programs, in the order
    in which they ended. A program that ran again with the same images is in it once. `untraced`
    are pairs of a program and the reason why there was no agent in it (a constant of
    `proc.reasons`). `ns_per_tick` turns ticks of the clock into ns. `dropped` are pairs of a
    count and a reason, for people. `stopped` is one of the STOPPED_ constants or "". `remarks`
    are lines about other shortfalls. `record` is the path of the recording. `attached` are the
    processes that soscope attached to, and `not_attached` has the reasons why others could not be
    observed. `lacks_children` is set if the children of a program were to be followed and are
    not, because the program needs ptrace itself. `arch` and `engine` are as in `ProcessStart`.
    `is_left` is set if a program was detached and went on unobserved. `executed` are the programs
    that children have executed without being followed. `verdict` is set if two engines were
    compared. `cost` is the cost of the observation for the programs, None if it is not known.
    """

    __slots__ = (
        "arch",
        "attached",
        "command",
        "cost",
        "dropped",
        "engine",
        "executed",
        "is_left",
        "lacks_children",
        "not_attached",
        "ns_per_tick",
        "programs",
        "record",
        "remarks",
        "signal",
        "status",
        "stopped",
        "untraced",
        "verdict",
    )

    def __init__(
        self,
        command: list[str],
        *,
        status: int | None = None,
        signal: int | None = None,
        programs: Sequence[ProgramOutcome] = (),
        untraced: list[tuple[str, str]] | None = None,
        ns_per_tick: float = 1.0,
        dropped: list[tuple[int, str]] | None = None,
        stopped: str = "",
        remarks: list[str] | None = None,
        record: str | None = None,
    ) -> None:
        self.command = command
        self.status = status
        self.signal = signal
        self.programs = programs
        self.untraced = untraced or []
        self.ns_per_tick = ns_per_tick
        self.dropped = dropped or []
        self.stopped = stopped
        self.remarks = [] if remarks is None else remarks
        self.record = record
        self.attached: list[AttachedOutcome] = []
        self.not_attached: list[str] = []
        self.lacks_children = False
        self.executed = ChildPrograms()
        self.arch = self.engine = ""
        self.is_left = False
        self.verdict: EngineVerdict | None = None
        self.cost: Price | None = None

    @property
    def is_whole(self) -> bool:
        """Return whether everything that should be observed was observed."""
        has_executed = any(attached.executed is not None for attached in self.attached)
        return not (self.untraced or self.lacks_children or self.is_left or has_executed)

    @property
    def shortfalls(self) -> list[str]:
        """Return a short text for each shortfall. The observation is complete if there is none.

        Every part that prints whether the observation is complete uses this.
        """
        shortfalls = []
        if self.dropped_count:
            shortfalls.append(f"{self.dropped_count:,} dropped")
        if self.stopped:
            shortfalls.append(_ENDED.get(self.stopped, "cut"))
        if not self.is_whole:
            shortfalls.append("not complete")
        return shortfalls

    @property
    def dropped_count(self) -> int:
        """Return how many events are missing in all."""
        return sum(count for count, _ in self.dropped)


def attached_outcome(target: Visited) -> AttachedOutcome:
    """Return the outcome for an attached process, which goes on without soscope."""
    taken = target.taken
    return AttachedOutcome(
        target.pid,
        has_ended=target.has_ended,
        executed=target.executed,
        longest_stop_ns=target.longest_stop,
        restored=taken.restored if taken else 0,
        kept=taken.kept if taken else 0,
        left=len(taken.left) if taken else 0,
        failure=target.failure,
        is_exit_known=target.exit is not None,
    )
