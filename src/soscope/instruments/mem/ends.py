# SPDX-License-Identifier: Apache-2.0
"""How the processes of a recording ended, and whether the recording goes on to there."""

from __future__ import annotations

import signal

from soscope.instruments.mem.model import COMPLETE, CUT, DISK_FULL, Cut, EndOf, MemProcess
from soscope.model.call import ProcessExit, ProcessStart
from soscope.recording.reader import RecordingFile


def processes_of(recording: RecordingFile) -> list[MemProcess]:
    """Return the processes in the order in which they began."""
    known: dict[int, MemProcess] = {}
    command = [str(word) for word in recording.meta.get("command") or ()]
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
            known[event.pid].exit = EndOf(event.status, signal_name(event.signal))
    for process in known.values():
        _judge(recording, process)
    return list(known.values())


def _judge(recording: RecordingFile, process: MemProcess) -> None:
    """Say whether all of a process is in the recording, and what cut it."""
    full = recording.trouble
    if full is not None:
        process.state = DISK_FULL if full.is_full else CUT
        process.cut = Cut(full.at_byte, full.why)
    elif process.exit is not None and recording.damage is None:
        process.state = COMPLETE
    else:
        why = recording.damage or (recording.why if recording.end is None else "")
        stopped = str((recording.end or {}).get("why") or "")
        process.cut = Cut(recording.sound_bytes, why or stopped or "its end was not seen")


def signal_name(number: int | None) -> str | None:
    """Return what a signal is called."""
    if number is None:
        return None
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"SIG{number}"
