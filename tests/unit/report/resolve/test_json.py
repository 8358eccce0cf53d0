# SPDX-License-Identifier: Apache-2.0
"""The document of `soscope resolve`, against what the standard module writes."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import cast

import pytest

from soscope.live.images.image import LoadedImage
from soscope.live.lookup.answer import AMBIGUOUS, NONE, OK, Answer, Candidate
from soscope.report.resolve import document

ODD = 'a "b"\\ \n\x7f\x01 é € 𝄞 \udcff'


def image(name: str, load_bias: int, bits: int = 64) -> LoadedImage:
    """Make what a result says of an image."""
    found = SimpleNamespace(
        name=name, path=f"/lib/{name}", load_bias=load_bias, space=SimpleNamespace(bits=bits)
    )
    return cast("LoadedImage", found)


def found(query: str, where: LoadedImage | None, value: object = None) -> Answer:
    """Make an answer that says something of everything."""
    answer = Answer(query, OK)
    answer.addr, answer.symbol, answer.version = 0x7F00_1234, ODD, "GLIBC_2.2.5"
    answer.image, answer.offset, answer.kind, answer.rule = where, 3, "function", "dlsym"
    answer.value = value
    return answer


def expected(answer: Answer) -> dict[str, object]:
    """Say the same in the words of the schema."""
    where = answer.image
    mask = 0 if where is None else (1 << where.space.bits) - 1
    return {
        "query": answer.query,
        "status": answer.status,
        "addr": None if answer.addr is None else hex(answer.addr),
        "symbol": answer.symbol,
        "version": answer.version,
        "image": None if where is None else where.name,
        "image_path": None if where is None else where.path,
        "load_bias": None if where is None else hex(where.load_bias & mask),
        "offset": answer.offset,
        "kind": answer.kind,
        "rule": answer.rule,
        "candidates": [_of_candidate(one) for one in answer.candidates],
        "provider": None if answer.provider is None else _of_candidate(answer.provider),
        "value": answer.value,
    }


def _of_candidate(candidate: Candidate) -> dict[str, object]:
    return {
        "addr": None if candidate.addr is None else hex(candidate.addr),
        "symbol": candidate.symbol,
        "version": candidate.version,
        "image": None if candidate.image is None else candidate.image.name,
        "rule": candidate.rule,
    }


@pytest.mark.parametrize("value", [None, 0, -1, 1.5, ODD, [1, "b", 2.5], True])
def test_it_is_what_the_standard_module_writes(value: object) -> None:
    libc, odd, below = image("libc.so.6", 0x7F00_0000), image(ODD, 0), image("old", -4096, 32)
    several = Answer(ODD, AMBIGUOUS)
    several.candidates = [Candidate(None, ODD, None, None, None), Candidate(1, "a", "V", libc, "m")]
    answers = [
        found("0x1", libc, value),
        found(ODD, odd, value),
        Answer("nobody", NONE),
        found("0x1", below, value),
        found("again", libc),
        found("nowhere", None),
        several,
    ]
    whole = {
        "schema": "soscope/resolve/1",
        "pid": 42,
        "results": [expected(answer) for answer in answers],
    }
    assert document(42, answers) == json.dumps(whole) + "\n"
    assert document(42, []) == json.dumps({**whole, "results": []}) + "\n"


def test_what_is_no_number_is_a_string() -> None:
    results = json.loads(document(1, [found("x", None, [float("nan"), -float("inf")])]))["results"]
    assert results[0]["value"] == ["nan", "-inf"]
