# SPDX-License-Identifier: Apache-2.0
"""soscope ends as the command ended."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from soscope.verbs.main import leave

SOURCE = Path(__file__).parents[3] / "src"


def test_an_exit_status_is_returned_as_it_is() -> None:
    assert leave(0, None) == 0
    assert leave(7, None) == 7


def test_an_end_that_nobody_saw_is_soscopes_own_failure() -> None:
    assert leave(None, None) == 125


@pytest.mark.parametrize(
    "number",
    [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGINT, signal.SIGPIPE, 36],
)
def test_a_signal_kills_us_too_without_a_core(number: int, tmp_path: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(SOURCE)!r}); "
        f"from soscope.verbs.main import leave; print('out'); sys.exit(leave(None, {int(number)}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == -number
    assert (done.stdout, done.stderr) == ("out\n", "")
    assert list(tmp_path.iterdir()) == []
