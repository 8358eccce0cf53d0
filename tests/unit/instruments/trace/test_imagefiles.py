# SPDX-License-Identifier: Apache-2.0
"""The images of a process that loads one after the other are looked at once each."""

from __future__ import annotations

import os

import pytest

from soscope.instruments.trace.described import ImageFiles, KnownLines, mapped, mapped_at
from soscope.proc import maps


def test_what_is_mapped_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pid, known = os.getpid(), KnownLines()
    wanted = mapped(pid)
    one = next(each for each in maps.read(pid) if each.path in wanted and each.offset == 0)
    assert mapped_at(pid, one.start, known) == (one.path, wanted)

    def stat(path: str) -> os.stat_result:
        raise AssertionError(path)

    monkeypatch.setattr("soscope.instruments.trace.described.os.stat", stat)
    assert mapped_at(pid, one.start, known) == (one.path, wanted)


def test_a_file_that_is_another_one_by_now_is_no_image() -> None:
    paths = mapped(os.getpid())
    main = next(iter(paths))
    files = ImageFiles({main: os.stat(main).st_ino})
    assert [path for path, _ in files.all] == [main]
    files.close()
    assert ImageFiles({main: 1}).all == []
