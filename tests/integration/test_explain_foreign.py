# SPDX-License-Identifier: Apache-2.0
"""The life of a call on other processors, against their objdump and against running it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from soscope.inspect.check import emulate
from tests.support.files.elffiles import run
from tests.support.files.explaining import Explain, objdump_of, same
from tests.support.files.stubs import compiled, linked, opened, program

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


@pytest.mark.covering(1)
@pytest.mark.parametrize(("arch", "by"), CELLS)
def test_a_call_on_another_processor(tmp_path: Path, arch: str, by: str, explain: Explain) -> None:
    path = program(tmp_path, arch, by, "-pie", "-z", "lazy")
    truth = objdump_of(path, arch)
    for symbol in ("malloc", "atoi"):
        document = explain(path, symbol)
        (way,) = document["ways"]
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
        document = explain(path, symbol)
        (way,) = document["ways"]
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
        document = explain(path, symbol)
        (way,) = document["ways"]
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
    document = explain(path, "malloc")
    (way,) = document["ways"]
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
    document = explain(path, "malloc")
    (way,) = document["ways"]
    first, second = (one["stub"] for one in way["slot"]["stubs"])
    assert [one["target"] for one in way["call_sites"]] == [second, first]
    (stub,) = [one for one in way["steps"] if one["step"] == "stub"]
    assert stub["lines"][0]["vaddr"] == second
    assert any(one["refers_to"] == way["slot"]["slot"] for one in stub["lines"])


def test_calls_from_thumb_code(tmp_path: Path, explain: Explain) -> None:
    """GNU ld puts `bx pc` in front of a stub that Thumb code jumps to."""
    text = """
    extern void *malloc(unsigned);
    void *straight(void) { return malloc(1); }
    int *twice(void) { *(char *)malloc(2) = 1; return malloc(3); }"""
    unit = compiled(tmp_path, "arm", text, "-fPIC", "-mthumb")
    path = linked(tmp_path, "arm", "bfd", [unit], "-shared", "-z", "lazy")
    truth = objdump_of(path, "arm")
    document = explain(path, "malloc")
    (way,) = document["ways"]
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
