# SPDX-License-Identifier: Apache-2.0
"""The life of a call in a file, against objdump, and against running the same code."""

from __future__ import annotations

import json
import re
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from soscope.binfmt.macho.fat import slices
from soscope.binfmt.macho.filemap import MachoMap
from soscope.binfmt.source import FileSource
from soscope.cli.main import main
from soscope.inspect import emulate
from tests.support import machomade
from tests.support.elffiles import built, run
from tests.support.machowriter import fat
from tests.support.schema import wrong_members
from tests.support.schema_explain import EXPLAIN_FILE
from tests.support.stubs import FOREIGN, compiled, linked, opened, program
from tests.support.tools import need

CALLS = """
#include <stdlib.h>
#include <stdio.h>
int main(void) {
	void *p = malloc(10), *q = malloc(20);
	printf("%p %p\\n", p, q);
	free(p), free(q);
	return 0;
}
"""
BUILDS = {
    "lazy": ("-Wl,-z,lazy",),
    "no-pie": ("-no-pie", "-Wl,-z,lazy"),
    "ibt": ("-fcf-protection", "-Wl,-z,lazy,-z,ibtplt"),
    "now": ("-Wl,-z,now",),
    "no-plt": ("-fno-plt",),
    "lld": ("-fuse-ld=lld", "-Wl,-z,lazy"),
    "retpoline": ("-fuse-ld=lld", "-Wl,-z,lazy,-z,retpolineplt"),
    "mold": ("-fuse-ld=mold", "-Wl,-z,lazy"),
    "gold": ("-fuse-ld=gold", "-Wl,-z,lazy"),
    "i386": ("-m32", "-Wl,-z,lazy"),
    "i386-no-pie": ("-m32", "-no-pie", "-Wl,-z,lazy"),
    "i386-ibt": ("-m32", "-fcf-protection", "-Wl,-z,lazy,-z,ibtplt"),
    "i386-lld": ("-m32", "-fuse-ld=lld", "-Wl,-z,lazy"),
    "i386-mold": ("-m32", "-fuse-ld=mold", "-Wl,-z,lazy"),
    "i386-no-plt": ("-m32", "-fno-plt"),
}
LINKERS = {
    "i386-lld": "ld.lld",
    "i386-mold": "mold",
    "lld": "ld.lld",
    "retpoline": "ld.lld",
    "mold": "mold",
    "gold": "ld.gold",
}

Explain = Callable[..., Any]


@pytest.fixture
def explain(capfd: pytest.CaptureFixture[str]) -> Explain:
    def said(*words: str | Path, status: int = 0) -> Any:
        assert main(["explain", "--json", *map(str, words)]) == status
        document = json.loads(capfd.readouterr().out)
        assert wrong_members(document, EXPLAIN_FILE) == []
        return document

    return said


def made(folder: Path, build: str, *more: str) -> Path:
    if build in LINKERS:
        need(LINKERS[build])
    compiler = "clang" if LINKERS.get(build) in ("ld.lld", "mold") else "gcc"
    return built(folder, build, CALLS, *BUILDS[build], *more, compiler=compiler)


def objdump(path: Path) -> dict[int, tuple[str, str]]:
    """Return (bytes, instruction) by address, as objdump -d has them."""
    found = {}
    for line in run("objdump", "-dw", path).splitlines():
        row = re.fullmatch(r"\s*([0-9a-f]+):\t((?:[0-9a-f]{2} )+)\s*(?:\t(.*))?", line)
        if row is not None:
            found[int(row[1], 16)] = (row[2].replace(" ", ""), row[3] or "")
    return found


def same(text: str) -> str:
    """Return an instruction without what disassemblers write differently."""
    text = re.sub(r"\s*(# |<|@|//).*", "", text)
    text = re.sub(r"\b(push|pop|jmp|call|mov|sub|lea|xor|add|test)[lqb]\b", r"\1", text)
    return re.sub(r"\b0x|(?<=#)0x|[\s$*]", "", text)


@pytest.mark.parametrize("build", BUILDS)
def test_every_byte_and_instruction_is_objdumps(
    tmp_path: Path, build: str, explain: Explain
) -> None:
    path = made(tmp_path, build)
    truth = objdump(path)
    (image,) = explain(path, "malloc")["images"]
    assert image["ways"]
    for way in image["ways"]:
        assert way["wrong"] == []
        for step in way["steps"]:
            for line in step["lines"]:
                code, text = truth[int(line["vaddr"], 16)]
                assert line["code"] == code
                assert same(line["text"]) == same(text), step["step"]


