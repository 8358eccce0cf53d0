# SPDX-License-Identifier: Apache-2.0
"""Damaged files: an error that names field and offset, or a partial answer, within limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.source import BufferSource
from soscope.errors import FormatError
from tests.support.files import damage, elffiles
from tests.support.macho import machowriter as writer
from tests.support.macho.machomade import NAMES, made

pytestmark = pytest.mark.slow

COPIES = 300
FEW = 120  # for a reader that takes long
TEXT = "#include <stdio.h>\nint main(int c, char **v) { printf(v[0]); return puts(v[c - 1]); }\n"
ELF = {
    "lazy": ["-Wl,-z,lazy"],
    "now": ["-Wl,-z,now", "-no-pie"],
    "shared": ["-shared", "-fPIC", "-Wl,--hash-style=sysv"],
    "ibt": ["-fcf-protection", "-Wl,-z,ibtplt", "-Wl,-z,lazy"],
    "no-plt": ["-fno-plt"],
    "static": ["-static-pie"],
    "i386": ["-m32", "-Wl,-z,lazy"],
    "bare": ["-Wl,-z,lazy", "-s"],
}


@pytest.fixture(scope="module")
def elf(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("elf")
    files = [elffiles.built(folder, name, TEXT, *flags) for name, flags in ELF.items()]
    bare = files[-1].read_bytes()
    headers = bytes(8) + bare[48:58] + bytes(6)  # neither e_shoff nor e_shnum
    files[-1].write_bytes(bare[:40] + headers + bare[64:])
    return files


@pytest.fixture(scope="module")
def macho(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("macho")
    images = {name: made(name).data for name in NAMES}
    several = [made(name) for name in NAMES[::7]]
    images["fat"] = writer.fat([(one.arch, one.data) for one in several[:4]])
    images["wide"] = writer.fat([(one.arch, one.data) for one in several[:2]], wide=True)
    images["archive"] = writer.archive([(one.arch, one.data) for one in several])
    for name, data in images.items():
        (folder / name).write_bytes(data)
    return [folder / name for name in images]


@pytest.mark.parametrize("reader", ["elf_image", "elf_map", "explained"])
def test_elf(reader: str, elf: list[Path]) -> None:
    copies = FEW if reader == "explained" else COPIES
    said = damage.check(f"tests.support.truth.readers:{reader}", elf, copies)
    assert said["error"] > copies // 30
    assert said.total() == copies


def test_macho(macho: list[Path]) -> None:
    said = damage.check("tests.support.truth.readers:macho_map", macho, COPIES)
    assert said["error"] > COPIES // 30
    assert said["partial"] > COPIES // 10
    assert said.total() == COPIES


def test_calls_in_macho(macho: list[Path]) -> None:
    said = damage.check("tests.support.truth.readers:explained", macho, FEW)
    assert said["error"] > FEW // 30
    assert said.total() == FEW


def test_instrumented_elf(tmp_path: Path) -> None:
    kinds = {
        "cyg": ["-finstrument-functions", "-shared", "-fPIC"],
        "mcount": ["-pg", "-fno-plt"],
        "patchable": ["-fpatchable-function-entry=5"],
    }
    files = [elffiles.built(tmp_path, name, TEXT, *flags) for name, flags in kinds.items()]
    said = damage.check("tests.support.truth.readers:profilable", files, COPIES)
    assert said["error"] > COPIES // 30
    assert said.total() == COPIES


@pytest.mark.parametrize("kind", ["elf", "macho"])
def test_what_is_printed(kind: str, request: pytest.FixtureRequest) -> None:
    files: list[Path] = request.getfixturevalue(kind)
    said = damage.check("tests.support.truth.readers:printed", files, COPIES // 3)
    assert said["partial"] > COPIES // 30
    assert said.total() == COPIES // 3


# ---- the generator itself ----


def test_a_copy_is_the_same_everywhere(elf: list[Path]) -> None:
    assert damage.copy(7, elf) == damage.copy(7, elf)
    assert len({damage.copy(number, elf)[1] for number in range(80)}) > 70


def test_half_of_the_damage_is_in_headers_and_tables(elf: list[Path]) -> None:
    path = elf[0]
    data = path.read_bytes()
    tables = damage.headers_and_tables(data)
    assert sum(size for _, size in tables) < len(data) // 2
    aimed = whole = cut = 0
    for number in range(0, 2000, len(elf)):
        found = damage.copy(number, elf)[1]
        if len(found) < len(data):
            cut += 1
            continue
        places = [at for at in range(len(data)) if data[at] != found[at]]
        inside = [any(a <= at < a + size for a, size in tables) for at in places]
        aimed += all(inside)
        whole += 1
    assert 0.15 < cut / (cut + whole) < 0.35
    assert 0.4 < aimed / whole < 0.85


@pytest.mark.parametrize("fault", ["KeyError", "TooLong", "MemoryError", "exit status"])
def test_faults_are_found(fault: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(4096))
    reader = "tests.support.files.faulty:" + fault.replace(" ", "_").lower()
    with pytest.raises(AssertionError, match=fault):
        damage.check(reader, [path], 3, seconds=0.2)


# ---- what is missing is said ----


def answers(data: bytes) -> tuple[object, ...] | None:
    """Return all answers; None where the file is refused, or an answer is partial."""
    try:
        image = ElfMap(ElfImage.from_source(BufferSource(data)))
    except FormatError:
        return None
    found = (image.slots, image.stubs_without_slot, image.needed, image.build_id)
    return None if image.partial else found


def test_nothing_is_lost_in_silence(elf: list[Path]) -> None:
    for path in elf:
        data = path.read_bytes()
        whole = answers(data)
        for at in range(0, len(data), len(data) // 90):
            cut = answers(data[:at])
            assert cut is None or whole is None or cut == whole, (path.name, at)


# ---- bytes that are there at one moment and gone at another: libraries come and go ----


class Flickering(BufferSource):
    """A source that gives `size` bytes, at most, from read `first` up to, and without, `end`."""

    __slots__ = ("_end", "_first", "_size", "reads")

    def __init__(self, data: bytes, first: int, end: int, size: int) -> None:
        super().__init__(data)
        self._first, self._end, self._size = first, end, size
        self.reads = 0

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes at `offset`, or fewer."""
        self.reads += 1
        is_away = self._first <= self.reads < self._end
        return super().read(offset, min(size, self._size) if is_away else size)


