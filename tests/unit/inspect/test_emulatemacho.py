# SPDX-License-Identifier: Apache-2.0
"""Stubs of Mach-O images of every generation, run: what they do is what the map says."""

from __future__ import annotations

import struct

import pytest

from soscope.binfmt.macho.fat import slices
from soscope.binfmt.macho.filemap import MachoMap
from soscope.binfmt.source import BufferSource
from soscope.errors import SoscopeError
from soscope.inspect.emulate import disagreement
from soscope.inspect.emulatemacho import run_macho
from soscope.model.filemap import JUMP_TABLE, LAZY
from tests.support.machomade import NAMES, made


def _mapped(data: bytes) -> MachoMap:
    source = BufferSource(data)
    (part,) = slices(source)
    return MachoMap(source, part)


def _wrong(mapped: MachoMap) -> list[str]:
    slots = {one.vaddr: one for one in mapped.slots}
    found = [(slots[ran.stub.slot], ran) for ran in run_macho(mapped)]
    return [f"{slot.symbol}: {why}" for slot, ran in found if (why := disagreement(slot, ran))]


@pytest.mark.parametrize("name", [name for name in NAMES if "ppc64" not in name])
def test_every_stub_goes_through_its_slot(name: str) -> None:
    mapped = _mapped(made(name).data)
    code = [one for one in mapped.stubs if one.kind != JUMP_TABLE]
    assert _wrong(mapped) == []
    ran = list(run_macho(mapped))
    assert [one.stub for one in ran] == code
    lazy = {stub for slot in mapped.slots if slot.binding == LAZY for stub in slot.stubs}
    assert {one.stub for one in ran if one.argument is not None} == lazy & set(code)


@pytest.mark.parametrize("arch", ["x86_64", "arm64"])
def test_helpers_that_have_changed_places(arch: str) -> None:
    name = f"info-{arch}-dylib"
    mapped = _mapped(made(name).data)
    one, other = [slot for slot in mapped.slots if slot.binding == LAZY][:2]
    data = bytearray(made(name).data)
    size = mapped.bits // 8
    assert one.offset is not None
    assert other.offset is not None
    assert one.helper is not None
    data[one.offset : one.offset + size] = struct.pack("<Q", other.helper)
    given, right = other.resolver_argument, one.resolver_argument
    said = f"{one.symbol}: the resolver is given {given}, not {right}"
    assert _wrong(_mapped(bytes(data))) == [said]


def test_a_processor_that_nobody_emulates() -> None:
    with pytest.raises(SoscopeError) as caught:
        list(run_macho(_mapped(made("classic-ppc64-pic-dylib").data)))
    assert caught.value.slug == "no-emulator"