@pytest.mark.parametrize("build", BUILDS)
def test_who_calls_is_who_calls_in_objdumps_listing(
    tmp_path: Path, build: str, explain: Explain
) -> None:
    path = made(tmp_path, build)
    (image,) = explain(path, "malloc")["images"]
    stubs = {int(stub["stub"], 16) for way in image["ways"] for stub in way["slot"]["stubs"]}
    slots = {int(way["slot"]["slot"], 16) for way in image["ways"]}
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
    found = {int(site["vaddr"], 16) for way in image["ways"] for site in way["call_sites"]}
    assert found == expected
    assert len(found) == 2
    functions = {site["function"] for way in image["ways"] for site in way["call_sites"]}
    assert all(one.startswith("main+0x") for one in functions)


@pytest.mark.parametrize("build", ["lazy", "no-pie", "ibt", "lld", "mold", "gold"])
@pytest.mark.parametrize("symbol", ["malloc", "free", "printf"])
def test_the_resolver_is_given_what_it_gets_when_the_stub_runs(
    tmp_path: Path, build: str, symbol: str, explain: Explain
) -> None:
    path = made(tmp_path, build)
    (image,) = explain(path, symbol)["images"]
    (way,) = [one for one in image["ways"] if one["slot"]["binding"] == "lazy"]
    with opened(path) as mapped:
        ran = {one.stub.slot: one for one in emulate.run_stubs(mapped)}
    said = {one["meaning"]: one for one in way["resolver_arguments"]}
    index = said["the index of the relocation in DT_JMPREL"]
    assert int(index["value"], 16) == ran[int(way["slot"]["slot"], 16)].argument
    assert said["the image's link_map"]["kind"] == "cell"


@pytest.mark.parametrize("build", ["lazy", "ibt", "mold"])
def test_the_number_of_instructions_is_gdbs(tmp_path: Path, build: str, explain: Explain) -> None:
    """One step after another, from the call to the resolver."""
    path = made(tmp_path, build)
    (image,) = explain(path, "malloc")["images"]
    (way,) = image["ways"]
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
        timeout=120,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert re.search(r"^_dl_runtime_resolve_\w+ in section \.text", done.stdout, re.MULTILINE), (
        done.stdout + done.stderr
    )


# what the loader's own function is given, of what its trampoline finds
GIVEN: dict[str, Callable[[dict[str, int]], int]] = {
    "aarch64": lambda given: (given["[sp]"] - given["x16"] - 8) * 3,
    "arm": lambda given: (given["ip"] - given["lr"] - 4) * 2,
    "riscv64": lambda given: given["t1"] * 3,
    "s390x": lambda given: given["56(%r15)"],
}
CELLS = [
    (arch, by)
    for arch in GIVEN
    for by in ("bfd", "lld", "gold", "mold")
    if (arch, by) not in {("riscv64", "gold"), ("s390x", "lld")}
]


@pytest.mark.parametrize(("arch", "by"), CELLS)
def test_a_call_on_another_processor(tmp_path: Path, arch: str, by: str, explain: Explain) -> None:
    path = program(tmp_path, arch, by, "-pie", "-z", "lazy")
    truth = objdump_of(path, arch)
    for symbol in ("malloc", "atoi"):
        (image,) = explain(path, symbol)["images"]
        (way,) = image["ways"]
        assert way["wrong"] == []
        (site,) = way["call_sites"]
        assert site["function"].startswith("main+0x")
        stub = int(way["slot"]["stubs"][0]["stub"], 16)
        assert re.search(rf"\b0*{stub:x}\b", truth[int(site["vaddr"], 16)][1])
        for step in way["steps"]:
            for line in step["lines"]:
                code, text = truth[int(line["vaddr"], 16)]
                assert line["code"] == code
                if step["step"] != "call":  # which may be Capstone's
                    assert same(line["text"]) == same(text)
        given = {
            one["place"]: int(one["value"], 16)
            for one in way["resolver_arguments"]
            if one["value"] is not None
        }
        with opened(path) as mapped:
            slot = int(way["slot"]["slot"], 16)
            (ran,) = [one for one in emulate.run_stubs(mapped) if one.stub.slot == slot]
        assert GIVEN[arch](given) == ran.argument


