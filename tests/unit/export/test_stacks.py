# SPDX-License-Identifier: Apache-2.0
"""Profiles as stacks with weights: speedscope, the Firefox Profiler, folded stacks."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from soscope.export import firefox, folded, speedscope
from soscope.export.profiles import ExportSettings
from soscope.instruments.prof.model import NOBODY, ProfArc, Profile
from tests.support.files import profiles
from tests.support.files.profiles import SEEN, WAYS


def written(module: Any, profile: Profile, weight: str | None = None) -> tuple[str, list[str]]:
    parts: list[bytes] = []
    notes = module.export_profile(profile, parts.append, ExportSettings(weight=weight))
    return b"".join(parts).decode(), notes


def by_stack(stacks: profiles.Stacks, which: int) -> Counter[tuple[str, ...]]:
    """Return the counts or the times of stacks, whatever their threads."""
    found: Counter[tuple[str, ...]] = Counter()
    for (_, stack), values in stacks.items():
        found[stack] += values[which]
    return found


def weighed(document: dict[str, Any], name: str, unit: str) -> Counter[tuple[str, ...]]:
    """Return the stacks of one of speedscope's profiles, and check what its schema wants."""
    frames = document["shared"]["frames"]
    assert all(set(frame) <= {"name", "file", "line", "col"} for frame in frames)
    (profile,) = [one for one in document["profiles"] if one["name"] == name]
    assert set(profile) == {
        "type", "name", "unit", "startValue", "endValue", "samples", "weights",
    }  # fmt: skip
    assert profile["type"] == "sampled"
    assert profile["unit"] == unit
    assert len(profile["samples"]) == len(profile["weights"])
    assert profile["endValue"] - profile["startValue"] == sum(profile["weights"])
    found: Counter[tuple[str, ...]] = Counter()
    for stack, weight in zip(profile["samples"], profile["weights"], strict=True):
        found[tuple(frames[frame]["name"] for frame in stack)] += weight
    return found


def of_thread(stacks: profiles.Stacks, tid: int, which: int) -> dict[tuple[str, ...], int]:
    return {stack: values[which] for (thread, stack), values in stacks.items() if thread == tid}


def test_speedscope_has_times_and_calls_by_thread() -> None:
    text, notes = written(speedscope, profiles.both())
    document = json.loads(text)
    assert notes == []
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    for stacks, tail, count in ((WAYS, "", ": calls"), (SEEN, " (samples)", " (samples): samples")):
        for name, tid in (("python3 100/100", 100), ("worker 100/101", 101)):
            timed = weighed(document, name + tail, "nanoseconds")
            assert timed == of_thread(stacks, tid, 1)
            counts = weighed(document, name + count, "none")
            assert counts == of_thread(stacks, tid, 0)
    assert len(document["profiles"]) == 8
    (main,) = [one for one in document["shared"]["frames"] if one["name"] == "main"]
    assert (main["file"], main["line"]) == ("run.py", 7)


def test_speedscope_without_times_has_calls_alone() -> None:
    text, notes = written(speedscope, profiles.counted())
    document = json.loads(text)
    found = weighed(document, "all threads", "none")
    assert found["parse", "step"] == 10_000_000_000
    assert found["fib",] == 1
    assert found["fib", "fib"] == 8
    assert sum(found.values()) == 10_000_000_072
    assert notes == [
        "of 4 functions only the callers are known: each of their stacks has two frames"
    ]


def firefox_stacks(document: dict[str, Any]) -> dict[tuple[str, str], Counter[tuple[str, ...]]]:
    """Return the stacks of each thread with their weights, ms; by name and kind of weight."""
    found = {}
    for thread in document["threads"]:
        strings, functions, frames = (
            thread["stringArray"],
            thread["funcTable"],
            thread["frameTable"],
        )
        stacks, samples = thread["stackTable"], thread["samples"]
        for table in (functions, frames, stacks, samples, thread["resourceTable"]):
            columns = [column for column in table.values() if isinstance(column, list)]
            assert {len(column) for column in columns} <= {table["length"]}
        whole: list[tuple[str, ...]] = []
        for prefix, frame in zip(stacks["prefix"], stacks["frame"], strict=True):
            name = strings[functions["name"][frames["func"][frame]]]
            whole.append((name,) if prefix is None else (*whole[prefix], name))
        assert samples["time"] == sorted(samples["time"])
        counted: Counter[tuple[str, ...]] = Counter()
        for stack, weight in zip(samples["stack"], samples["weight"], strict=True):
            counted[whole[stack]] += weight
        found[thread["name"], samples["weightType"]] = counted
    return found


