# SPDX-License-Identifier: Apache-2.0
"""What was seen of a profiled block of code."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class ProfilingError(RuntimeError):
    """This program cannot be profiled, is profiled already, or is not; the text says why."""


class Result:
    """A profile. Before it has ended, there is nothing in it.

    `document` is what soscope prints of it, soscope/prof-report/1.
    """

    def __init__(self, command: list[str]) -> None:
        """Know by which words soscope is called."""
        self._command = command
        self._record = ""
        self.document: dict[str, Any] = {}

    def read(self, record: str) -> None:
        """Read a recording, whose folder is deleted with this object. Raises ProfilingError."""
        weakref.finalize(self, shutil.rmtree, os.path.dirname(record), ignore_errors=True)
        self._record = record
        self.document = json.loads(self._report("--json"))

    @property
    def functions(self) -> list[dict[str, Any]]:
        """The functions, by their own time, or by calls where nothing was timed."""
        rows: list[dict[str, Any]] = self.document.get("functions", [])
        return rows

    @property
    def arcs(self) -> list[dict[str, Any]]:
        """The calls of one function by another one."""
        rows: list[dict[str, Any]] = self.document.get("arcs", [])
        return rows

    def text(self) -> str:
        """Return the table that `soscope prof report` prints."""
        return self._report() if self._record else ""

    def _report(self, *options: str) -> str:
        done = subprocess.run(
            [*self._command, "prof", "report", *options, self._record],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        if not done.stdout:
            raise ProfilingError(done.stderr.decode("utf-8", "replace").strip())
        return done.stdout.decode("utf-8", "surrogateescape")