POWERPC = [
    ("ppc64le", "bfd", ("-fPIC",)),
    ("ppc64le", "lld", ("-fPIC",)),
    ("ppc64", "bfd", ("-fPIC",)),
    ("ppc", "bfd", ("-fpic", "-msecure-plt")),
]


@pytest.mark.parametrize(("arch", "by", "flags"), POWERPC)
def test_a_call_on_powerpc(
    tmp_path: Path, arch: str, by: str, flags: tuple[str, ...], explain: Explain
) -> None:
    path = program(tmp_path, arch, by, "-pie", "-z", "lazy", compiling=flags)
    truth = objdump_of(path, arch)
    listed = re.findall(r"^([0-9a-f]+) .*_JMP_SLOT", run("readelf", "-rW", path), re.MULTILINE)
    for symbol in ("malloc", "atoi"):
        (image,) = explain(path, symbol)["images"]
        (way,) = image["ways"]
        assert way["wrong"] == []
        (site,) = way["call_sites"]
        assert site["function"].startswith("main+0x")
        stub = int(way["slot"]["stubs"][0]["stub"], 16)
        assert re.search(rf"\b0*{stub:x}\b", truth[int(site["vaddr"], 16)][1])
        for step in way["steps"]:
            for line in step["lines"]:
                code, text = truth[int(line["vaddr"], 16)]
                assert (line["code"], same(line["text"])) == (code, same(text))
        index = [int(one, 16) for one in listed].index(int(way["slot"]["slot"], 16))
        given = {one["meaning"]: one["value"] for one in way["resolver_arguments"]}
        assert given.pop("the image's link_map") is not None
        (value,) = given.values()
        assert int(value, 16) == index * (12 if arch == "ppc" else 1)


@pytest.mark.parametrize("arch", ["mips", "mips64el"])
def test_a_call_on_mips(tmp_path: Path, arch: str, explain: Explain) -> None:
    """It has no stub on its way: that of .MIPS.stubs leads to the resolver."""
    path = program(tmp_path, arch, "bfd", "-pie", "-z", "lazy")
    truth = objdump_of(path, arch)
    symbols = run("readelf", "--dyn-syms", "-W", path)
    for symbol in ("malloc", "atoi"):
        (image,) = explain(path, symbol)["images"]
        (way,) = image["ways"]
        assert way["wrong"] == []
        (site,) = way["call_sites"]
        assert (site["flow"], site["target"]) == ("call-through", way["slot"]["slot"])
        assert truth[int(site["vaddr"], 16)][1].split() == ["jalr", "t9"]
        for step in way["steps"]:
            assert step["step"] != "stub"
            for line in step["lines"]:
                code, text = truth[int(line["vaddr"], 16)]
                assert (line["code"], same(line["text"])) == (code, same(text))
        row = re.search(rf"^ *(\d+): .* {symbol}$", symbols, re.MULTILINE)
        assert row is not None
        given = {one["place"]: one["value"] for one in way["resolver_arguments"]}
        assert given["t8"] == hex(int(row[1]))


def objdump_of(path: Path, arch: str) -> dict[int, tuple[str, str]]:
    """Return (bytes, instruction) by address, the bytes in the order of the file."""
    prefix = FOREIGN[arch][1]
    found = {}
    for line in run(need(f"{prefix}objdump"), "-dw", path).splitlines():
        row = re.match(r"\s*([0-9a-f]+):\t((?:[0-9a-f]{2,8} )+) *(?:\t(.*))?", line)
        if row is not None:
            parts = [bytes.fromhex(one) for one in row[2].split()]
            is_big = arch in ("s390x", "mips")
            code = b"".join(parts if is_big else [one[::-1] for one in parts])
            found[int(row[1], 16)] = (code.hex(), row[3] or "")
    return found


