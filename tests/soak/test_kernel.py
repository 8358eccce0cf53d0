# SPDX-License-Identifier: Apache-2.0
"""A gdbserver under a kernel of its own: programs for arm64 in a virtual machine.

It downloads Debian's kernel and packages, a hundred megabytes, and takes some minutes:
`pytest --soak tests/soak/test_kernel.py`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.machines import crossed
from tests.support.machines.crossed import NAMES, account
from tests.support.machines.virtual import booted, system
from tests.support.processes.run import soscope
from tests.support.targets.build import made_in

pytestmark = pytest.mark.soak

_LIMIT = 200.0  # seconds for one trace
_WORDS = "plain jumps plugins threads signals forks"
_ORDERS = """
serve "Child exited" {line} FOLDER/crossed WORDS
FOLDER/held threads & P=$!; sleep 1
serve "Detaching from process $P" --attach {line} $P
kill -USR1 $P; wait $P; echo held $?
serve "Child exited" {line} /bin/ls -l /
"""


def _counted(log: Path) -> dict[str, int]:
    counts: dict[str, int] = {}
    for row in json.loads(log.read_text())["rows"]:
        counts[row["symbol"]] = counts.get(row["symbol"], 0) + row["calls"]
    return counts


def test_a_gdbserver_on_a_serial_line(tmp_path: Path) -> None:
    """Started with threads and forks, attached to, and a program of Debian's."""
    root = system(tmp_path)
    programs = tmp_path / "programs"
    there = root / programs.relative_to("/")
    there.mkdir(parents=True)
    programs.symlink_to(there)
    crossed.program(programs, "aarch64", "-Wl,-z,lazy")
    words = ["-L.", "-lcalls", "-Wl,-rpath,$ORIGIN", "-Wl,-z,now", "-pthread"]
    source = Path(crossed.__file__).with_name("held.c")
    made_in(programs, *crossed.compiler_of("aarch64"), "-o", "held", source, *words)
    orders = _ORDERS.replace("FOLDER", str(programs)).replace("WORDS", _WORDS)
    log = tmp_path / "log"
    options = ["-c", "--json", "--sysroot", str(root), "-o", str(log)]
    with booted(tmp_path, orders) as machine:
        machine.wait_for_server(1)
        chosen = ["--from", "all", "-l", "libcalls.so", "--remote", machine.address]
        done = soscope("trace", *options, *chosen, timeout=_LIMIT)
        shown = machine.wait_for("served")
        assert done.returncode == 7, done.stderr
        # its own pages of output are on the console, too
        truth = {name: calls for name, calls in account(shown).items() if name in NAMES}
        counts = _counted(log)
        assert {name: counts[name] for name in truth} == truth != {}
        machine.wait_for_server(2)
        done = soscope("trace", *options, *chosen, "--duration", "5s", timeout=_LIMIT)
        shown = machine.wait_for("held ")
        assert done.returncode == 0, done.stderr
        told = re.search(r"^calls (\d+)$", shown, re.MULTILINE)
        assert told is not None
        assert 0 < _counted(log)["add"] < int(told[1])
        assert "held 4" in shown
        assert json.loads(log.read_text())["engine"] == "sites"
        machine.wait_for_server(3)
        done = soscope("trace", *options, "--remote", machine.address, timeout=_LIMIT)
        shown = machine.wait_for("over")
        assert done.returncode == 0, done.stderr
        # every entry that it has printed was read before
        assert _counted(log)["readdir"] > len(re.findall(r"^[dl-]r", shown, re.MULTILINE)) > 5
