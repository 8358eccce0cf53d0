# SPDX-License-Identifier: Apache-2.0
"""Conversion of process events to the JSON objects of EVENTS blocks, and back."""

from __future__ import annotations

from soscope.model.call import ProcessExit, ProcessStart, Signal
from soscope.recording.sink import Stop, Told


def to_json(event: Told) -> dict[str, object]:
    """Return the JSON object for `event`."""
    if isinstance(event, Signal):
        return {
            "type": "signal",
            "time_ns": event.time_ns,
            "pid": event.pid,
            "tid": event.tid,
            "signal": event.signal,
        }
    if isinstance(event, ProcessStart):
        said: dict[str, object] = {
            "type": "process",
            "time_ns": event.time_ns,
            "pid": event.pid,
            "event": event.event,
            "parent": event.parent,
            "program": event.program,
        }
        if event.arch:
            said |= {"arch": event.arch, "engine": event.engine}
        return said
    return {
        "type": "exit",
        "time_ns": event.time_ns,
        "pid": event.pid,
        "status": event.status,
        "signal": event.signal,
    }


def thread_end_to_json(time_ns: int, pid: int, tid: int) -> dict[str, object]:
    """Return the JSON object for the end of a thread."""
    return {"type": "thread-end", "time_ns": time_ns, "pid": pid, "tid": tid}


def stop_to_json(stop: Stop) -> dict[str, object]:
    """Return the JSON object for the end of the recording."""
    return {
        "type": "stop",
        "time_ns": stop.time_ns,
        "tsc": stop.tsc,
        "program": stop.program,
    }


def _integer(said: dict[str, object], name: str) -> int:
    value = said.get(name)
    if not isinstance(value, int) or abs(value) >> 63:
        raise ValueError(f"{name} is not an integer")
    return value


def _integer_or_none(said: dict[str, object], name: str) -> int | None:
    return None if said.get(name) is None else _integer(said, name)


def from_json(said: object) -> Told | Stop | tuple[int, int, int] | None:
    """Return the event of a JSON object. The end of a thread is (time_ns, pid, tid).

    Return None for an unknown type. Raises ValueError if a field is invalid.
    """
    if not isinstance(said, dict):
        raise ValueError("an event is not an object")  # noqa: TRY004  the file's fault
    kind = str(said.get("type"))
    if kind == "stop":
        return Stop(
            _integer(said, "time_ns"), _integer(said, "tsc"), _integer_or_none(said, "program")
        )
    if kind not in {"signal", "process", "exit", "thread-end"}:
        return None
    time_ns, pid = _integer(said, "time_ns"), _integer(said, "pid")
    if kind == "signal":
        return Signal(time_ns, pid, _integer(said, "tid"), _integer(said, "signal"))
    if kind == "thread-end":
        return time_ns, pid, _integer(said, "tid")
    if kind == "process":
        return ProcessStart(
            time_ns,
            pid,
            str(said.get("event")),
            _integer_or_none(said, "parent"),
            str(said.get("program")),
            str(said.get("arch", "")),
            str(said.get("engine", "")),
        )
    return ProcessExit(
        time_ns, pid, _integer_or_none(said, "status"), _integer_or_none(said, "signal")
    )
