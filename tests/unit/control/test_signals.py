# SPDX-License-Identifier: Apache-2.0
"""Signals that soscope takes while it works on a process, and those that it leaves to others."""

from __future__ import annotations

import signal
import threading

from soscope.control.signals import Signals


def test_what_somebody_had_blocked_stays_theirs() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    signals = Signals()
    try:
        signals.block()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.pthread_kill(threading.get_ident(), number)
        signals.drop()
        assert signal.sigpending() & {signal.SIGINT, signal.SIGTERM} == {signal.SIGINT}
    finally:
        signal.sigtimedwait([signal.SIGINT, signal.SIGTERM], 0)
        signals.restore()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_what_nobody_had_blocked_is_taken_away() -> None:
    signals = Signals()
    signals.block()
    try:
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        signals.drop()
        assert signal.SIGTERM not in signal.sigpending()
    finally:
        signals.restore()
