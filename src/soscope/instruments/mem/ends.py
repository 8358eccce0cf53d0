# SPDX-License-Identifier: Apache-2.0
"""Ends of the processes of a recording, and whether the recording reaches them."""

from __future__ import annotations

from soscope.control.outcome import STOPPED_DURATION
from soscope.instruments.mem.model import COMPLETE, CUT, DISK_FULL, Cut, EndOf, MemProcess
from soscope.model.call import ProcessExit, ProcessStart
from soscope.proc.status import signal_name
from soscope.recording.reader import RecordingFile

_LEFT = ("detached", STOPPED_DURATION)


def processes_of(recording: RecordingFile) -> list[MemProcess]:
    """Return the processes in the order in which they began."""
    known: dict[int, MemProcess] = {}
    command = command_of(recording)
    for event in recording.events:
        if isinstance(event, ProcessStart):
            process = known.get(event.pid)
            if event.event == "exec":
                own = [event.program]
            elif event.parent in known:
                own = known[event.parent].command
            else:
                own = command
            if process is None or event.event != "exec":
                known[event.pid] = MemProcess(event.pid, event.parent, own)
            else:
                process.command = own
        elif isinstance(event, ProcessExit) and event.pid in known:
            killed = event.signal
            name = None if killed is None else signal_name(killed)
            known[event.pid].exit = EndOf(event.status, name)
    for process in known.values():
        judge(recording, process)
    return list(known.values())


def judge(recording: RecordingFile, process: MemProcess) -> None:
    """Set the state of a process: whether all of it is in the recording, and else what cut it.

    Damage to records of single events is only known when the records have been read.
    """
    full = recording.trouble
    if full is not None:
        process.state = DISK_FULL if full.is_full else CUT
        process.cut = Cut(full.at_byte, full.why)
    elif (
        recording.damage is None
        and recording.end is not None  # facts about a process may be recorded after its end
        and (process.exit is not None or _was_left(recording))
    ):
        process.state = COMPLETE
    else:
        process.state = CUT
        why = recording.damage or (recording.why if recording.end is None else "")
        stopped = str((recording.end or {}).get("why") or "")
        process.cut = Cut(recording.sound_bytes, why or stopped or "its end was not seen")


def _was_left(recording: RecordingFile) -> bool:
    """Return whether a recording of running processes reaches the moment of detaching."""
    options = recording.meta.get("options")
    is_attached = isinstance(options, dict) and bool(options.get("processes"))
    end = recording.end
    return is_attached and end is not None and end.get("why") in _LEFT


def command_of(recording: RecordingFile) -> list[str]:
    """Return the command line of a recording, also that of a process that ran already."""
    words = recording.meta.get("command")
    options = recording.meta.get("options")
    blocks = options.get("blocks") if isinstance(options, dict) else None
    if not words and isinstance(blocks, dict):
        words = blocks.get("command")
    return [str(word) for word in words] if isinstance(words, list) else []
