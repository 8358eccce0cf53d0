# SPDX-License-Identifier: Apache-2.0
"""The ways to see calls of programs for other processors, against what those count themselves."""

from __future__ import annotations

import json
import platform
import re
import shutil
from pathlib import Path

import pytest

from tests.support.machines.crossed import account, built_alone, counted, program, untraced
from tests.support.processes.run import soscope
from tests.support.processes.tracing import is_whole
from tests.support.targets.build import made_in

SUPPORT = Path(__file__).parents[1] / "support" / "machines"

pytestmark = pytest.mark.shares


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the programs of this module are built."""
    return tmp_path_factory.mktemp("engines")


def _built(folder: Path, arch: str, kind: str = "lazy") -> Path:
    place = folder / f"{arch}-{kind}"
    if not place.exists():
        place.mkdir()
        program(place, arch, "-Wl,-z,lazy", unseen=kind == "unseen")
    return place / "crossed"


def _rows(found: dict[str, object]) -> dict[str, int]:
    document = found["document"]
    assert isinstance(document, dict)
    rows: dict[str, int] = {}
    for row in document["rows"]:
        rows[row["symbol"]] = rows.get(row["symbol"], 0) + row["calls"]
    return rows


@pytest.mark.every(6)
@pytest.mark.parametrize("arch", ["ppc", "ppc64", "arm", "riscv64", "i386", "mips"])
def test_call_sites(folder: Path, tmp_path: Path, arch: str) -> None:
    """Lazy slots, so that the stubs' way to the resolver is theirs, too."""
    path = _built(folder, arch)
    found = counted(path, arch, tmp_path / "log", "plain", "jumps", "plugins", engine="sites")
    document = found["document"]
    assert isinstance(document, dict)
    assert _rows(found) == found["account"] != {}
    assert (document["arch"], document["engine"]) == (arch, "sites")
    assert document["totals"]["complete"]


def test_slots_that_lead_to_their_entries(folder: Path, tmp_path: Path) -> None:
    """Entries on 32 bits are nops in front of one branch: whose slot is not ours runs by others."""
    path = _built(folder, "ppc")
    words = ("plain", "jumps", "plugins", "signals")
    found = counted(path, "ppc", tmp_path / "log", *words, engine="slot")
    assert _rows(found) == found["account"] != {}
    refused = soscope("trace", "--engine", "slot", "--", _built(folder, "arm"), "plain")
    assert refused.returncode == 125
    assert "--engine slot: not for programs for arm" in refused.stderr


@pytest.mark.every(2)
@pytest.mark.parametrize("arch", ["ppc64le", "ppc64", "arm", "mipsel"])
def test_functions_inside_an_image(tmp_path: Path, arch: str) -> None:
    """Entered at their second entries (ELFv2), named by descriptors (ELFv1), in Thumb."""
    path = built_alone(tmp_path, arch, "crossed_inside")
    log = tmp_path / "log"
    done = soscope(
        "trace", "-c", "--json", "-o", log, "-x", "[io]nn*", "-x", "outer", "-x", "no@x", "--", path
    )
    plain = untraced(path, arch)
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    document = json.loads(log.read_text())
    rows = {row["symbol"]: row["calls"] for row in document["rows"]}
    assert rows == account(plain.stderr) != {}
    assert {(row["caller"], row["callee"]) for row in document["rows"]} == {(None, path.name)}
    assert document["engine"] == "entries"
    assert "calls at 2 entry points; complete" in done.stderr
    assert "soscope: -x no@x: symbol 'no' not found in x" in done.stderr
    assert done.stderr.count("not found in") == 1


def test_calls_that_need_no_stub(folder: Path, tmp_path: Path) -> None:
    """Beside one that has a stub, so that the slot is known, and only some calls of it."""
    library = _built(folder, "ppc64le").parent
    made_in(tmp_path, "powerpc64le-linux-gnu-as", "-o", "inline.o", SUPPORT / "crossed_inline.s")
    shutil.copy(library / "libcalls.so", tmp_path)
    words = ["inline.o", "-L.", "-lcalls", "-Wl,-rpath,$ORIGIN"]
    path = built_alone(tmp_path, "ppc64le", "crossed_inline", *words)
    log = str(tmp_path / "log")
    done = soscope("trace", "-c", "--json", "-o", log, "-e", "add", "--check", "--", path)
    plain = untraced(path, "ppc64le")
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    assert account(plain.stderr) == {"add": 7}
    assert done.stderr.splitlines()[-1] == "check: sites and slot agree: 7 calls of 1 function"
    lines = soscope("trace", "--engine", "sites", "-e", "add", "--", path).stderr
    shown = re.findall(r"add\((\d+), (\d+).* = (\d+)", lines)
    assert len(shown) == 7  # each returns to where it was made
    assert all(int(first) + int(second) == int(result) for first, second, result in shown)


