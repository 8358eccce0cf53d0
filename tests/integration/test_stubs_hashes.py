# SPDX-License-Identifier: Apache-2.0
"""Symbols of files whose hash tables are those of one processor alone, against nm."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from soscope.binfmt.elf.lookup import Name
from soscope.binfmt.elf.symboltable import CALL, SymbolTable
from tests.support.files.elffiles import run
from tests.support.files.stubs import FOREIGN, LIBRARY, compiled, linked, opened

_CELLS = [
    ("s390x", "sysv"),
    ("s390x", "gnu"),
    ("s390x", "both"),
    *((arch, how) for arch in ("mips", "mipsel", "mips64", "mips64el") for how in ("sysv", "gnu")),
]
_USED = LIBRARY + "extern int far(int), data; int near(int x) { return far(x) + data; }\n"


def _listed(path: Path, prefix: str) -> dict[str, int]:
    """Return the functions that nm shows, name -> vaddr, 0 where they are not defined here."""
    rows = re.findall(r"^([0-9a-f]*) +([UTD]) (\w+)$", run(prefix + "nm", "-D", path), re.MULTILINE)
    return {name: int(vaddr or "0", 16) for vaddr, _, name in rows}


@pytest.mark.covering(1)
@pytest.mark.parametrize(("arch", "style"), _CELLS)
def test_all_symbols(tmp_path: Path, arch: str, style: str) -> None:
    unit = compiled(tmp_path, arch, _USED, "-fPIC")
    path = linked(tmp_path, arch, "bfd", [unit], "-shared", f"--hash-style={style}")
    listed = _listed(path, FOREIGN[arch][1])
    assert {"near", "far", "data", "puts"} <= listed.keys()
    with opened(path) as mapped:
        found = {one.name: one.vaddr for one in mapped.symbols}
        assert {name: vaddr for name, vaddr in found.items() if name in listed} == listed
        assert mapped.slots
        assert mapped.partial == []
        here = {name for name, vaddr in listed.items() if vaddr}
        exports = SymbolTable(mapped.image)
        exports.read_all()
        found_here = {name for name in listed if exports.find(Name(name.encode()), use=CALL)}
        assert found_here == here
        for name in here:
            assert mapped.image.symbols.addr(name) == listed[name]
        assert mapped.image.symbols.addr("far") is None
