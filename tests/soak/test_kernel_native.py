# SPDX-License-Identifier: Apache-2.0
"""soscope itself under a kernel for arm64: its programs, traced there by breakpoints.

It downloads Debian's kernel and packages, a hundred megabytes, and takes a quarter of an hour, as
the processor is emulated: `pytest --soak tests/soak/test_kernel_native.py`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.integration.test_foreign_values import names_of_values
from tests.support.machines import crossed
from tests.support.machines.tools import need
from tests.support.machines.virtual import NEWEST, PYTHON, booted, system, with_soscope
from tests.support.targets import build
from tests.support.targets.build import made_in

pytestmark = pytest.mark.soak

_HERE = Path(crossed.__file__).parent
_LIMIT = 1500.0  # seconds for all of it
_THERE = "/programs"
_SAID = re.compile(r"calls (\d+) wrong (\d+) trapped (\d+)")

# The code of a process, as it is in its memory.
_CODE = """
import hashlib, sys
pid = sys.argv[1]
for line in open(f"/proc/{pid}/maps"):
    words = line.split()
    if words[1][2] == "x" and len(words) > 5 and words[5][0] == "/":
        start, end = (int(word, 16) for word in words[0].split("-"))
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            memory.seek(start)
            print(words[5], hashlib.sha256(memory.read(end - start)).hexdigest())
"""
_ORDERS = f"""
cd {_THERE}
export LD_LIBRARY_PATH={_THERE}
show() {{ echo "[[$1"; cat $2; echo; echo "$1]]"; }}
traced() {{
	name=$1; shift
	python3 -m soscope trace -o /tmp/log "$@" >/tmp/out 2>/tmp/notes; echo $? >/tmp/status
	for part in out notes status log; do show $name.$part /tmp/$part; done
}}
for program in trapped guarded; do
	echo go | traced $program -c --json -e labs,fork,system,pthread_create -- ./$program
