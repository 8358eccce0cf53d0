# SPDX-License-Identifier: Apache-2.0
"""Hundreds of functions of ten libraries: what soscope prints is what the program says it passed.

The programs are made of the tables in tests/targets/account; the expected values are theirs alone.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.processes.run import soscope
from tests.support.targets import accounted

FUNCTIONS = 300  # at least, of ten libraries


@pytest.mark.every(7)
@pytest.mark.parametrize("name", accounted.tables())
def test_each_call_is_shown_as_it_was_made(name: str, tmp_path: Path) -> None:
    program = accounted.build(name, tmp_path)
    lines, _, _ = accounted.read(name)
    names = sorted({line.name for line in lines})
    chosen = ["-l", f"lib{name}.so"] if accounted.is_cxx(name) else ["-e", "+".join(names)]
    words = ["trace", "-q", "--json", "-s", "4096", *chosen, "--from", "MAIN"]
    ended = soscope(*words, "-o", tmp_path / "seen", "--", program, tmp_path / "told")
    assert ended.returncode == 0, ended.stderr
    told = accounted.account(tmp_path / "told")
    objects = map(json.loads, (tmp_path / "seen").read_text().splitlines())
    seen = [one for one in objects if one["type"] == "call"]
    symbols = accounted.plain([call["symbol"] for call in seen])
    assert symbols == [name for name, *_ in told]
    wrong = []
    for (function, arguments, result, errno), call in zip(told, seen, strict=True):
        told_last = [argument.get("out") or argument for argument in call["args"]]
        texts = [argument["text"] for argument in told_last]
        expected = [*arguments, result]
        shown = [*texts, call["result"]["text"] if call["result"] else ""]
        agree = len(shown) == len(expected) and all(
            accounted.agrees(kind, value, text)
            for (kind, value), text in zip(expected, shown, strict=True)
        )
        # pthread_* and their like return what others leave in errno
        if call["errno"] is not None and not errno:
            agree = agree and accounted.agrees(*result, call["result"]["text"]) and bool(result[1])
        if not agree:
            wrong.append((function, expected, errno, shown, call["errno"]))
    assert not wrong


def test_there_are_enough_of_them() -> None:
    names = {(name, line.name) for name in accounted.tables() for line in accounted.read(name)[0]}
    assert len(names) >= FUNCTIONS
    assert len(accounted.tables()) >= 10
