# SPDX-License-Identifier: Apache-2.0
"""What `soscope inject --sweep --json` promises."""

from __future__ import annotations

from tests.support.schemas.checked import (
    NUMBER,
    NUMBER_OR_NULL,
    TEXT,
    TEXT_OR_NULL,
    Check,
    _address,
    _is,
    _list_of,
    _object,
    _one_of,
)

KINDS = ("none", "error", "crash", "hang", "wrong", "moved")

SWEEP: dict[str, Check] = {
    "schema": _one_of("soscope/inject-sweep/1"),
    "command": _list_of(TEXT),
    "functions": _list_of(TEXT),
    "baseline": _object({"status": NUMBER_OR_NULL, "signal": TEXT_OR_NULL}),
    "deterministic": _is(bool),
    "sites": _list_of(
        _object(
            {
                "function": TEXT,
                "image": TEXT,
                "offset": _address,
                "kind": _one_of(*KINDS),
                "status": NUMBER_OR_NULL,
                "signal": TEXT_OR_NULL,
                "stack": _list_of(TEXT),
                "repeat": TEXT,
            }
        )
    ),
    "totals": _object(dict.fromkeys(("sites", *KINDS), NUMBER)),
}
