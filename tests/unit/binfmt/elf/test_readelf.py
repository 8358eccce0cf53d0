# SPDX-License-Identifier: Apache-2.0
"""The same question to readelf, about files of this system: the same answer."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from soscope.binfmt.elf.image import ElfImage
from tests.support.machines.tools import need
from tests.support.time.patience import limit

LIBRARIES = """ld-linux-x86-64.so.2 libc.so.6 libcrypto.so.3 libexpat.so.1 libgcc_s.so.1 libm.so.6
libpthread.so.0 libselinux.so.1 libstdc++.so.6 libz.so.1""".split()


def files() -> list[str]:
    """Some programs and shared objects that most systems have."""
    with Path("/proc/self/maps").open() as maps:
        libc = next(line.split()[-1] for line in maps if line.rstrip().endswith("/libc.so.6"))
    libraries = [os.path.join(os.path.dirname(libc), name) for name in LIBRARIES]
    paths = ["/bin/ls", "/bin/sh", os.path.realpath("/proc/self/exe"), *libraries]
    return [path for path in paths if os.path.exists(path)]


def readelf(*words: str) -> str:
    """Ask readelf."""
    command = [need("readelf"), "-W", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=limit(30))
    return done.stdout


@pytest.mark.parametrize("path", files())
def test_readelf_agrees(path: str) -> None:
    with Path(path).open("rb") as file:
        image = ElfImage.from_descriptor(file.fileno(), path)
        dynamic, notes = readelf("-d", path), readelf("-n", path)
        assert image.needed == re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
        assert [image.soname] == (re.findall(r"\(SONAME\).*\[(.*)\]", dynamic) or [None])
        assert [image.build_id.hex()] == (re.findall(r"Build ID: (\w+)", notes) or [""])
        wanted = {}
        for line in readelf("--dyn-syms", path).splitlines():
            fields = line.split()
            if len(fields) >= 8 and fields[0][:-1].isdigit() and fields[0] != "0:":
                wanted[int(fields[0][:-1])] = (int(fields[1], 16), fields[3], fields[6], fields[7])
        found = {symbol.index: symbol for symbol in image.symbols}
        undefined = {index for index, row in wanted.items() if row[2] == "UND"}
        assert {index for index in found if not found[index].is_defined} == undefined
        assert set(found) == set(wanted)
        for index, (value, kind, _, name) in wanted.items():
            symbol = found[index]
            base, _, version = name.partition("@")
            assert (symbol.name, symbol.value) == (base, value)
            version = version.lstrip("@")
            # readelf gives absolute version symbols no version
            assert (symbol.version or "") == version or not version
            if symbol.is_defined and kind in ("FUNC", "IFUNC") and "@@" in name:
                looked_up = image.symbol(base)
                assert looked_up is not None
                assert looked_up.value == value
