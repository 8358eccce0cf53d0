# SPDX-License-Identifier: Apache-2.0
"""Whose a chunk is, where processes have other numbers than ours."""

from __future__ import annotations

import os
import threading

from soscope.recording.drain import Owners

MYSELF = os.getpid()
NOBODY = 1 << 30  # above any id


def test_a_process_of_our_own_namespace() -> None:
    owners = Owners({MYSELF}, {})
    assert owners.may_be(MYSELF)
    assert not owners.have_lost(MYSELF, threading.get_native_id())
    assert owners.have_lost(MYSELF, NOBODY)
    assert not owners.have_lost(NOBODY, NOBODY)  # whom nobody has told of


def test_a_process_that_calls_itself_otherwise() -> None:
    """A number that it does not have is of nobody; its threads are looked for by theirs."""
    owners = Owners({MYSELF}, {MYSELF: 1})
    assert owners.may_be(1)
    assert not owners.may_be(MYSELF)
    assert not owners.have_lost(1, threading.get_native_id())
    assert owners.have_lost(1, NOBODY)
    assert not owners.have_lost(MYSELF, NOBODY)


def test_one_number_of_two_processes() -> None:
    """Nobody's is what neither can have written: process 1 of two containers, one has ended."""
    owners = Owners({MYSELF, NOBODY}, {MYSELF: 1, NOBODY: 1})
    assert not owners.have_lost(1, threading.get_native_id())
    assert owners.have_lost(1, NOBODY)
    assert Owners({MYSELF}, {MYSELF: 1, NOBODY: 1}).may_be(1)
