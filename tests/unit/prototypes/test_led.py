# SPDX-License-Identifier: Apache-2.0
"""What pointers lead to: strings of other characters than char, numbers of sixteen bytes."""

from __future__ import annotations

import struct

from soscope.model.capture import RESULT_ITEM
from tests.unit.prototypes.calls import at_entry, at_exit, printer, texts


def test_a_string_of_unsigned_characters() -> None:
    of = printer("const unsigned char *f(int a) STRING;")
    shown = of.result(at_exit(0x5000, data={RESULT_ITEM: b"caf\xc3\xa9"}), 32)
    assert shown is not None
    assert shown.text == r'"caf\303\251"'


def test_a_long_double_that_is_written() -> None:
    of = printer("void f(long double *x OUT(always));")
    after = at_exit(0, data={0: struct.pack("<QQ", 0xA << 60, 0x4000)})
    assert texts(of, at_entry(0x7000), after=after) == ["[2.5]"]
