# SPDX-License-Identifier: Apache-2.0
"""Debian's own files for PowerPC and MIPS: objdump, readelf and Unicorn on all stubs and slots."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from soscope.binfmt.elf.filemap import ElfMap
from soscope.inspect.check.check import check_elf
from soscope.model import filemap as words
from tests.support.files.elffiles import run
from tests.support.files.stubs import (
    differences,
    joined,
    named_by_objdump,
    opened,
    without_sections,
)
from tests.support.machines.foreign import elf_files, readelf_slots, unpacked

pytestmark = pytest.mark.soak

_PACKAGES = ("libc6", "libc6-dev", "coreutils", "bash", "libstdc++6", "perl-base", "libxml2")
# the libraries of the cross compilers: Debian has no packages for the processor itself
_CROSS = (
    "libc6-{}-cross",
    "libstdc++6-{}-cross",
    "libgomp1-{}-cross",
    "libasan8-{}-cross",
    "libubsan1-{}-cross",
)
_WORDS = ("ADDR32", "ADDR64")
_GOT_WORD = re.compile(r"^ +([0-9a-f]{8,16}) +-?\d+\(gp\) ([0-9a-f]+) [0-9a-f]+ \w+ ", re.MULTILINE)


def _of_powerpc(path: Path, mapped: ElfMap) -> list[str]:
    """Compare with readelf's slots, and with objdump's names of what unbound slots lead to."""
    found = []
    calls = [one for one in mapped.slots if one.kind.endswith("JMP_SLOT")]
    found += [f"{path}: {one.symbol} has no stub" for one in calls if not one.stubs]
    ours = {one.vaddr for one in mapped.slots if not one.kind.endswith(_WORDS)}
    if ours != readelf_slots(path, "readelf"):
        found.append(f"{path}: other slots than readelf's")
    if mapped.arch != "ppc":  # there objdump needs symbols
        theirs = named_by_objdump(path, "powerpc64-linux-gnu-objdump")
        lazy = {one.helper: one.symbol for one in calls if one.helper is not None}
        if not lazy.items() <= theirs.items():
            found.append(f"{path}: lazy slots lead elsewhere than objdump says")
    return found


def _of_mips(path: Path, mapped: ElfMap) -> list[str]:
    """Compare with readelf's words of the GOT that have symbols."""
    rows = _GOT_WORD.findall(run("readelf", "-AW", path))
    theirs = {int(vaddr, 16): int(content, 16) for vaddr, content in rows}
    ours = [one for one in mapped.slots if one.kind == "DT_MIPS_GOTSYM"]
    found = []
    if {one.vaddr for one in ours} != theirs.keys():
        found.append(f"{path}: other words than readelf's")
    found += [
        f"{path}: {one.symbol} does not lead to its stub"
        for one in ours
        if one.binding == words.LAZY and [stub.vaddr for stub in one.stubs] != [theirs[one.vaddr]]
    ]
    return found


def _check(files: list[Path], folder: Path) -> int:
    """Look at all files; return how many stubs they have. AssertionError where anything differs."""
    found: list[str] = []
    stubs = 0
    for path in files:
        with opened(path) as mapped:
            stubs += sum(len(one.stubs) for one in mapped.slots)
            found += [f"{path}: {why}" for why in mapped.partial]
            found += [f"{path}: {one} leads astray" for one in mapped.stubs_without_slot]
            found += [f"{path}: {one.message}" for one in check_elf(mapped)]
            is_high = mapped.arch == "mips64" and mapped.kind == "executable"
            if mapped.arch in {"mips", "mips64", "ppc"} and not is_high:
                found += [f"{path}: {one}" for one in differences(mapped)]
            compare = _of_mips if mapped.arch.startswith("mips") else _of_powerpc
            found += compare(path, mapped)
            rows = [one[:1] + one[2:] for one in joined(mapped, *_WORDS, "REL32")]
        bare = without_sections(path, folder)
        with opened(bare) as mapped:
            again = [one[:1] + one[2:] for one in joined(mapped)]
            if again != rows:
                found.append(f"{path}: differs without section headers")
        bare.unlink()
    assert not found, "\n".join(found[:40])
    return stubs


@pytest.mark.parametrize("arch", ["ppc64el", "mips64el", "mipsel"])
def test_every_stub_and_slot_of_debian(tmp_path: Path, arch: str) -> None:
    assert _check(list(elf_files(*unpacked(arch, "bookworm", _PACKAGES))), tmp_path) > 10_000


@pytest.mark.parametrize(("arch", "least"), [("powerpc", 3_000), ("ppc64", 1_500), ("mips", 400)])
def test_every_stub_and_slot_of_the_cross_compilers(tmp_path: Path, arch: str, least: int) -> None:
    packages = tuple(one.format(arch) for one in _CROSS if arch != "mips" or "san" not in one)
    assert _check(list(elf_files(*unpacked("amd64", "bookworm", packages))), tmp_path) > least