def read_all(source: BufferSource) -> None:
    image = ElfImage.from_source(source)
    names = ["printf", "puts", "main", "nope"] + [symbol.name for symbol in image.symbols]
    for name in names:
        image.symbol(name)
    named = ElfImage.from_source(source)  # which has not read its hash table whole
    for name in names[:4]:
        named.symbol(name)
    assert isinstance((image.needed, image.soname, image.interpreter, image.build_id), tuple)
    image.undefined_functions()
    assert isinstance(answers_of(source), tuple)


def answers_of(source: BufferSource) -> tuple[object, ...]:
    found = ElfMap(ElfImage.from_source(source))
    return (found.slots, found.stubs_without_slot, found.needed, found.build_id, found.soname)


@pytest.mark.parametrize("size", [0, 3, 40])
def test_bytes_that_go_and_come_back_are_a_format_error_at_worst(
    size: int, elf: list[Path]
) -> None:
    refused = 0
    for path in elf:
        data = path.read_bytes()
        whole = Flickering(data, 0, 0, 0)
        read_all(whole)
        for first in range(1, whole.reads + 1, max(1, whole.reads // 150)):
            for end in (first + 1, first + 2, whole.reads + 1):
                try:
                    read_all(Flickering(data, first, end, size))
                except FormatError:
                    refused += 1
    assert refused > 100
