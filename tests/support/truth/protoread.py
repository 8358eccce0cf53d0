# SPDX-License-Identifier: Apache-2.0
"""Protobuf messages by tables of their fields, written down from the .proto files by hand.

A field that no table has, or that has another wire type, fails the test.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, dict[int, tuple[str, str]]]  # message -> number -> name and type

# google/pprof, proto/profile.proto
PPROF: Schema = {
    "Profile": {
        1: ("sample_type", "ValueType*"),
        2: ("sample", "Sample*"),
        3: ("mapping", "Mapping*"),
        4: ("location", "Location*"),
        5: ("function", "Function*"),
        6: ("string_table", "string*"),
        7: ("drop_frames", "int"),
        8: ("keep_frames", "int"),
        9: ("time_nanos", "int"),
        10: ("duration_nanos", "int"),
        11: ("period_type", "ValueType"),
        12: ("period", "int"),
        13: ("comment", "int*"),
        14: ("default_sample_type", "int"),
    },
    "ValueType": {1: ("type", "int"), 2: ("unit", "int")},
    "Sample": {1: ("location_id", "int*"), 2: ("value", "int*"), 3: ("label", "Label*")},
    "Label": {1: ("key", "int"), 2: ("str", "int"), 3: ("num", "int"), 4: ("num_unit", "int")},
    "Mapping": {
        1: ("id", "int"),
        2: ("memory_start", "int"),
        3: ("memory_limit", "int"),
        4: ("file_offset", "int"),
        5: ("filename", "int"),
        6: ("build_id", "int"),
        7: ("has_functions", "int"),
        8: ("has_filenames", "int"),
        9: ("has_line_numbers", "int"),
        10: ("has_inline_frames", "int"),
    },
    "Location": {
        1: ("id", "int"),
        2: ("mapping_id", "int"),
        3: ("address", "int"),
        4: ("line", "Line*"),
    },
    "Line": {1: ("function_id", "int"), 2: ("line", "int")},
    "Function": {
        1: ("id", "int"),
        2: ("name", "int"),
        3: ("system_name", "int"),
        4: ("filename", "int"),
        5: ("start_line", "int"),
    },
}

# open-telemetry/opentelemetry-proto 1.10.0, profiles/v1development/profiles.proto
OTLP: Schema = {
    "ProfilesData": {
        1: ("resource_profiles", "ResourceProfiles*"),
        2: ("dictionary", "ProfilesDictionary"),
    },
    "ResourceProfiles": {
        1: ("resource", "Resource"),
        2: ("scope_profiles", "ScopeProfiles*"),
        3: ("schema_url", "string"),
    },
    "Resource": {1: ("attributes", "KeyValue*")},
    "KeyValue": {1: ("key", "string"), 2: ("value", "AnyValue")},
    "AnyValue": {1: ("string_value", "string"), 3: ("int_value", "int")},
    "ScopeProfiles": {1: ("scope", "Scope"), 2: ("profiles", "Profile*")},
    "Scope": {1: ("name", "string"), 2: ("version", "string")},
    "Profile": {
        1: ("sample_type", "ValueType"),
        2: ("samples", "Sample*"),
        5: ("period_type", "ValueType"),
        6: ("period", "int"),
        7: ("profile_id", "bytes"),
    },
    "ValueType": {1: ("type_strindex", "int"), 2: ("unit_strindex", "int")},
    "Sample": {
        1: ("stack_index", "int"),
        2: ("attribute_indices", "int*"),
        3: ("link_index", "int"),
        4: ("values", "int*"),
    },
    "ProfilesDictionary": {
        1: ("mapping_table", "Mapping*"),
        2: ("location_table", "Location*"),
        3: ("function_table", "Function*"),
        4: ("link_table", "Link*"),
        5: ("string_table", "string*"),
        6: ("attribute_table", "KeyValueAndUnit*"),
        7: ("stack_table", "Stack*"),
    },
    "Mapping": {
        1: ("memory_start", "int"),
        2: ("memory_limit", "int"),
        3: ("file_offset", "int"),
        4: ("filename_strindex", "int"),
    },
    "Location": {1: ("mapping_index", "int"), 2: ("address", "int"), 3: ("lines", "Line*")},
    "Line": {1: ("function_index", "int"), 2: ("line", "int")},
    "Function": {
        1: ("name_strindex", "int"),
        2: ("system_name_strindex", "int"),
        3: ("filename_strindex", "int"),
        4: ("start_line", "int"),
    },
    "Link": {},
    "KeyValueAndUnit": {
        1: ("key_strindex", "int"),
        2: ("value", "AnyValue"),
        3: ("unit_strindex", "int"),
    },
    "Stack": {1: ("location_indices", "int*")},
}


def read(data: bytes, schema: Schema, kind: str) -> dict[str, Any]:
    """Return a message's fields by their names: lists of what may be repeated."""
    fields = schema[kind]
    found: dict[str, Any] = {name: [] for name, of in fields.values() if of.endswith("*")}
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        name, of = fields[key >> 3]
        is_repeated, of = of.endswith("*"), of.rstrip("*")
        wire = key & 7
        value: Any
        if wire == 0:
            assert of == "int", (kind, name)
            value, at = _varint(data, at)
            values = [value]
        else:
            assert wire == 2, (kind, name)
            length, at = _varint(data, at)
            part, at = data[at : at + length], at + length
            assert len(part) == length
            if of == "int":
                assert is_repeated, (kind, name)
                values = _packed(part)
            elif of in {"string", "bytes"}:
                values = [part.decode() if of == "string" else part]
            else:
                values = [read(part, schema, of)]
        if is_repeated:
            found[name] += values
        else:
            (found[name],) = values
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _packed(data: bytes) -> list[int]:
    values, at = [], 0
    while at < len(data):
        value, at = _varint(data, at)
        values.append(value)
    return values
