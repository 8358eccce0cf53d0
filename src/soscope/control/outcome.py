# SPDX-License-Identifier: Apache-2.0
"""How a session ended: its programs, what it lost, and what it cost the programs."""

from __future__ import annotations

from soscope.model.call import time_text
from soscope.model.image import TracedImage
from soscope.model.record import Record, fresh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from soscope.control.attach import Visited


# The cost of an observation for the programs: slower calls, and all times that they waited.

# Reasons for which the programs waited. JSON documents and recordings have the same words.
PRINT = "print"
READER = "reader"
DISK = "disk"
RING = "ring"
START = "start"
END = "end"
STOPS = "stops"
EXEC = "exec"
LOOK = "look"
# Work that the programs' threads did for soscope, beside their calls.
CHUNKS = "chunks"
IMAGES = "images"
ASKING = "asking"
WORK = (CHUNKS, IMAGES, ASKING)
ONCE = (START, END, LOOK)  # reasons that every observation has, for a short time


class Price:
    """The cost of an observation in ns. Times of threads and programs are added up.

    `ran_ns` is for how long the programs were observed. `parts` tells what their threads waited
    for, or did, and for how long. `call_ns` is how much longer each call took, at least.
    `calls_ns` is how much longer all calls together took. Both are None if they are not known.
    `faster_ns` is about how long the programs would run if their calls were only recorded, None
    if recording would not help. `stolen_ns` is the time of all processors that the host of a
    virtual machine took meanwhile, out of `stolen_of_ns`. That is no cost of the observation, but
    the programs ran longer by it.
    """

    __slots__ = (
        "call_ns",
        "calls_ns",
        "faster_ns",
        "parts",
        "ran_ns",
        "stolen_ns",
        "stolen_of_ns",
    )

    def __init__(self, ran_ns: int = 0, parts: Mapping[str, int] | None = None) -> None:
        self.ran_ns = ran_ns
        self.parts = dict(parts or {})
        self.call_ns: float | None = None
        self.calls_ns: float | None = None
        self.faster_ns: int | None = None
        self.stolen_ns = self.stolen_of_ns = 0

    @property
    def total_ns(self) -> float:
        """The whole known cost in ns."""
        return sum(self.parts.values()) + (self.calls_ns or 0)

    @property
    def waited_ns(self) -> int:
        """The time in ns for which threads waited, for whatever reason."""
        return sum(ns for what, ns in self.parts.items() if what not in WORK)

    @property
    def share(self) -> float:
        """The cost as a part of the programs' run time. It may exceed 1 with several threads."""
        return self.total_ns / self.ran_ns if self.ran_ns > 0 else 0.0

    @property
    def stolen_share(self) -> float:
        """The part of the processors' time that the host took."""
        return self.stolen_ns / self.stolen_of_ns if self.stolen_of_ns > 0 else 0.0

    @property
    def largest_wait(self) -> tuple[str, int]:
        """The reason of the longest wait, and its time in ns, or ("", 0) if no thread waited."""
        waits = [(what, ns) for what, ns in self.parts.items() if ns and what not in WORK]
        return max(waits, key=lambda wait: wait[1], default=("", 0))

    def document(self) -> dict[str, object]:
        """Return the cost as JSON documents and recordings have it."""
        calls = self.calls_ns
        return {
            "ran_ns": self.ran_ns,
            "cost_ns": round(self.total_ns),
            "call_ns": None if self.call_ns is None else round(self.call_ns, 1),
            "calls_ns": None if calls is None else round(calls),
            "waited_ns": self.waited_ns,
            "waited_for": self.largest_wait[0] or None,
            "parts_ns": dict(sorted(self.parts.items(), key=lambda part: -part[1])),
            "recorded_ns": self.faster_ns,
            "stolen_ns": self.stolen_ns,
            "stolen_of_ns": self.stolen_of_ns,
        }

    @classmethod
    def of(cls, said: object) -> Price | None:
        """Return the cost that a recording has, or None if it has none."""
        if not isinstance(said, dict) or not isinstance(said.get("ran_ns"), int):
            return None
        parts = said.get("parts_ns")
        known = parts.items() if isinstance(parts, dict) else ()
        made = cls(said["ran_ns"], {str(what): ns for what, ns in known if isinstance(ns, int)})
        made.call_ns, made.calls_ns = _number(said.get("call_ns")), _number(said.get("calls_ns"))
        faster = said.get("recorded_ns")
        made.faster_ns = faster if isinstance(faster, int) else None
        stolen, whole = said.get("stolen_ns"), said.get("stolen_of_ns")
        if isinstance(stolen, int) and isinstance(whole, int):
            made.stolen_ns, made.stolen_of_ns = stolen, whole
        return made


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


