# SPDX-License-Identifier: Apache-2.0
"""The slots of the dynamic linker itself, against what this process has in them."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from soscope.model.filemap import NOW
from tests.support.files.stubs import opened


def _loader() -> tuple[Path, int]:
    """Return the loader of this process, and where it is mapped."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        fields = line.split()
        if len(fields) > 5 and os.path.basename(fields[5]).startswith("ld-"):
            return Path(fields[5]), int(fields[0].partition("-")[0], 16)
    raise AssertionError("no loader is mapped")


def test_the_loader_binds_its_own_slots_at_once() -> None:
    path, base = _loader()
    with opened(path) as mapped, open("/proc/self/mem", "rb") as memory:
        slots = [one for one in mapped.slots if one.kind.endswith(("JUMP_SLOT", "GLOB_DAT"))]
        assert slots
        for one in slots:
            memory.seek(base + one.vaddr)
            (value,) = struct.unpack("P", memory.read(struct.calcsize("P")))
            stubs = [(stub.vaddr, stub.vaddr + stub.size) for stub in one.stubs]
            assert value
            assert not any(first <= value - base < last for first, last in stubs)
        assert [one.binding for one in slots] == [NOW] * len(slots)
        assert [(one.helper, one.resolver_argument) for one in slots] == [(None, None)] * len(slots)
