# SPDX-License-Identifier: Apache-2.0
"""What `soscope doctor --json` promises, member by member: names, order and types."""

from __future__ import annotations

from tests.support.schemas.checked import (
    NUMBER,
    NUMBER_OR_NULL,
    TEXT,
    TEXT_OR_NULL,
    Check,
    _is,
    _list_of,
    _object,
    _one_of,
)

FINDING: dict[str, Check] = {
    "name": TEXT,
    "state": _one_of("ok", "limited", "missing", "info"),
    "text": TEXT,
    "repair": TEXT_OR_NULL,
}

IMAGE: dict[str, Check] = {
    "name": TEXT,
    "path": TEXT,
    "build_id": TEXT,
    "state": _one_of("hookable", "nothing to hook", "not hookable"),
    "why": TEXT,
    "binding": _one_of("none", "lazy", "now"),
    "relro": _one_of("none", "partial", "full"),
    "features": _list_of(_one_of("IBT", "SHSTK")),
    "calls": NUMBER,
    "loads": NUMBER,
}

SUBJECT: dict[str, Check] = {
    "kind": _one_of("process", "file"),
    "pid": NUMBER_OR_NULL,
    "path": TEXT,
    "machine": TEXT,
    "linkage": TEXT,
    "loader": TEXT_OR_NULL,
    "libc": lambda value: value is None or _object({"name": TEXT, "version": TEXT})(value),
    "interpreters": _list_of(
        _object({"name": TEXT, "version": TEXT, "image": TEXT, "is_main": _is(bool)})
    ),
    "findings": _list_of(_object(FINDING)),
    "images": _list_of(_object(IMAGE)),
    "costs": _list_of(_object({"command": TEXT, "shows": TEXT, "ns": NUMBER})),
}

DOCTOR: dict[str, Check] = {
    "schema": _one_of("soscope/doctor/1"),
    "system": TEXT,
    "parts": _list_of(_object({"title": TEXT, "findings": _list_of(_object(FINDING))})),
    "subject": lambda value: value is None or _object(SUBJECT)(value),
    # _one_of is annotated for text and takes any value
    "status": _one_of(*(0, 1, 3)),  # type: ignore[arg-type]
}
