# SPDX-License-Identifier: Apache-2.0
"""Profiles as protobuf messages: pprof's and OpenTelemetry's."""

from __future__ import annotations

import gzip
from typing import Any

from soscope.export import otlp, pprof
from soscope.export.profiles import ExportSettings
from soscope.instruments.prof.model import Profile
from tests.support.files import profiles
from tests.support.files.profiles import SEEN, WAYS
from tests.support.truth import protoread

# type of a value, unit, thread -> stack -> value
Found = dict[tuple[str, str], dict[tuple[int, tuple[str, ...]], int]]

EXPECTED: Found = {
    ("calls", "count"): {stack: calls for stack, (calls, _) in WAYS.items()},
    ("time", "nanoseconds"): {stack: ns for stack, (_, ns) in WAYS.items()},
    ("samples", "count"): {stack: number for stack, (number, _) in SEEN.items()},
    ("sampled_time", "nanoseconds"): {stack: ns for stack, (_, ns) in SEEN.items()},
}


def written(module: Any, profile: Profile) -> bytes:
    parts: list[bytes] = []
    module.export_profile(profile, parts.append, ExportSettings())
    return b"".join(parts)


def of_pprof(profile: Profile) -> dict[str, Any]:
    return protoread.read(gzip.decompress(written(pprof, profile)), protoread.PPROF, "Profile")


def pprof_stacks(message: dict[str, Any]) -> Found:
    strings = message["string_table"]
    assert not strings[0]
    assert len(set(strings)) == len(strings)
    tables = {}
    for table in ("mapping", "location", "function"):
        tables[table] = {one["id"]: one for one in message[table]}
        assert 0 not in tables[table]
        assert len(tables[table]) == len(message[table])
    names = {}
    for number, location in tables["location"].items():
        assert location["mapping_id"] in {0, *tables["mapping"]}
        (line,) = location["line"]
        names[number] = strings[tables["function"][line["function_id"]]["name"]]
    types = [(strings[one["type"]], strings[one["unit"]]) for one in message["sample_type"]]
    found: Found = {one: {} for one in types}
    for sample in message["sample"]:
        labels = {strings[one["key"]]: one for one in sample["label"]}
        tid = labels["tid"]["num"] if labels else 0
        if labels:
            assert labels["pid"]["num"] == 100
            assert strings[labels["thread"]["str"]] == {100: "python3", 101: "worker"}[tid]
        stack = tuple(names[number] for number in reversed(sample["location_id"]))
        for kind, value in zip(types, sample["value"], strict=True):
            if value:
                assert (tid, stack) not in found[kind]
                found[kind][tid, stack] = value
    return found


def test_pprof_has_all_values_of_all_threads() -> None:
    message = of_pprof(profiles.both())
    assert pprof_stacks(message) == EXPECTED
    strings = message["string_table"]
    assert strings[message["default_sample_type"]] == "time"
    assert message["period"] == 10_000_000
    assert "/usr/bin/python3 run.py" in strings[message["comment"][0]]
    (parse,) = [
        one
        for one in message["location"]
        if one["address"] == 0x1139 and one["line"][0]["line"] == 12
    ]
    mapping = message["mapping"][parse["mapping_id"] - 1]
    assert strings[mapping["filename"]] == profiles.WORK
    assert mapping["memory_limit"] > 0x11A0
    function = message["function"][parse["line"][0]["function_id"] - 1]
    assert strings[function["filename"]] == "work.c"


def test_pprof_without_times_has_calls_alone() -> None:
    message = of_pprof(profiles.counted())
    found = pprof_stacks(message)
    assert set(found) == {("calls", "count")}
    assert found["calls", "count"][0, ("parse", "step")] == 10_000_000_000
    assert message["string_table"][message["default_sample_type"]] == "calls"


def of_otlp(profile: Profile) -> dict[str, Any]:
    return protoread.read(written(otlp, profile), protoread.OTLP, "ProfilesData")


def otlp_stacks(data: dict[str, Any]) -> Found:
    tables = data["dictionary"]
    strings = tables["string_table"]
    assert not strings[0]
    for name, table in tables.items():  # 0 means that there is none
        if name != "string_table":
            assert not any(table[0].values()), name
    (resource,) = data["resource_profiles"]
    (scope,) = resource["scope_profiles"]
    assert scope["scope"]["name"] == "soscope"
    found: Found = {}
    identities = set()
    for profile in scope["profiles"]:
        of = profile["sample_type"]
        kind = strings[of["type_strindex"]], strings[of["unit_strindex"]]
        stacks = found[kind] = {}
        assert len(profile["profile_id"]) == 16
        identities.add(profile["profile_id"])
        for sample in profile["samples"]:
            said = {}
            for number in sample["attribute_indices"]:
                attribute = tables["attribute_table"][number]
                (value,) = attribute["value"].values()
                said[strings[attribute["key_strindex"]]] = value
            stack = []
            for number in tables["stack_table"][sample["stack_index"]]["location_indices"]:
                (line,) = tables["location_table"][number]["lines"]
                function = tables["function_table"][line["function_index"]]
                stack.append(strings[function["name_strindex"]])
            (stacks[said.get("thread.id", 0), tuple(reversed(stack))],) = sample["values"]
    assert len(identities) == len(found)
    return found


def test_otlp_has_a_profile_for_each_kind_of_value() -> None:
    data = of_otlp(profiles.both())
    found = otlp_stacks(data)
    assert found == EXPECTED
    assert next(iter(found)) == ("time", "nanoseconds")  # what is shown first
    said = {
        one["key"]: one["value"] for one in data["resource_profiles"][0]["resource"]["attributes"]
    }
    assert said["service.name"] == {"string_value": "python3"}
    assert said["process.pid"] == {"int_value": 100}
    tables = data["dictionary"]
    files = [
        tables["string_table"][one.get("filename_strindex", 0)] for one in tables["mapping_table"]
    ]
    places = {(files[one["mapping_index"]], one["address"]) for one in tables["location_table"][1:]}
    assert (profiles.MATH, 0x2000) in places


def test_otlp_without_times_has_calls_alone() -> None:
    found = otlp_stacks(of_otlp(profiles.counted()))
    assert set(found) == {("calls", "count")}
    assert found["calls", "count"][0, ("fib", "fib")] == 8


def test_odd_names_are_text() -> None:
    """A symbol may be any bytes; those that are no UTF-8 come as surrogates."""
    profile = profiles.counted()
    profile.functions[profiles.STEP].symbol = "st\udcffep"
    strings = of_pprof(profile)["string_table"]
    assert "st?ep" in strings
    assert "st?ep" in of_otlp(profile)["dictionary"]["string_table"]
