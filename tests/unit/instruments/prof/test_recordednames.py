# SPDX-License-Identifier: Apache-2.0
"""Names of a recording's images: what is said of those that cannot be read."""

from __future__ import annotations

import pytest

from soscope.instruments.prof.names import RecordedNames
from soscope.model.image import TracedImage


def image(name: str, path: str) -> TracedImage:
    return TracedImage(1, 0, name, path, 0x7000_0000, 0x7000_0000, 0x7000_2000, b"", 0, 0, 0, 0, 1)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("linux-vdso.so.1", []),
        ("/no/lib.so", ["/no/lib.so: cannot be read: its functions have no names"]),
    ],
)
def test_an_image_without_a_file_is_no_trouble(path: str, said: list[str]) -> None:
    names = RecordedNames()
    vdso = image("linux-vdso.so.1", path)
    assert names.named(vdso, "__vdso_time", "LINUX_2.6").symbol == "__vdso_time"
    assert names.of(vdso).at(0x10).symbol == "?"
    assert names.notes == said
