# SPDX-License-Identifier: Apache-2.0
"""Stubs that run under Unicorn go through the slot that the file's map says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from soscope.errors import SoscopeError
from soscope.inspect.check import emulate
from soscope.model.filemap import LAZY
from tests.support.files.elffiles import built
from tests.support.files.stubs import PROGRAM, differences, opened, without_sections

_LINKERS = ("bfd", "gold", "lld", "mold")
_MODES = {
    "pie": ("-Wl,-z,lazy",),
    "nopie": ("-no-pie", "-fno-pic", "-Wl,-z,lazy"),
    "now": ("-Wl,-z,now",),
    "ibt": ("-fcf-protection=full", "-Wl,-z,lazy"),
    "32": ("-m32", "-Wl,-z,lazy"),
    "32-nopie": ("-m32", "-no-pie", "-fno-pic", "-Wl,-z,lazy"),
}


@pytest.mark.covering(1)
@pytest.mark.parametrize("linker", _LINKERS)
@pytest.mark.parametrize("mode", _MODES)
def test_every_stub_goes_through_its_slot(tmp_path: Path, linker: str, mode: str) -> None:
    path = built(tmp_path, "calls", PROGRAM, "-fno-builtin", f"-fuse-ld={linker}", *_MODES[mode])
    with opened(path) as mapped:
        called = {slot.symbol for slot in mapped.slots if slot.stubs}
        assert {"puts", "malloc", "free", "atoi", "abs"} <= called
        assert differences(mapped) == []
        runs = list(emulate.run_stubs(mapped))
        assert len(runs) == sum(len(slot.stubs) for slot in mapped.slots)
        lazy = {stub.vaddr for one in mapped.slots if one.binding == LAZY for stub in one.stubs}
        assert {one.stub.vaddr for one in runs if one.argument is not None} == lazy
        assert bool(lazy) == (mode != "now")
        stubs = [(stub.vaddr, stub.slot) for slot in mapped.slots for stub in slot.stubs]
    with opened(without_sections(path)) as bare:
        assert [(stub.vaddr, stub.slot) for slot in bare.slots for stub in slot.stubs] == stubs


def test_a_stub_that_leads_elsewhere_is_seen(tmp_path: Path) -> None:
    path = built(tmp_path, "calls", PROGRAM, "-fno-builtin", "-fuse-ld=bfd", "-Wl,-z,lazy")
    data = bytearray(path.read_bytes())
    with opened(path) as mapped:
        one, other = [slot.stubs[0] for slot in mapped.slots if slot.binding == LAZY][:2]
        at = mapped.image.locate(one.vaddr)
        beside = mapped.image.locate(other.vaddr)
    # the lazy halves change places: `push $index`
    data[at + 7 : at + 11], data[beside + 7 : beside + 11] = (
        data[beside + 7 : beside + 11],
        data[at + 7 : at + 11],
    )
    path.write_bytes(data)
    with opened(path) as mapped:
        found = differences(mapped)
    assert len(found) == 2
    assert all("the resolver is given" in text for text in found)


def test_code_that_never_leaves_is_left(tmp_path: Path) -> None:
    path = built(tmp_path, "calls", PROGRAM, "-fno-builtin", "-fuse-ld=bfd", "-Wl,-z,lazy")
    with opened(path) as mapped:
        stub = next(slot.stubs[0] for slot in mapped.slots if slot.binding == LAZY)
        at = mapped.image.locate(stub.vaddr) + 6  # behind the jump
        data = bytearray(path.read_bytes())
        data[at : at + 2] = b"\xeb\xfe"  # jmp .
        path.write_bytes(data)
        ran = next(one for one in emulate.run_stubs(mapped) if one.stub == stub)
    assert ran.slot == stub.slot
    assert "no end after" in ran.why


def test_without_unicorn_there_is_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = built(tmp_path, "calls", PROGRAM, "-fno-builtin")
    monkeypatch.setitem(sys.modules, "unicorn", None)
    with opened(path) as mapped, pytest.raises(SoscopeError) as caught:
        list(emulate.run_stubs(mapped))
    assert caught.value.slug == "no-extra"
    assert "soscope[emulate]" in (caught.value.hint or "")
