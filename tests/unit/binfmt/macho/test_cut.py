# SPDX-License-Identifier: Apache-2.0
"""A file that was cut off: what is missing is said, or nothing is."""

from __future__ import annotations

import pytest

from soscope.binfmt.macho.filemap import MachoMap
from soscope.errors import FormatError
from tests.support.macho.machomade import NAMES, made
from tests.unit.binfmt.macho.test_shapes import opened


def answers(data: bytes) -> tuple[object, ...] | None:
    """Return all answers; None where the file is refused, or an answer is partial."""
    try:
        image: MachoMap = opened(data)
    except FormatError:
        return None
    found = (image.slots, image.stubs, image.symbols, image.stubs_without_slot, image.needed)
    return found if not image.partial else None


@pytest.mark.parametrize("name", NAMES[::4])
def test_nothing_is_lost_in_silence(name: str) -> None:
    data = made(name).data
    whole = answers(data)
    assert whole is not None
    cuts = [*range(0, len(data), len(data) // 60), *range(len(data) - 1, len(data) - 700, -11)]
    cut = [answers(data[:at]) for at in cuts]
    assert all(one is None or one == whole for one in cut)
    assert cut.count(None) > len(cuts) // 2
