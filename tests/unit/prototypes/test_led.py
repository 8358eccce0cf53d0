# SPDX-License-Identifier: Apache-2.0
"""What pointers lead to: strings of other characters than char, numbers of sixteen bytes."""

from __future__ import annotations

import struct

from soscope.model.call import DATA_BYTES, DATA_STRING, RESULT_ITEM
from soscope.prototypes.ctype import Struct
from soscope.prototypes.parser import Declarations
from soscope.prototypes.show import NamedTypes, structure
from soscope.prototypes.typereader import tables
from tests.unit.prototypes.calls import at_entry, at_exit, printer, sets, texts


def test_a_string_of_unsigned_characters() -> None:
    of = printer("const unsigned char *f(int a) STRING;")
    shown = of.result(at_exit(0x5000, data={RESULT_ITEM: b"caf\xc3\xa9"}), 32)
    assert shown is not None
    assert shown.text == r'"caf\303\251"'


def test_a_long_double_that_is_written() -> None:
    of = printer("void f(long double *x OUT(always));")
    after = at_exit(0, data={0: struct.pack("<QQ", 0xA << 60, 0x4000)})
    assert texts(of, at_entry(0x7000), after=after) == ["[2.5]"]


def test_a_field_that_is_hidden_is_not_shown_and_that_is_said() -> None:
    declarations = Declarations()
    text = "struct s { int a HIDDEN; short mode OCTAL FLAGS(kind); int z HIDDEN; };"
    declarations.read(text, "test.h")
    of: Struct = declarations.structs["s"]
    assert (of.size, of.shown_size) == (12, 6)
    names = NamedTypes({}, sets().flags, tables(declarations.structs, sets()))
    data = struct.pack("<iH", 7, 0o100644)
    assert structure(data, "s", names) == "{mode=REGULAR|0644, ...}"


def test_as_many_things_are_shown_as_an_argument_says() -> None:
    of = printer("int f(struct pair *pairs IN ELEMENTS(count), unsigned long count);")
    pairs = b"".join(struct.pack("<ihxx", fd, 0o644) for fd in range(8))
    data = {0: (DATA_BYTES, 0, pairs)}
    assert texts(of, at_entry(1, 2, data=data)) == ["[{fd=0, what=0644}, {fd=1, what=0644}]", "2"]
    (many, _) = texts(of, at_entry(1, 9, data=data))
    assert many.endswith("{fd=7, what=0644}, ...]")
    assert texts(of, at_entry(1, 0, data=data)) == ["[]", "0"]
    torn = {0: (DATA_BYTES, 0, pairs[:10])}
    assert texts(of, at_entry(1, 2, data=torn)) == ["[{fd=0, what=0644}, ...]", "2"]


def test_a_pointer_to_a_string_is_shown_when_the_call_has_set_it() -> None:
    of = printer("long f(char **line OUT(result >= 0) STRING);")
    assert texts(of, at_entry(0x7000), after=at_exit(-1, data={0: b"old"})) == ["0x7000"]
    written = at_exit(4, data={0: b"new\n"})
    assert texts(of, at_entry(0x7000), after=written) == [r'["new\n"]']
    passed = printer("long f(char **line IN STRING);")
    data = {0: (DATA_STRING, 0, b"text")}
    (argument,) = passed.arguments(at_entry(0x7000, data=data), 32, None)
    assert (argument.text, argument.value) == ('["text"]', "text")


def test_a_structure_that_a_result_leads_to() -> None:
    of = printer("struct timespec *f(int a) FOLLOW;")
    data = {RESULT_ITEM: struct.pack("<qq", 1, 500)}
    shown = of.result(at_exit(0x5000, data=data), 32)
    assert shown is not None
    assert shown.text == "{tv_sec=1, tv_nsec=500}"
    torn = of.result(at_exit(0x5000, data={RESULT_ITEM: b"1234"}), 32)
    assert torn is not None
    assert torn.text == "0x5000"
    assert printer("struct timespec *f(int a);").result_text()[0] is not None
