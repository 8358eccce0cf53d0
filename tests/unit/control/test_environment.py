# SPDX-License-Identifier: Apache-2.0
"""The environment that a started program gets."""

from __future__ import annotations

from soscope.control.command import entries


def test_it_is_the_one_that_was_given() -> None:
    given = b"B=1\0A=2\0B=3\0odd\0=x\0EMPTY=\0"
    current = {b"B": b"1", b"A": b"2", b"EMPTY": b""}
    assert entries(given, current) == [b"B=1", b"A=2", b"B=3", b"odd", b"=x", b"EMPTY="]


def test_what_python_added_is_left_out() -> None:
    given = b"LANG=C\0"
    assert entries(given, {b"LANG": b"C", b"LC_CTYPE": b"C.UTF-8"}) == [b"LANG=C"]


def test_what_the_caller_changed_counts() -> None:
    given = b"LANG=C\0B=1\0B=2\0"
    assert entries(given, {b"B": b"9", b"NEW": b"x", b"LC_CTYPE": b"C.UTF-8"}) == [
        b"B=9",
        b"NEW=x",
    ]
    assert entries(b"LC_CTYPE=C.UTF-8\0", {b"LC_CTYPE": b"C.UTF-8"}) == [b"LC_CTYPE=C.UTF-8"]
    assert entries(b"", {b"LC_CTYPE": b"de_DE.UTF-8"}) == [b"LC_CTYPE=de_DE.UTF-8"]


def test_without_proc_it_is_pythons() -> None:
    assert entries(None, {b"A": b"1"}) == [b"A=1"]