done
traced values -s 200 -F crossed_values.h -e NAMES@MAIN -- ./values
traced inside -x add -x again -x eight -c --json -- ./crossed plain
traced record --record /tmp/recording -- ./crossed plain
python3 -m soscope report -c --json /tmp/recording >/tmp/report; show report /tmp/report
traced followed -f -- ./crossed plain
traced static -- /bin/busybox true
mkfifo /tmp/in; ./trapped </tmp/in >/tmp/said & P=$!
exec 7>/tmp/in
until grep -q ready /tmp/said; do sleep 1; done
python3 code.py $P >/tmp/before
set -- -c --json -o /tmp/log -e labs,fork,system,pthread_create
python3 -m soscope trace -p $P "$@" 2>/tmp/notes & S=$!
until grep -q engine /tmp/notes; do sleep 1; done
sleep 2; echo go >&7
until grep -q calls /tmp/said; do sleep 1; done
kill -TERM $S; wait $S; echo $? >/tmp/status
python3 code.py $P >/tmp/after
grep TracerPid /proc/$P/status >>/tmp/after
echo go >&7; exec 7>&-; wait $P; echo $? >>/tmp/status
for part in said notes status log before after; do show attached.$part /tmp/$part; done
"""
# A file is only guarded where all of its parts are marked, and those of the compiler are not.
_START = """
.globl _start
_start: bti c
mov x29, #0
mov x30, #0
mov x5, x0
ldr x1, [sp]
add x2, sp, #8
mov x6, sp
adrp x0, main
add x0, x0, :lo12:main
mov x3, #0
mov x4, #0
bl __libc_start_main
brk #1
"""


def _counts(text: str) -> dict[str, int]:
    return {row["symbol"]: row["calls"] for row in json.loads(text)["rows"]}


def _programs(folder: Path) -> None:
    """Build what is traced."""
    source = build.TARGETS / "trapped.c"
    few = ["-DROUNDS=10", "-DOFTEN=200000", "-pthread"]
    compiler = crossed.compiler_of("aarch64")
    made_in(folder, *compiler, *few, "-fno-builtin", "-Wl,-z,lazy", "-o", "trapped", source)
    # who returns twice has to be known to the compiler, to be marked
    guarded = ["-mbranch-protection=standard", "-mno-outline-atomics", "-nostartfiles"]
    known = ["-fno-builtin-labs", "-fno-builtin-abs", "-fuse-ld=lld", "-Wl,-z,force-bti"]
    (folder / "start.s").write_text(_START)
    made_in(folder, *compiler, *few, *guarded, *known, "-o", "guarded", source, "start.s")
    shared = [*compiler, "-w", "-shared", "-fPIC", "-o"]
    (folder / "plugin.c").write_text("int plug_run(int x) { return x; }\n")
    made_in(folder, *shared, "libplug_a.so", "plugin.c")
    made_in(folder, *shared, "libvalues.so", _HERE / "crossed_values_lib.c")
    words = ["-L.", "-lvalues", "-fno-builtin", "-w"]
    made_in(folder, *compiler, "-o", "values", _HERE / "crossed_values.c", *words)
    header = _HERE / "crossed_values.h"
    (folder / header.name).write_text(header.read_text())
    crossed.program(folder, "aarch64", "-Wl,-z,lazy")


def test_programs_for_arm64_are_traced_there(tmp_path: Path) -> None:
    """Started and attached to: threads, handlers, traps, guarded code, values, a recording."""
    need("ld.lld")
    root = system(tmp_path, *PYTHON)
    with_soscope(root)
    programs = root / _THERE[1:]
    programs.mkdir()
    _programs(programs)
    (programs / "code.py").write_text(_CODE)
    orders = _ORDERS.replace("NAMES", "+".join(names_of_values()))
    with booted(tmp_path, orders, NEWEST) as machine:
        shown = machine.wait_for("\nover", limit=_LIMIT)
    told = {
        match[1]: match[2].strip("\n")
        for match in re.finditer(r"^\[\[(\S+)\n(.*?)\n\1\]\]$", shown, re.MULTILINE | re.DOTALL)
    }
    for name in ("trapped", "guarded"):
        said = _SAID.search(told[f"{name}.out"])
        assert said is not None, told
        assert said.groups()[1:] == ("0", "10")
        counts = {"labs": int(said[1]), "fork": 3, "system": 1, "pthread_create": 12}
        assert _counts(told[f"{name}.log"]) == counts
        assert told[f"{name}.status"] == "7"
    summary = json.loads(told["trapped.log"])
    assert (summary["engine"], summary["arch"]) == ("sites", "aarch64")
    assert "(no agent is made for aarch64)" in told["trapped.notes"]
    lines = re.sub(r" +=", " =", re.sub(r"0x[0-9a-f]{5,}", "ADDRESS", told["values.log"]))
    lines = lines.replace("values->", "").partition("+++")[0]
    assert lines.splitlines() == told["values.out"].splitlines()
    truth = crossed.account(told["inside.notes"])
    assert _counts(told["inside.log"]) == {name: truth[name] for name in ("add", "again", "eight")}
    assert told["inside.status"] == "7"
    counts = _counts(told["report"])
    truth = crossed.account(told["record.notes"])
    assert {name: counts[name] for name in truth} == truth != {}
    assert "(no agent is made for aarch64)" in told["followed.notes"]
    assert told["followed.status"] == "7"
    assert told["static.status"] == "0"
    assert "statically linked" in told["static.notes"]
    said = _SAID.search(told["attached.said"])
    assert said is not None
    counts = {"labs": int(said[1]), "fork": 3, "system": 1, "pthread_create": 12}
    assert _counts(told["attached.log"]) == counts
    assert told["attached.status"].split() == ["0", "7"]
    before = told["attached.before"].splitlines()
    assert [*before, "TracerPid:\t0"] == told["attached.after"].splitlines()
    assert len(before) > 2