# Sentences about the cost of an observation, for every verb and every recording.

_LEAST = 0.01  # part of the run time; a lower cost is not printed
_LEAST_NS = 1_000_000  # a cost below this is not printed
_LEAST_WAIT_NS = 100_000_000  # the same, if the cost of a call is not known
_LARGE = 0.1  # of the cost: the start is told apart
_LONG_NS = 1_000_000_000  # a wait of this length is always printed

_FOR = {
    PRINT: "for soscope to print",
    READER: "for whoever reads soscope's output",
    DISK: "for the disk",
    RING: "for soscope to empty the ring",
    START: "for soscope to hook its calls",
    END: "for soscope to look at its memory at its end",
    LOOK: "for soscope to look at its objects",
    STOPS: "while soscope had stopped it",
    EXEC: "for soscope before it executed another program",
}
_INSTEAD = {
    PRINT: "--record FILE prints nothing meanwhile",
    READER: "--record FILE waits for no reader",
    DISK: "a faster disk helps, or fewer calls",
    RING: "fewer calls help, or a larger buffer",
    STOPS: "fewer calls help",
}


def cost_lines(
    cost: Price | None, what: str, *, verbose: bool = False, note: str = ""
) -> list[str]:
    """Return the lines about the cost of an observation, none if the cost is too small to matter.

    `what` names what caused the cost ("tracing"). `note` tells what the cost does not include.
    """
    if cost is None or (cost.ran_ns <= 0 and not verbose):
        return []
    lines = []
    once = sum(cost.parts.get(what, 0) for what in ONCE)
    worth = cost.total_ns - once
    least_ns = _LEAST_NS if cost.calls_ns is not None else _LEAST_WAIT_NS
    if verbose or worth >= max(least_ns, _LEAST * cost.ran_ns):
        lines += _all(cost, what, note)
    waited = cost.waited_ns
    if waited >= _LONG_NS or (lines and waited - once >= max(_LEAST * cost.ran_ns, _LEAST_NS)):
        lines.append(_waits(cost))
    if lines and cost.stolen_share >= _LEAST:
        part = share_text(cost.stolen_share)
        lines.append(f"the host took {part} of the processors' time: times are longer by as much")
    return lines


def _all(cost: Price, what: str, note: str) -> list[str]:
    each = ""
    if cost.call_ns is not None:
        least = f"at least {cost.call_ns:.0f} ns" if cost.call_ns >= 1 else "less than 1 ns"
        each = f"{least} a call"
    if not cost.total_ns:
        return [f"{what} cost the program {each}{note}"] if each else []
    parts = [each] if each else []
    all_of_it = f"{time_text(cost.total_ns)} in all"
    if cost.calls_ns is not None and cost.waited_ns:
        all_of_it += " with its waits"
    parts.append(all_of_it)
    if cost.ran_ns > 0:
        ran = f"{share_text(cost.share)} of the time it ran"
        if cost.share > 1:  # several threads at once
            ran = f"in threads of a program that ran {time_text(cost.ran_ns)}"
        parts.append(ran)
    start = cost.parts.get(START, 0)
    if start >= _LARGE * cost.total_ns:
        parts.append(f"{time_text(start)} of it at the start")
    return [f"{what} cost the program {', '.join(parts)}{note}"]


def _waits(cost: Price) -> str:
    """Return a line with the time that threads waited, the main reason, and what would help."""
    what, most = cost.largest_wait
    waited, ran = cost.waited_ns, cost.ran_ns
    of = f"{time_text(waited)} of {time_text(ran)}"
    who = "the program waited"
    if waited > ran:
        who, of = "threads of the program waited", f"{time_text(waited)} in {time_text(ran)}"
    for_what = _FOR.get(what, f"for {what}")
    if most < waited * 0.95:
        for_what = f"{time_text(most)} of it {for_what}"
        of += ","
    line = f"{who} {of} {for_what}"
    if what in (PRINT, READER) and cost.faster_ns is not None:
        return f"{line}; --record FILE takes about {time_text(cost.faster_ns)}"
    return f"{line}; {_INSTEAD[what]}" if what in _INSTEAD else line


