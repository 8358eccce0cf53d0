# SPDX-License-Identifier: Apache-2.0
"""What `soscope audit-resolver --json` promises."""

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

VERDICTS = ("sound", "conditional", "unsound")
ROLES = (
    *("argument", "regparm", "vector-count", "result-place", "static-chain", "extended"),
    "scratch",
)
FATES = ("saved", "saved-unless-changed", "untouched", "open", "lost", "absent")
SITE = {"vaddr": _address, "function": TEXT, "instruction": TEXT, "count": NUMBER}
CALL = {"vaddr": _address, "function": TEXT, "through": TEXT_OR_NULL}

AUDIT_RESOLVER: dict[str, Check] = {
    "schema": _one_of("soscope/audit-resolver/1"),
    "path": TEXT,
    "loader": _one_of("glibc", "musl"),
    "version": TEXT_OR_NULL,
    "arch": TEXT,
    "bits": lambda value: value in (32, 64),
    "build_id": TEXT,
    "binds_lazily": _is(bool),
    "verdict": _one_of(*VERDICTS, None),
    "variants": _list_of(
        _object(
            {
                "kind": _one_of("resolve", "profile", "tlsdesc"),
                "vaddr": _address,
                "name": TEXT_OR_NULL,
                "condition": TEXT,
                "saved_by": TEXT,
                "alignment": NUMBER_OR_NULL,
                "verdict": _one_of(*VERDICTS),
                "registers": _list_of(
                    _object(
                        {
                            "name": TEXT,
                            "role": _one_of(*ROLES),
                            "fate": _one_of(*FATES),
                            "site": lambda value: value is None or _object(SITE)(value),
                        }
                    )
                ),
                "path": _object(
                    {
                        "start": _address,
                        "name": TEXT_OR_NULL,
                        "functions": NUMBER,
                        "instructions": NUMBER,
                        "undecoded": NUMBER,
                        "unknown_calls": _list_of(_object(CALL)),
                    }
                ),
            }
        )
    ),
}