def test_firefox_has_times_and_calls_by_thread() -> None:
    text, notes = written(firefox, profiles.both())
    document = json.loads(text)
    found = firefox_stacks(document)
    for stacks, tail, count in ((WAYS, "", ": calls"), (SEEN, " (samples)", " (samples): samples")):
        for name, tid in (("python3 100/100", 100), ("worker 100/101", 101)):
            times = found[name + tail, "tracing-ms"]
            expected = of_thread(stacks, tid, 1)
            assert {stack: round(ms * 1e6) for stack, ms in times.items()} == expected
            assert found[name + count, "samples"] == of_thread(stacks, tid, 0)
    assert len(found) == 8
    assert notes == [
        "a profile has no times of single calls: the order of the samples means nothing"
    ]
    own = {thread["tid"]: thread["name"] for thread in document["threads"]}
    assert (own[100], own[101]) == ("python3 100/100", "worker 100/101")
    assert len(own) == 8
    assert [thread["name"] for thread in document["threads"] if thread["isMainThread"]] == [
        own[100]
    ]


def test_firefox_without_times_weighs_calls() -> None:
    text, _ = written(firefox, profiles.counted())
    found = firefox_stacks(json.loads(text))
    assert found["all threads", "samples"]["parse", "step"] == 10_000_000_000


def folded_stacks(text: str) -> Counter[tuple[str, ...]]:
    found: Counter[tuple[str, ...]] = Counter()
    for line in text.splitlines():
        stack, _, weight = line.rpartition(" ")
        root, *frames = stack.split(";")
        assert root == "python3"
        names = tuple(frame.rpartition("`")[2].partition(" (")[0] for frame in frames)
        assert names not in found
        found[names] += int(weight)
    return found


@pytest.mark.parametrize(
    ("weight", "stacks", "which"),
    [(None, WAYS, 1), ("ns", WAYS, 1), ("calls", WAYS, 0), ("samples", SEEN, 0)],
)
def test_folded_stacks_weigh_what_is_asked_for(
    weight: str | None, stacks: profiles.Stacks, which: int
) -> None:
    text, notes = written(folded, profiles.both(), weight)
    assert folded_stacks(text) == by_stack(stacks, which)
    (note,) = notes
    assert "; there is more with --weight" in note
    assert f"--weight {weight or 'ns'}" not in note


def test_folded_frames_name_image_or_line() -> None:
    text, notes = written(folded, profiles.sampled())
    assert "python3;main (run.py:7);libpython3.11.so`run;libwork.so`parse 5\n" in text
    assert "python3;libwork.so`0x1234 7\n" in text
    assert notes == ["what weighs are samples"]


def test_arcs_of_unknown_calls_are_counted() -> None:
    profile = profiles.counted()
    profile.arcs[2].calls = None
    text, notes = written(folded, profile)
    assert "mul" not in text
    assert "1 arcs are left out: their calls are not counted" in notes


def test_functions_without_a_tree_stand_beside_the_trees() -> None:
    """Where a boundary was counted and a library timed, nothing is lost and nothing twice."""
    profile = profiles.trees()
    profile.functions.append(profile.functions[profiles.MUL])
    profile.arcs.append(ProfArc(profiles.STEP, 5, 17))
    text, notes = written(folded, profile, "calls")
    found = folded_stacks(text)
    assert found["step", "mul"] == 17
    assert sum(found.values()) == sum(calls for calls, _ in WAYS.values()) + 17
    assert "of 1 functions only the callers are known" in notes[1]

    profile.arcs.append(ProfArc(NOBODY, profiles.CALL, 4))  # the outside's own
    text, _ = written(folded, profile, "calls")
    assert folded_stacks(text)["PyObject_Call",] == 4


def test_functions_without_names_are_places_or_images() -> None:
    profile = profiles.counted()
    profile.functions[profiles.STEP].symbol = "?"
    profile.functions[profiles.CALL].symbol = ""
    text, _ = written(folded, profile)
    assert "python3;python3.11`?;libwork.so`parse 3\n" in text
    assert "python3;libwork.so`parse;libwork.so`0x1170 10000000000\n" in text
