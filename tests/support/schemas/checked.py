# SPDX-License-Identifier: Apache-2.0
"""What `--json` promises, member by member: names, order and types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Check = Callable[[Any], bool]


def _is(*types: type) -> Check:
    return lambda value: type(value) in types


def _one_of(*values: str | None) -> Check:
    return lambda value: value in values


def _list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _object(members: Mapping[str, Check]) -> Check:
    return lambda value: isinstance(value, dict) and not wrong_members(value, members)


def _address(value: object) -> bool:
    return isinstance(value, str) and value == hex(int(value, 16))


NONE = type(None)
TEXT, NUMBER = _is(str), _is(int)
TEXT_OR_NULL, NUMBER_OR_NULL = _is(str, NONE), _is(int, NONE)
VALUE = {"type": TEXT, "text": TEXT, "value": _is(int, float, str, NONE)}
ARGUMENT = {"name": TEXT_OR_NULL, **VALUE}
STRING = {
    "cut": lambda value: value is True,
    "bytes": lambda value: bytes.fromhex(value).hex() == value,
    "guess": lambda value: value is True,
}
FUNCTION = {"caller": TEXT_OR_NULL, "callee": TEXT, "symbol": TEXT, "version": TEXT}


def _value(value: dict[str, Any]) -> bool:
    more = {name: check for name, check in STRING.items() if name in value}
    return not wrong_members(value, {**VALUE, **more})


def _argument(value: dict[str, Any]) -> bool:
    more = {name: check for name, check in STRING.items() if name in value}
    if "out" in value:
        more["out"] = _argument
    return not wrong_members(value, {**ARGUMENT, **more})


FRAME: dict[str, Check] = {
    "image": TEXT_OR_NULL,
    "symbol": TEXT_OR_NULL,
    "offset": NUMBER_OR_NULL,
    "file": TEXT_OR_NULL,
    "line": NUMBER_OR_NULL,
}
STACK = _list_of(_object(FRAME))  # a member of calls with -k

COST: dict[str, Check] = {
    "ran_ns": NUMBER,
    "cost_ns": NUMBER,
    "call_ns": lambda value: value is None or isinstance(value, float),
    "calls_ns": NUMBER_OR_NULL,
    "waited_ns": NUMBER,
    "waited_for": TEXT_OR_NULL,
    "parts_ns": lambda value: all(isinstance(ns, int) for ns in value.values()),
    "recorded_ns": NUMBER_OR_NULL,
    "stolen_ns": NUMBER,
    "stolen_of_ns": NUMBER,
}
EXECUTED: dict[str, Check] = {
    "programs": NUMBER,
    "names": _list_of(TEXT),
    "can_follow": _is(bool),
}

LINES: dict[str, dict[str, Check]] = {
    "call": {
        "type": TEXT,
        "time_ns": NUMBER,
        "pid": NUMBER,
        "tid": NUMBER,
        **FUNCTION,
        "depth": NUMBER,
        "args": _list_of(_argument),
        "result": lambda value: value is None or _value(value),
        "errno": TEXT_OR_NULL,
        "duration_ns": NUMBER_OR_NULL,
        "return_addr": _address,
        "ended": _one_of("return", "unwound", "exit", "killed", "lost", None),
    },
    "return": {
        "type": TEXT,
        "time_ns": NUMBER,
        "pid": NUMBER,
        "tid": NUMBER,
        **FUNCTION,
        "call_pid": NUMBER,
        "call_tid": NUMBER,
        "call_time_ns": NUMBER,
        "result": lambda value: value is None or _value(value),
        "errno": TEXT_OR_NULL,
        "duration_ns": NUMBER_OR_NULL,
        "return_addr": _address,
        "ended": _one_of("return"),
    },
    "signal": {
        "type": TEXT,
        "time_ns": NUMBER,
        "pid": NUMBER,
        "tid": NUMBER,
        "signal": TEXT,
    },
    "process": {
        "type": TEXT,
        "time_ns": NUMBER,
        "pid": NUMBER,
        "event": _one_of("start", "fork", "exec"),
        "parent": NUMBER_OR_NULL,
        "program": TEXT,
        "arch": TEXT_OR_NULL,
        "engine": TEXT_OR_NULL,
    },
    "exit": {
        "type": TEXT,
        "time_ns": NUMBER,
        "pid": NUMBER,
        "status": NUMBER_OR_NULL,
        "signal": TEXT_OR_NULL,
    },
    "dropped": {"type": TEXT, "count": NUMBER, "why": TEXT},
    "executed_by_children": {"type": TEXT, **EXECUTED},
    "cost": {"type": TEXT, **COST},
}

SUMMARY: dict[str, Check] = {
    "schema": _one_of("soscope/trace-summary/1"),
    "command": _list_of(TEXT),
    "arch": TEXT_OR_NULL,
    "engine": TEXT_OR_NULL,
    "exit": _object({"status": NUMBER_OR_NULL, "signal": TEXT_OR_NULL}),
    "cost": lambda value: value is None or _object(COST)(value),
    "executed_by_children": _object(EXECUTED),
    "rows": _list_of(
        _object(
            {
                **FUNCTION,
                "calls": NUMBER,
                "errors": NUMBER_OR_NULL,
                "self_ns": NUMBER_OR_NULL,
                "total_ns": NUMBER_OR_NULL,
                "doubt_ns": NUMBER_OR_NULL,
                "min_ns": NUMBER_OR_NULL,
                "max_ns": NUMBER_OR_NULL,
                "lower_bound": _is(bool),
            }
        )
    ),
    "totals": _object(
        {
            "calls": NUMBER,
            "dropped": NUMBER,
            "complete": lambda value: isinstance(value, bool),
            "waited_ns": NUMBER,
            "waited_of_ns": NUMBER,
            "waits_unknown": NUMBER,
        }
    ),
    "images": _list_of(
        _object(
            {
                "name": TEXT,
                "path": TEXT,
                "hooked_slots": NUMBER,
                "not_hooked": _list_of(_object({"symbol": TEXT, "reason": TEXT})),
                "lower_bounds": _list_of(TEXT),
                "without_room": NUMBER,
            }
        )
    ),
}

# a name among the other names of checks
ADDRESS_OR_NULL: Check = lambda value: value is None or _address(value)  # noqa: E731  see above
RULES = (
    *("dlsym", "handle", "static", "debug-file", "minidebug", "dwarf", "perf-map", "jit", "vdso"),
    *("memory", None),
)
_CANDIDATE = _object(
    {
        "addr": ADDRESS_OR_NULL,
        "symbol": TEXT,
        "version": TEXT_OR_NULL,
        "image": TEXT_OR_NULL,
        "rule": _one_of(*RULES),
    }
)


RESOLVE: dict[str, Check] = {
    "schema": _one_of("soscope/resolve/1"),
    "pid": NUMBER,
    "results": _list_of(
        _object(
            {
                "query": TEXT,
                "status": _one_of(
                    "ok", "none", "ambiguous", "unbound", "not-allocated", "no-permission"
                ),
                "addr": ADDRESS_OR_NULL,
                "symbol": TEXT_OR_NULL,
                "version": TEXT_OR_NULL,
                "image": TEXT_OR_NULL,
                "image_path": TEXT_OR_NULL,
                "load_bias": ADDRESS_OR_NULL,
                "offset": NUMBER_OR_NULL,
                "kind": _one_of("function", "object", "ifunc", "tls", "plt", "absolute", "unknown"),
                "rule": _one_of(*RULES),
                "candidates": _list_of(_CANDIDATE),
                "provider": lambda value: value is None or _CANDIDATE(value),
                "value": _is(int, float, str, list, NONE),
            }
        )
    ),
}

DETACH: dict[str, Check] = {
    "schema": _one_of("soscope/detach/1"),
    "pid": NUMBER,
    "agents": _list_of(
        _object(
            {
                "base": _address,
                "build_id": TEXT,
                "restored": NUMBER,
                "returns": NUMBER,
                "left": _list_of(_object({"addr": _address, "value": _address})),
                "kept": NUMBER,
            }
        )
    ),
    "inert": NUMBER,
    "remains": _list_of(
        _object(
            {
                "base": _address,
                "mappings": NUMBER,
                "bytes": NUMBER,
                "rss_bytes": NUMBER,
                "why": TEXT_OR_NULL,
            }
        )
    ),
    "closed": _list_of(TEXT),
    "left_loaded": _list_of(TEXT),
    "longest_stop_ns": NUMBER,
}


def wrong_members(found: Mapping[str, Any], promised: Mapping[str, Check]) -> list[str]:
    """Return one line for each member that is missing, new, misplaced or of another type."""
    lines = []
    if list(found) != list(promised):
        lines.append(f"members are {list(found)}, promised {list(promised)}")
    lines += [
        f"{name} is {found[name]!r}"
        for name, check in promised.items()
        if name in found and not check(found[name])
    ]
    return lines


def wrong_line(line: Mapping[str, Any]) -> list[str]:
    """Say what is wrong with one object of JSON Lines."""
    promised = LINES.get(line.get("type", ""))
    if promised is None:
        return [f"unknown type in {line}"]
    if "failed" in line:
        promised = {**promised, "failed": lambda value: value is True}
    wrong = wrong_members(line, promised)
    if line["type"] == "call":
        has_end = line["ended"] == "return"
        if not has_end and (line["result"], line["errno"], line["duration_ns"]) != (None,) * 3:
            wrong.append("a call that did not return has a result, an error or a duration")
        if line["errno"] is not None and line["result"] is None:
            wrong.append("a call without a result has failed")
        if "failed" in line and not has_end:
            wrong.append("a call that did not return has failed")
        if line["depth"] < 0:
            wrong.append(f"depth is {line['depth']}")
    if line["type"] == "exit" and (line["status"] is None) == (line["signal"] is None):
        wrong.append("neither a status nor a signal, or both")
    return [f"{one} in {dict(line)}" for one in wrong]


def wrong_lines(lines: list[dict[str, Any]]) -> list[str]:
    """Say what is wrong with JSON Lines as a whole."""
    wrong = [one for line in lines for one in wrong_line(line)]
    times = [line["time_ns"] for line in lines if "time_ns" in line]
    if times != sorted(times):
        wrong.append("not ordered by time_ns")
    if [line["event"] for line in lines if line["type"] == "process"][:1] != ["start"]:
        wrong.append("the first process does not start")
    return wrong