def test_slots_of_which_no_fault_can_tell(folder: Path) -> None:
    """MIPS: whose stub sets no register alone, and whose functions' addresses share the slots."""
    path = _built(folder, "mips")
    refused = soscope("trace", "--engine", "poison", "--", path, "plain")
    assert refused.returncode == 125
    assert "--engine poison: not for programs for mips" in refused.stderr
    lines = soscope("trace", "-e", "__cxa_finalize+add@MAIN", "--", path, "plain").stderr
    assert lines.startswith("soscope: engine slot, slots that lead to code of ours")
    assert lines.count("crossed->__cxa_finalize(") == 1  # its address is compared with 0
    assert lines.count("add(") == 3
    assert is_whole(lines.splitlines()[-1])


def test_code_of_another_encoding_is_listed(tmp_path: Path) -> None:
    path = built_alone(tmp_path, "mips", "crossed_inside")
    data = bytearray(path.read_bytes())
    data[36] |= 4  # EF_MIPS_ARCH_ASE_M16
    path.write_bytes(data)
    done = soscope("trace", "-e", "printf+fprintf+puts", "--", path)
    plain = untraced(path, "mips")
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    assert "some of its code is MIPS16 or microMIPS" in done.stderr


def test_a_program_without_slots(tmp_path: Path) -> None:
    """No engine sees its calls, so none is named, and two of them have not agreed."""
    path = built_alone(tmp_path, "ppc64le", "crossed_inside", "-static")
    plain = untraced(path, "ppc64le")
    done = soscope("trace", "--", path)
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    assert "engine" not in done.stderr
    assert "ran untraced: it is statically linked" in done.stderr
    checked = soscope("trace", "--check", "--", path)
    assert (checked.returncode, checked.stdout) == (1, plain.stdout)
    expected = "check: no calls to compare, as the program ran untraced"
    assert checked.stderr.splitlines()[-1] == expected


def test_which_engine_is_said(folder: Path, tmp_path: Path) -> None:
    path, recording = _built(folder, "ppc"), tmp_path / "run.sosr"
    done = soscope("trace", "-c", "--record", recording, "-e", "add", "--", path, "plain")
    assert done.stderr.startswith("soscope: engine poison, slots that fault (each breakpoint would")
    shown = soscope("report", "-c", "--json", recording)
    document = json.loads(shown.stdout)
    assert (document["arch"], document["engine"]) == ("ppc", "poison")
    done = soscope("trace", "--json", "-o", tmp_path / "log", "--", "true")
    assert "engine" not in done.stderr
    start = json.loads((tmp_path / "log").read_text().splitlines()[0])
    assert (start["arch"], start["engine"]) == (platform.machine(), "agent")


def test_slots_that_are_code(folder: Path, tmp_path: Path) -> None:
    """The BSS PLT of PowerPC, whose entries the loader writes, and writes again."""
    path = _built(folder, "ppc", "unseen")
    found = counted(path, "ppc", tmp_path / "log", "plain", "plugins", engine="sites")
    assert _rows(found) == found["account"] != {}
    done = soscope("trace", "-q", "-c", "-e", "add", "--check", "--", path, "plain")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "check: sites and slot: slots that are code cannot be compared: 1 of crossed"
    )


@pytest.mark.every(5)
@pytest.mark.parametrize(
    ("arch", "engine", "other"),
    [
        ("ppc64le", "poison", "poison"),
        ("ppc64le", "sites", "slot"),
        ("ppc64", "slot", "slot"),
        ("mipsel", "sites", "slot"),
        ("ppc", "slot", "slot"),
    ],
)
def test_two_engines_agree(
    folder: Path, tmp_path: Path, arch: str, engine: str, other: str
) -> None:
    path = _built(folder, arch)
    words = ["-c", "--json", "-o", str(tmp_path / "log"), "--from", "all", "-l", "libcalls.so"]
    done = soscope("trace", *words, "--engine", engine, "--check", "--", path, "jumps", "plugins")
    plain = untraced(path, arch, "jumps", "plugins")
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    document = json.loads((tmp_path / "log").read_text())
    assert (document["engine"], document["totals"]["calls"]) == (engine, 13)
    expected = f"check: sites and {other} agree: 13 calls of 4 functions"
    assert done.stderr.splitlines()[-1] == expected
    assert sum(account(plain.stderr).values()) + 1 == 13  # that of account()
    stepped = re.search(r"stepped through: (\d+) slots bound in ([\d,]+) steps", done.stderr)
    # of MIPS the resolver itself stores where the calls are seen, so nobody has to follow it
    assert (stepped is None) == (other == "poison" or arch == "mipsel")
    if stepped is not None:  # each slot that was called, once; the plug-in is loaded three times
        assert int(stepped[1]) == sum(bool(row["calls"]) for row in document["rows"]) + 2
        assert int(stepped[2].replace(",", "")) > 100 * int(stepped[1])
        assert "while it was not stepped through" not in done.stderr
