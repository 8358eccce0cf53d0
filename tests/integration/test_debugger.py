# SPDX-License-Identifier: Apache-2.0
"""A debugger looks at a program whose calls are hooked."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import build
from tests.support.run import run
from tests.support.tools import need


# Where it tells of signals, soscope stays attached: then nobody else can be.
@pytest.mark.parametrize("options", [["-c", "-o", "{}"], ["--count-only", "-o", "{}"]])
def test_gdb_sees_every_caller(options: list[str], tmp_path: Path) -> None:
    need("gdb")
    import soscope  # where it is installed, its agent is

    folder = Path(str(soscope.__file__)).parent / "_agent"
    [agent] = folder.glob("*.so")
    trace = [sys.executable, "-m", "soscope", "trace", "-q", "-e", "f*"]
    trace += [word.format(tmp_path / "out") for word in options]
    trace += ["--", str(build.program("parked"))]
    process = subprocess.Popen(
        trace,
        env={**os.environ, "SOSC_TRUTH": str(tmp_path / "truth")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "parked\n"
        [child] = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        maps = Path(f"/proc/{child}/maps").read_text()
        found = re.search(r"^([0-9a-f]+)-\S+ r-xp 0*0 .*soscope", maps, re.MULTILINE)
        found = found or re.search(r"^([0-9a-f]+)-\S+ \S+ .*soscope", maps, re.MULTILINE)
        assert found, maps
        words = ["gdb", "-batch", "-nx", "-p", child]
        words += ["-ex", f"add-symbol-file {agent} -o 0x{found[1]}", "-ex", "bt"]
        trace_back = run(words, timeout=60).stdout
        frames = re.findall(r"^#\d+ .*?(\w+) \(", trace_back, re.MULTILINE)
        wanted = ["parked_inner", "fcall", "parked_outer", "fcall", "main"]
        assert [frame for frame in frames if frame in wanted] == wanted, trace_back
        out, notes = process.communicate(timeout=30)
        assert (out, process.returncode) == ("woken 4\n", 0), notes
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.communicate()