@pytest.mark.parametrize("name", sorted(machomade.NAMES))
def test_the_way_of_every_lazy_slot_that_mach_o_has_known(
    tmp_path: Path, name: str, explain: Explain
) -> None:
    image = machomade.made(name)
    if image.arch == "arm64e":
        return  # has nothing that is lazy
    path = tmp_path / "image"
    path.write_bytes(image.data)
    if image.arch in {"armv7", "arm64_32"}:
        (found,) = explain("--", path, "_puts")["images"]
        assert f"no decoder for {image.arch}" in str(found["ways"])
        return
    lazy = [one for one in image.rows if one.helper is not None and one.stub is not None]
    for row in lazy[:2]:
        (found,) = explain("--", path, row.symbol)["images"]
        (way,) = [one for one in found["ways"] if int(one["slot"]["slot"], 16) == row.slot]
        assert way["wrong"] == []
        steps = {one["step"]: one for one in way["steps"]}
        assert int(steps["stub"]["lines"][0]["vaddr"], 16) == row.stub
        late = steps.get("helper") or steps["plt0"]
        assert int(late["lines"][0]["vaddr"], 16) == row.helper
        values = [one["value"] for one in way["resolver_arguments"]]
        assert hex(row.argument or 0) in values or image.arch.startswith("ppc")
        if name.startswith("classic") and values:
            meanings = [one["meaning"] for one in way["resolver_arguments"]]
            assert meanings == ["the image's mach_header", "the slot"]


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
    (image,) = explain(path, "abs")["images"]
    expected = re.findall(
        r"^([0-9a-f]+).*(?:JUMP_SLO|GLOB_DAT).* abs@", run("readelf", "-rW", path), re.MULTILINE
    )
    assert [one["slot"]["slot"] for one in image["ways"]] == sorted(
        (hex(int(one, 16)) for one in expected), key=lambda one: int(one, 16)
    )
    assert len(expected) == 2


