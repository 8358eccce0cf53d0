# SPDX-License-Identifier: Apache-2.0
"""The life of a call in a file, against objdump, and against running the same code."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from soscope.inspect.check import emulate
from soscope.verbs.main import main
from tests.support.files.elffiles import built, run
from tests.support.files.explaining import BUILDS, CALLS, Explain, made, objdump, same
from tests.support.files.stubs import opened
from tests.support.machines.tools import need
from tests.support.time.patience import limit


@pytest.mark.every(2)
@pytest.mark.parametrize("build", BUILDS)
def test_every_byte_and_instruction_is_objdumps(
    tmp_path: Path, build: str, explain: Explain
) -> None:
    path = made(tmp_path, build)
    truth = objdump(path)
    document = explain(path, "malloc")
    assert document["ways"]
    for way in document["ways"]:
        assert way["wrong"] == []
        if way["call_sites"]:
            first = way["call_sites"][0]
            lines = {one["vaddr"]: one["target"] for one in way["steps"][0]["lines"]}
            assert lines[first["vaddr"]] == first["target"]
        for step in way["steps"]:
            for line in step["lines"]:
                code, text = truth[int(line["vaddr"], 16)]
                assert line["code"] == code
                assert same(line["text"]) == same(text), step["step"]


@pytest.mark.every(3)
@pytest.mark.parametrize("build", BUILDS)
def test_who_calls_is_who_calls_in_objdumps_listing(
    tmp_path: Path, build: str, explain: Explain
) -> None:
    path = made(tmp_path, build)
    document = explain(path, "malloc")
    stubs = {int(stub["stub"], 16) for way in document["ways"] for stub in way["slot"]["stubs"]}
    slots = {int(way["slot"]["slot"], 16) for way in document["ways"]}
    expected = set()
    got = int(
        re.findall(r"^([0-9a-f]+) . _GLOBAL_OFFSET_TABLE_$", run("nm", path), re.MULTILINE)[0], 16
    )
    for vaddr, (_, text) in objdump(path).items():
        by_got = re.match(r"(?:call|jmp)\s+\*(-?0x[0-9a-f]+)\(%ebx\)", text)
        if by_got is not None and got + int(by_got[1], 16) in slots and not stubs:
            expected.add(vaddr)
        row = re.match(r"(?:bnd )?(?:call|jmp)\s+(?:([0-9a-f]+)|\*.*# ([0-9a-f]+))", text)
        if row is None or any(0 <= vaddr - stub < 16 for stub in stubs):
            continue
        if (row[1] and int(row[1], 16) in stubs) or (row[2] and int(row[2], 16) in slots):
            expected.add(vaddr)
    found = {int(site["vaddr"], 16) for way in document["ways"] for site in way["call_sites"]}
    assert found == expected
    assert len(found) == 2
    functions = {site["function"] for way in document["ways"] for site in way["call_sites"]}
    assert all(one.startswith("main+0x") for one in functions)


@pytest.mark.covering(1)
@pytest.mark.parametrize("build", ["lazy", "no-pie", "ibt", "lld", "mold", "gold"])
@pytest.mark.parametrize("symbol", ["malloc", "free", "printf"])
def test_the_resolver_is_given_what_it_gets_when_the_stub_runs(
    tmp_path: Path, build: str, symbol: str, explain: Explain
) -> None:
    path = made(tmp_path, build)
    document = explain(path, symbol)
    (way,) = [one for one in document["ways"] if one["slot"]["binding"] == "lazy"]
    with opened(path) as mapped:
        ran = {one.stub.slot: one for one in emulate.run_stubs(mapped)}
    said = {one["meaning"]: one for one in way["resolver_arguments"]}
    index = said["the index of the relocation in DT_JMPREL"]
    assert int(index["value"], 16) == ran[int(way["slot"]["slot"], 16)].argument
    assert said["the image's link_map"]["kind"] == "cell"


@pytest.mark.every(2)
@pytest.mark.parametrize("build", ["lazy", "ibt", "mold"])
def test_the_number_of_instructions_is_gdbs(tmp_path: Path, build: str, explain: Explain) -> None:
    """One step after another, from the call to the resolver."""
    path = made(tmp_path, build)
    document = explain(path, "malloc")
    (way,) = document["ways"]
    site = way["call_sites"][0]["function"]
    gdb = need("gdb")
    script = [
        "set debuginfod enabled off",
        "break main",
        "run",
        f"tbreak *({site.replace('main', '(char *)main', 1)})",
        "continue",
        *["stepi"] * way["first_call_instructions"],
        "info symbol $pc",
    ]
    words = [word for one in script for word in ("-ex", one)]
    done = subprocess.run(
        [gdb, "-nx", "-batch", *words, path],
        capture_output=True,
        text=True,
        check=False,
        timeout=limit(120),
        env={"PATH": "/usr/bin:/bin"},
    )
    assert re.search(r"^_dl_runtime_resolve_\w+ in section \.text", done.stdout, re.MULTILINE), (
        done.stdout + done.stderr
    )


def test_a_name_that_is_none_has_near_ones(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = made(tmp_path, "lazy")
    assert main(["explain", str(path), "maloc"]) == 1
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err == f"soscope: {path}: no slot for 'maloc'; near to it: malloc\n"


def test_every_slot_of_a_name_is_explained(tmp_path: Path, explain: Explain) -> None:
    text = """
    extern int abs(int);
    int main(int c) { int (*volatile g)(int) = abs; return abs(c) + g(c); }"""
    need("ld.lld")
    path = built(
        tmp_path, "two", text, "-fuse-ld=lld", "-fno-builtin", "-Wl,-z,lazy", compiler="clang"
    )
    document = explain(path, "abs")
    expected = re.findall(
        r"^([0-9a-f]+).*(?:JUMP_SLO|GLOB_DAT).* abs@", run("readelf", "-rW", path), re.MULTILINE
    )
    assert [one["slot"]["slot"] for one in document["ways"]] == sorted(
        (hex(int(one, 16)) for one in expected), key=lambda one: int(one, 16)
    )
    assert len(expected) == 2


def test_musl_never_takes_the_lazy_way(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    need("musl-gcc")
    path = built(tmp_path, "musl", CALLS, "-Wl,-z,lazy", compiler="musl-gcc")
    assert main(["explain", str(path), "malloc"]) == 0
    said = capfd.readouterr().out
    assert "musl binds it when it loads the image, in every version" in " ".join(said.split())
    assert "glibc" not in said


def test_a_file_that_is_cut_off_is_partial_or_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = made(tmp_path, "lazy")
    data = path.read_bytes()
    for end in range(0, len(data), 997):
        path.write_bytes(data[:end])
        assert main(["explain", str(path), "malloc"]) in (0, 1)
        err = capfd.readouterr().err
        assert "bug in soscope" not in err


def test_an_architecture_that_no_file_has_is_said_of_each(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ("-shared", "-fPIC", "-nostdlib")
    paths = [str(built(tmp_path, name, "int here;", *words)) for name in ("a", "b")]
    for shown in (paths[:1], paths):
        assert main(["explain", shown[0], "malloc", *shown[1:], "--arch", "vax"]) == 1
        told, hint = capfd.readouterr().err.splitlines()
        assert told == f"soscope: error: {' and '.join(shown)}: no image for vax"
        assert hint.count("there is x86-64") == len(shown)
        assert all(path in hint for path in shown) or len(shown) == 1


def test_a_loader_that_only_others_have_is_not_glibcs(tmp_path: Path, explain: Explain) -> None:
    text = "extern int away(void); void _start(void) { away(); }"
    flags = ("-nostdlib", "-Wl,--unresolved-symbols=ignore-all", "-Wl,-z,lazy")
    for place in ("/usr/libexec/ld.so", "/usr/lib/ld.so.1"):
        path = built(tmp_path, "program", text, *flags, f"-Wl,--dynamic-linker={place}", "-pie")
        document = explain(path, "away", status=1)
        (importer,) = document["images"]
        assert importer["loader"] is None
