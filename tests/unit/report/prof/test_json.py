# SPDX-License-Identifier: Apache-2.0
"""The document of a profile: its fields, their order, what is said where nothing is known."""

from __future__ import annotations

import json
from typing import Any

from soscope.instruments.prof.model import (
    CUT,
    NOBODY,
    ProfArc,
    ProfFunction,
    Profile,
    ProfSample,
    ProfSums,
    ProfThread,
)
from soscope.model.call import StackFrame
from soscope.report.prof import document


def test_an_empty_profile() -> None:
    assert json.loads(document(Profile(["true"], status=0))) == {
        "schema": "soscope/prof-report/1",
        "command": ["true"],
        "exit": {"status": 0, "signal": None},
        "state": "complete",
        "mode": None,
        "boundary": None,
        "sample_ns": None,
        "functions": [],
        "arcs": [],
        "sampled": [],
        "samples": [],
        "totals": {
            "calls": 0,
            "dropped": 0,
            "threads": None,
            "waited_ns": 0,
            "waited_of_ns": 0,
            "waits_unknown": 0,
        },
        "cost": None,
        "executed_by_children": {"programs": 0, "names": [], "can_follow": True},
        "notes": [],
    }


def _profile() -> Profile:
    profile = Profile(["prog", "1"], state=CUT, signal="SIGKILL", mode="time", sample_ns=10_000_000)
    profile.functions = [
        ProfFunction("libx.so", "cheap", 0x1130, 16),
        ProfFunction("libx.so", "dear", 0x1140, 64, "/lib/libx.so", "x.c", 12),
        ProfFunction("libx.so", "unknown", 0x1180, 8),
        ProfFunction("prog", "main"),
    ]
    profile.sums = [
        ProfSums(1 << 40, 20, 10, 5),
        ProfSums(2, 1000, 900, 9, 300),
        ProfSums(),
        ProfSums(),
    ]
    profile.arcs = [ProfArc(0, 2, None), ProfArc(3, 1, 2, 1000, 900), ProfArc(NOBODY, 0, 1 << 40)]
    profile.threads = [ProfThread(7, 7), ProfThread(7, 8, "worker"), ProfThread(7, 7)]
    frame = StackFrame("libx.so", "dear", 4, "x.c", 13)
    profile.samples = [
        ProfSample(0, (frame,), 1),
        ProfSample(1, (frame, StackFrame(None, None, None)), 5),
    ]
    profile.calls = (1 << 40) + 2
    profile.dropped = 3
    profile.notes = ["a note"]
    return profile


def test_largest_self_time_comes_first() -> None:
    said: dict[str, Any] = json.loads(document(_profile()))
    assert [row["symbol"] for row in said["functions"]] == ["dear", "cheap", "unknown"]
    assert said["functions"][0] == {
        "image": "libx.so",
        "symbol": "dear",
        "addr": "0x1140",
        "file": "x.c",
        "line": 12,
        "calls": 2,
        "total_ns": 1000,
        "self_ns": 900,
        "overhead_ns": 9,
        "doubt_ns": 300,
    }
    assert said["functions"][2]["calls"] is None
    assert said["state"] == "cut"
    assert said["exit"] == {"status": None, "signal": "SIGKILL"}
    assert said["totals"] == {
        "calls": (1 << 40) + 2,
        "dropped": 3,
        "threads": 2,
        "waited_ns": 0,
        "waited_of_ns": 0,
        "waits_unknown": 0,
    }


def test_what_may_be_as_wrong_as_it_is_long_comes_last() -> None:
    profile = _profile()
    profile.sums[1].doubt_ns = 900
    said: dict[str, Any] = json.loads(document(profile))
    assert [row["symbol"] for row in said["functions"]] == ["cheap", "dear", "unknown"]


def test_a_caller_outside_is_its_image_and_symbol() -> None:
    dear, cheap, unknown = json.loads(document(_profile()))["arcs"]
    assert (dear["caller_image"], dear["caller"], dear["callee"]) == ("prog", "main", "dear")
    assert (dear["callee_addr"], unknown["caller_addr"]) == ("0x1140", cheap["callee_addr"])
    assert cheap["caller_addr"] is None
    assert (dear["calls"], dear["total_ns"], dear["self_ns"]) == (2, 1000, 900)
    assert (cheap["caller_image"], cheap["caller"], cheap["calls"]) == (None, None, 1 << 40)
    assert (unknown["caller"], unknown["callee"], unknown["calls"]) == ("cheap", "unknown", None)


def test_what_share_of_a_run_was_sampled() -> None:
    profile = _profile()
    profile.processor_ns, profile.hooks_ns = 100_000_000, 20_000_000
    weight = sum(sample.weight for sample in profile.samples)
    assert json.loads(document(profile))["run"] == {
        "chosen": False,
        "processor_ns": 100_000_000,
        "hooks_ns": 20_000_000,
        "sampled_ns": weight * 10_000_000,
        "share": weight * 10_000_000 / 80_000_000,
        "not_sampled": [],
    }
    profile.processor_ns = 1  # it ended between two looks
    assert json.loads(document(profile))["run"]["share"] == 1


def test_samples_say_thread_and_frames() -> None:
    often, once = json.loads(document(_profile()))["samples"]
    assert (often["thread"], often["weight"], once["thread"], once["weight"]) == (8, 5, 7, 1)
    assert often["frames"] == [
        {"image": "libx.so", "symbol": "dear", "file": "x.c", "line": 13},
        {"image": None, "symbol": None, "file": None, "line": None},
    ]