def test_two_files_stand_side_by_side(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lazy, now = made(tmp_path, "lazy"), made(tmp_path, "now")
    assert main(["explain", str(lazy), "malloc", str(now), "--width", "120"]) == 0
    lines = capfd.readouterr().out.splitlines()
    rule = next(line for line in lines if line.startswith("─"))
    middle = rule.index("┼")
    assert {line[middle] for line in lines} == {"│", "┼"}
    assert max(map(len, lines)) <= 120
    left = "\n".join(line[:middle] for line in lines)
    right = "\n".join(line[middle + 1 :] for line in lines)
    assert "PLT0" in left
    assert "no PLT0" in right
    assert "not lazy in this file: bound when the image is loaded" in right
    assert main(["explain", str(lazy), "malloc", str(now), "--width", "90"]) == 0
    below = capfd.readouterr().out
    assert "│" not in below
    assert below.count("call site") == 2
    assert max(map(len, below.splitlines())) <= 90


def overlapping(picture: Path) -> list[str]:
    """Return what lies upon something else in a picture, or goes out of its card."""
    root = ET.parse(picture).getroot()
    name = "{http://www.w3.org/2000/svg}"
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    boxes = [
        tuple(float(one.attrib[key]) for key in ("x", "y", "width", "height"))
        for one in root.iter(f"{name}rect")
        if one.attrib.get("fill") == "#ffffff"
    ]
    wrong = []
    for index, (x, y, wide, tall) in enumerate(boxes):
        if not (0 <= x < x + wide <= width and 0 <= y < y + tall <= height):
            wrong.append(f"{boxes[index]} is outside")
        wrong += [
            f"{boxes[index]} and {(other_x, other_y, other_wide, other_tall)}"
            for other_x, other_y, other_wide, other_tall in boxes[:index]
            if x < other_x + other_wide
            and other_x < x + wide
            and y < other_y + other_tall
            and other_y < y + tall
        ]
    for one in root.iter(f"{name}text"):
        size, text = float(one.attrib["font-size"]), one.text or ""
        letter = 0.605 if "Mono" in one.attrib.get("font-family", "") else 0.5
        letter += 0.07 if "font-weight" in one.attrib else 0
        start, line = float(one.attrib["x"]), float(one.attrib["y"])
        if one.attrib.get("text-anchor") is not None:
            continue
        room = [
            x + wide for x, y, wide, tall in boxes if x < start < x + wide and y < line < y + tall
        ]
        if start + len(text) * size * letter > min(room, default=width):
            wrong.append(text)
    assert len(boxes) >= 4
    return wrong


@pytest.mark.parametrize("builds", [("lazy",), ("lazy", "no-plt"), ("no-plt",), ("now", "ibt")])
def test_nothing_in_the_picture_lies_upon_another(tmp_path: Path, builds: tuple[str, ...]) -> None:
    files = [str(made(tmp_path, one)) for one in builds]
    picture = tmp_path / "picture.svg"
    assert main(["explain", files[0], "malloc", *files[1:], "--svg", str(picture)]) == 0
    assert overlapping(picture) == []


@pytest.mark.parametrize(
    "name", ["info-arm64-dylib", "classic-i386-pic-dylib", "chained-x86_64-6-1"]
)
def test_long_names_are_shortened_in_the_picture(tmp_path: Path, name: str) -> None:
    image = machomade.made(name)
    symbol = max((one.symbol for one in image.rows if one.stub is not None), key=len)
    assert len(symbol) > 100
    (tmp_path / "image").write_bytes(image.data)
    picture = tmp_path / "picture.svg"
    assert main(["explain", "--svg", str(picture), "--", str(tmp_path / "image"), symbol]) == 0
    assert overlapping(picture) == []
    assert symbol not in picture.read_text()


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


_FAR = """
extern void *malloc(unsigned long);
__attribute__((section(".far"))) void *distant(void) { return (char *)malloc(1) + 1; }
int main(void) { return distant() == malloc(2); }
"""


def test_a_thunk_that_makes_a_call_reach_its_stub(tmp_path: Path, explain: Explain) -> None:
    """ld.lld puts one between, where the stub is more than 128 MiB away."""
    made_by = [compiled(tmp_path, "aarch64", _FAR, "-fPIC")]
    script = tmp_path / "far.lds"
    script.write_text("""SECTIONS {
        . = SIZEOF_HEADERS; .dynsym : {} .dynstr : {} .rela.plt : {}
        .text 0x10000 : { *(.text) } .plt : {} .dynamic 0x30000 : {} .got.plt : {}
        .far 0x20000000 : { *(.far) } }""")
    far = ("-T", str(script), "-z", "lazy", "-shared")
    path = linked(tmp_path, "aarch64", "lld", made_by, *far)
    (image,) = explain(path, "malloc")["images"]
    (way,) = image["ways"]
    (thunk,) = [one for one in way["steps"] if one["step"] == "thunk"]
    assert thunk["where"] == "__AArch64ADRPThunk_malloc"
    (stub,) = way["slot"]["stubs"]
    assert thunk["lines"][-1]["target"] == stub["stub"]
    sites = {one["function"].partition("+")[0]: one for one in way["call_sites"]}
    assert sites["distant"]["target"] == thunk["lines"][0]["vaddr"]
    assert sites["main"]["target"] == stub["stub"]


def test_of_several_stubs_the_one_that_is_called_is_shown(tmp_path: Path, explain: Explain) -> None:
    """Each file's code for 32-bit PowerPC counts from a place of its own, with stubs of its own."""
    text = """
#include <stdlib.h>
extern int much;
void *NAME(void) { much++; return (char *)malloc(much) + 1; }
"""
    parts = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        source = text.replace("NAME", name)
        parts.append(compiled(tmp_path / name, "ppc", source, "-fPIC", "-msecure-plt"))
    path = linked(tmp_path, "ppc", "bfd", parts, "-z", "lazy", "-shared")
    (image,) = explain(path, "malloc")["images"]
    (way,) = image["ways"]
    first, second = (one["stub"] for one in way["slot"]["stubs"])
    assert [one["target"] for one in way["call_sites"]] == [second, first]
    (stub,) = [one for one in way["steps"] if one["step"] == "stub"]
    assert stub["lines"][0]["vaddr"] == second
    assert any(one["refers_to"] == way["slot"]["slot"] for one in stub["lines"])


def test_a_helper_that_names_another_record_is_said_to(tmp_path: Path, explain: Explain) -> None:
    """zig 0.13 to 0.17 give every stub helper of arm64 the offset 0."""
    image = machomade.made("info-arm64-dylib")
    (row,) = [one for one in image.rows if one.symbol == "_malloc"]
    path = tmp_path / "image"
    path.write_bytes(image.data)
    (found,) = explain("--", path, row.symbol)["images"]
    line = next(one for one in found["ways"][0]["steps"] if one["step"] == "helper")["lines"][0]
    literal = int(line["refers_to"], 16)
    with path.open("rb") as file:
        source = FileSource(file.fileno(), str(path))
        at = MachoMap(source, slices(source)[0]).image.offset_of(literal)
    assert at is not None
    path.write_bytes(image.data[:at] + bytes(4) + image.data[at + 4 :])
    (found,) = explain("--", path, row.symbol, status=1)["images"]
    (wrong,) = found["ways"][0]["wrong"]
    assert f"is given 0x0, but the slot's own record is {row.argument:#x}" in wrong


def test_the_images_of_a_universal_file_stand_side_by_side(
    tmp_path: Path, explain: Explain, capfd: pytest.CaptureFixture[str]
) -> None:
    parts = [machomade.made(f"info-{arch}-dylib") for arch in ("x86_64", "arm64")]
    path = tmp_path / "universal"
    path.write_bytes(fat([(one.arch, one.data) for one in parts]))
    assert [one["arch"] for one in explain(path, "puts")["images"]] == ["x86_64", "arm64"]
    assert [one["arch"] for one in explain(path, "puts", "--arch", "arm64")["images"]] == ["arm64"]
    assert main(["explain", str(path), "_puts", "--width", "140"]) == 0
    said = capfd.readouterr().out
    assert "│" in said
    assert "ldr w16" in said
    assert "push $0x" in said
    assert main(["explain", str(path), "puts", "--arch", "ppc"]) == 1
    assert "no image for ppc" in capfd.readouterr().err


@pytest.mark.parametrize("name", [one for one in sorted(machomade.NAMES) if "chained" in one])
def test_a_stub_of_mach_o_leads_through_its_slot(
    tmp_path: Path, name: str, explain: Explain
) -> None:
    image = machomade.made(name)
    path = tmp_path / "image"
    path.write_bytes(image.data)
    rows = [one for one in image.rows if one.stub is not None]
    assert rows
    for row in (rows[0], rows[-1]):
        (found,) = explain("--", path, row.symbol)["images"]
        (way,) = [one for one in found["ways"] if int(one["slot"]["slot"], 16) == row.slot]
        (stub,) = [one for one in way["steps"] if one["step"] == "stub"]
        lines = stub["lines"]
        assert (lines[0]["vaddr"], lines[-1]["target"]) == (hex(row.stub or 0), hex(row.slot))
        assert way["resolver_arguments"] == []
        is_signed = row.signed is not None
        assert is_signed == any(one.startswith("signed with key") for one in stub["notes"])


@pytest.mark.parametrize("arch", ["x86_64-unnamed", "arm64-unnamed", "arm64e-unnamed"])
def test_the_stub_for_a_selector(tmp_path: Path, arch: str, explain: Explain) -> None:
    image = machomade.made(f"objc-{arch}")
    path = tmp_path / "image"
    path.write_bytes(image.data)
    for stub, selector in image.selectors.items():
        (found,) = explain("--", path, f"_objc_msgSend${selector}")["images"]
        (way,) = found["ways"]
        assert [int(one["stub"], 16) for one in way["slot"]["stubs"]] == [stub]
        (step,) = [one for one in way["steps"] if one["step"] == "stub"]
        assert f"the selector is {selector}" in step["notes"]
        assert int(step["lines"][0]["vaddr"], 16) == stub
    assert main(["explain", str(path), "_objc_msgSend$nothing"]) == 1


def test_calls_from_thumb_code(tmp_path: Path, explain: Explain) -> None:
    """GNU ld puts `bx pc` in front of a stub that Thumb code jumps to."""
    text = """
    extern void *malloc(unsigned);
    void *straight(void) { return malloc(1); }
    int *twice(void) { *(char *)malloc(2) = 1; return malloc(3); }"""
    unit = compiled(tmp_path, "arm", text, "-fPIC", "-mthumb")
    path = linked(tmp_path, "arm", "bfd", [unit], "-shared", "-z", "lazy")
    truth = objdump_of(path, "arm")
    (image,) = explain(path, "malloc")["images"]
    (way,) = image["ways"]
    expected = {
        vaddr: said.split()[0]
        for vaddr, (_, said) in truth.items()
        if "malloc@plt" in said and said.split()[0] in ("bl", "blx", "b.w")
    }
    assert len(expected) == 3
    assert {int(one["vaddr"], 16) for one in way["call_sites"]} == set(expected)
    (step,) = [one for one in way["steps"] if one["step"] == "call"]
    (line,) = step["lines"]
    assert line["text"].split()[0] == expected[int(line["vaddr"], 16)]
