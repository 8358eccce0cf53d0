# SPDX-License-Identifier: Apache-2.0
"""`soscope resolve --json`: one document, schema "soscope/resolve/1"."""

from __future__ import annotations

from soscope.process.lookup.answer import Answer, Candidate
from soscope.report.jsontext import dumps

SCHEMA = "soscope/resolve/1"


def document(pid: int, answers: list[Answer]) -> str:
    """Return the document: one result for each query, in order."""
    whole = {"schema": SCHEMA, "pid": pid, "results": [_result(one) for one in answers]}
    return dumps(whole) + "\n"


def _result(answer: Answer) -> dict[str, object]:
    image = answer.image
    bits = 64 if image is None else image.space.bits
    return {
        "query": answer.query,
        "status": answer.status,
        "addr": _hex(answer.addr),
        "symbol": answer.symbol,
        "version": answer.version,
        "image": None if image is None else image.name,
        "image_path": None if image is None else image.path,
        "load_bias": None if image is None else hex(image.load_bias & (1 << bits) - 1),
        "offset": answer.offset,
        "kind": answer.kind,
        "rule": answer.rule,
        "candidates": [_candidate(one) for one in answer.candidates],
        "value": answer.value,
    }


def _candidate(one: Candidate) -> dict[str, object]:
    return {
        "addr": _hex(one.addr),
        "symbol": one.symbol,
        "version": one.version,
        "image": None if one.image is None else one.image.name,
        "rule": one.rule,
    }


def _hex(addr: int | None) -> str | None:
    return None if addr is None else hex(addr)