def look_lines(cost: Price) -> list[str]:
    """Return the line about the wait of a program that was only looked at, if the wait was long."""
    if cost.waited_ns < _LONG_NS:
        return []
    return [f"the program waited {time_text(cost.waited_ns)} {_FOR[cost.largest_wait[0]]}"]


def waits_so_far(cost: Price) -> str:
    """Return a line about the waits of the running programs, the reason, and possible remedies."""
    what, _ = cost.largest_wait
    line = f"the program has waited {time_text(cost.waited_ns)} so far, most of it {_FOR[what]}"
    return f"{line}; {_INSTEAD[what]}" if what in _INSTEAD else line


def share_text(part: float) -> str:
    """Return a fraction in percent."""
    return "less than 0.1 %" if part < 0.001 else f"{100 * part:.3g} %"


# The outcome of a session, whatever its instruments have measured.

# Why a session stopped recording before its programs ended. "" means that it did not.
STOPPED_DURATION = "duration"  # --duration
STOPPED_LIMIT = "limit"  # --max-size
STOPPED_FULL = "full"  # --when-full=stop

# The option is printed, because the user asked for the stop.
_ENDED = {
    STOPPED_DURATION: "ended by --duration",
    STOPPED_LIMIT: "ended by --max-size",
    STOPPED_FULL: "ended by --when-full",
}


class ProgramOutcome(Record):
    """One observed program: the contents of one control block at the end.

    `index` is its number in the recording, and the `process` of its images and slots. `path` is
    the file that was run. `images` are all images that were seen.
    """

    index: int
    path: str
    images: list[TracedImage]

    @property
    def key(self) -> tuple[object, ...]:
        """The key that two runs of one program share: the program and the files of its images."""
        return (self.path, *((image.name, image.path, image.identity) for image in self.images))


class AttachedOutcome(Record):
    """A process that was attached to, and goes on.

    `has_ended` is set if it does not go on, or if it runs another program by now. `executed` is
    that program, or None if the process ended. `longest_stop_ns` is the longest time that one of
    its threads was stopped. `restored` counts the words that have their old value again, and
    `left` those that other code has changed meanwhile. `kept` counts the words by which unwinders
    still ask the agent, because calls may return through it. `failure` tells why the agent could
    not be taken out. `is_exit_known` is set if its exit status is known.
    """

    pid: int
    has_ended: bool
    executed: str | None
    longest_stop_ns: int
    restored: int
    kept: int
    left: int
    failure: str | None
    is_exit_known: bool = False

    @property
    def lacking(self) -> str:
        """Return a line if the process has executed a program that was not observed, else ""."""
        if self.executed is None:
            return ""
        what = f"process {self.pid} has executed {self.executed}"
        return f"{what}, which is not traced: -f follows what it executes"


class ChildPrograms(Record):
    """Programs that children of the observed programs have executed without being followed.

    The agents in the children report them. `count` is the number of programs, `names` has the
    names of most of them, each once. `can_follow` is set if they would have been observed with
    `-f`.
    """

    MOST_NAMES = 6  # names in a line

    count: int = 0
    names: list[str] = fresh(list)
    can_follow: bool = True

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


class EngineVerdict(Record):
    """The result of comparing two engines: `line` is to be shown, `is_same` if they agree."""

    line: str
    is_same: bool


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
    observed. `lacking` are lines that tell what was to be observed and was not, such as the
    children of a program that needs ptrace itself. `arch` and `engine` are as in `ProcessStart`.
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
        "lacking",
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
        self.lacking: list[str] = []
        self.executed = ChildPrograms()
        self.arch = self.engine = ""
        self.is_left = False
        self.verdict: EngineVerdict | None = None
        self.cost: Price | None = None

    @property
    def is_whole(self) -> bool:
        """Return whether everything that should be observed was observed."""
        return not (self.untraced or self.lacking or self.is_left)

    @property
    def told_by_report(self) -> list[str]:
        """Return `lacking` if the recording has no name: only its report was shown, and has it."""
        return self.lacking if (self.record or "").startswith("/proc/self/fd/") else []

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
