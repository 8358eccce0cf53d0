# SPDX-License-Identifier: Apache-2.0
"""Headers with any numbers in them: an error that names field and offset, or an answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.macho.fat import embedded, slices
from soscope.binfmt.macho.filemap import MachoMap
from soscope.binfmt.source import BufferSource
from soscope.errors import FormatError
from tests.support.files import elffiles
from tests.support.files.damage import headers_and_tables
from tests.support.macho import machowriter as writer
from tests.support.macho.machomade import made
from tests.support.time.patience import within_cpu

_LONG = 4.0  # seconds: far more than any of them takes, far less than for ever

IMAGES = (
    "classic-ppc-pic-dylib",
    "classic-i386-jump-executable",
    "info-x86_64-dylib",
    "chained-arm64-6-2",
    "chained-arm64e-9-3",
)
SETTINGS = settings(
    max_examples=150,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
# Single bytes and words, the values at which limits are passed more often than others.
WORDS = st.one_of(
    st.sampled_from([0, 1, 2, 0xFF, 0x1000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFF0, 0xFFFFFFFF]),
    st.integers(0, 0xFFFFFFFF),
)
CHANGES = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), WORDS), min_size=1, max_size=6)


def changed(data: bytes, parts: list[tuple[int, int]], changes: list[tuple[float, int]]) -> bytes:
    """Overwrite some of the words that `parts` consist of, in the file's own byte order."""
    out = bytearray(data)
    words = [at for start, size in parts for at in range(start, start + size - 3, 4)]
    big = data[:2] in {b"\xfe\xed", b"\xca\xfe"}
    for where, word in changes:
        at = words[int(where * len(words))]
        out[at : at + 4] = word.to_bytes(4, "big" if big else "little")
    return bytes(out)


def read_macho(data: bytes) -> None:
    source = BufferSource(data)
    for part in [*slices(source), *embedded(source)]:
        image = MachoMap(source, part)
        assert len(image.slots) + len(image.stubs) <= len(data)
        assert len(image.binds()) <= len(data)
        assert all(isinstance(reason, str) for reason in image.partial)


def read_elf(data: bytes) -> None:
    image = ElfMap(ElfImage.from_source(BufferSource(data)))
    assert len(image.slots) <= len(data)
    assert image.kind
    assert image.needed is not None
    assert all(isinstance(reason, str) for reason in image.partial)


def assert_bounded(read: Callable[[bytes], None], data: bytes) -> None:
    """Read; an error has to say what is wrong, and where."""
    found: FormatError | None = None
    with within_cpu(_LONG):
        try:
            read(data)
        except FormatError as error:
            found = error
    assert found is None or (found.field and found.offset is not None)


@pytest.mark.parametrize("name", IMAGES)
@SETTINGS
@given(changes=CHANGES)
def test_macho(name: str, changes: list[tuple[float, int]]) -> None:
    data = made(name).data
    assert_bounded(read_macho, changed(data, headers_and_tables(data)[:2], changes))


@SETTINGS
@given(changes=CHANGES)
def test_fat(changes: list[tuple[float, int]]) -> None:
    data = writer.fat([(made(name).arch, made(name).data) for name in IMAGES[:3]])
    assert_bounded(read_macho, changed(data, [(4, 64)], changes))


@SETTINGS
@given(data=st.binary(max_size=256), magic=st.sampled_from([0, 1, 2, 3, 4, 5, 6]))
def test_noise(data: bytes, magic: int) -> None:
    magics = (b"", b"\xce\xfa\xed\xfe", b"\xfe\xed\xfa\xcf", b"\xca\xfe\xba\xbe", b"!<arch>\n")
    begin = (*magics, b"\x7fELF\2\1\1" + bytes(9), b"\x7fELF\1\2\1" + bytes(9))[magic]
    for read in (read_macho, read_elf):
        assert_bounded(read, begin + data)


@pytest.fixture(scope="module")
def elf(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    text = "#include <stdio.h>\nint main() { puts(__FILE__); }\n"
    return elffiles.built(tmp_path_factory.mktemp("hostile"), "puts", text).read_bytes()


@SETTINGS
@given(changes=CHANGES)
def test_elf(elf: bytes, changes: list[tuple[float, int]]) -> None:
    # The file's header, the program headers, and those of the sections.
    assert_bounded(read_elf, changed(elf, headers_and_tables(elf)[:3], changes))
