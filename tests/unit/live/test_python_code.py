# SPDX-License-Identifier: Apache-2.0
"""Copies of code objects, as the agent makes them and as damaged memory has them."""

from __future__ import annotations

import pytest

from soscope.binfmt.source import BufferSource
from soscope.live.python.lines import OriginCode
from soscope.wire import headers as layout


class Zeros(BufferSource):
    """Memory with zeros without an end behind what was written."""

    def read(self, offset: int, size: int) -> bytes:
        data = super().read(offset, size)
        return data + bytes(min(size, 1 << 30) - len(data))


def copy(sizes: tuple[int, ...], rest: bytes = b"") -> Zeros:
    file, name, lines = sizes
    return Zeros(layout.CODE.struct.pack(1, file, 1, name, 1, lines) + rest, "memory")


def test_a_copy_has_a_file_a_name_and_lines() -> None:
    code = OriginCode(copy((4, 3, 2), b"a.pyfooxy"), 0)
    assert (code.first_line, code.file, code.name, code.lines) == (1, "a.py", "foo", b"xy")


MOST = (layout.CODE_TEXT, layout.CODE_TEXT, layout.CODE_LINES)


@pytest.mark.parametrize("which", range(3))
def test_a_copy_larger_than_any_is_damage(which: int) -> None:
    assert len(OriginCode(copy(MOST), 0).lines) == layout.CODE_LINES
    for size in (MOST[which] + 1, 2**32 - 1):
        with pytest.raises(ValueError, match="damaged"):
            OriginCode(copy((*MOST[:which], size, *MOST[which + 1 :])), 0)
