# SPDX-License-Identifier: Apache-2.0
"""Wide strings: what is kept of them, and how they are shown."""

from __future__ import annotations

from soscope.model.call import DATA_BYTES, DATA_STRING, DATA_TRUNCATED, VALUES_ITEM
from soscope.wire import layout
from tests.unit.prototypes.calls import at_entry, at_exit, printer, programs, texts

WCHAR = layout.OP_WCHAR


def wide(text: str) -> bytes:
    return text.encode("utf-32-le")


def test_as_many_characters_are_kept_as_of_other_strings() -> None:
    found = programs(
        "wchar_t *f(const wchar_t *s FOLLOW, const wchar_t *t LIMIT(n), long n) FOLLOW;"
    )
    read = WCHAR | layout.OP_IS_READ
    assert found.at_entry[1:] == [
        (layout.OP_STRING, 0, 0, 0, 0, read, 0),
        (layout.OP_STRING, 1, layout.LENGTH_ARG, 2, 0, WCHAR, 1),
    ]
    assert found.at_exit == [(layout.OP_STRING, layout.ARG_RESULT, 0, 0, 0, read, 0xFF)]


def test_a_format_of_wide_characters_says_so() -> None:
    found = programs("int f(const wchar_t *format FORMAT(printf), ...);")
    assert found.at_entry[-1] == (layout.OP_FORMAT, 0, 0, 0, 256, WCHAR, 0)
    found = programs("int f(const wchar_t *format FORMAT(printf), va_list more);")
    assert found.at_entry[-1] == (layout.OP_VA_FORMAT, 0, 0, 1, 256, WCHAR, 0)
    found = programs("int f(const wchar_t *format FORMAT(scanf), va_list more);")
    assert found.at_entry[-1] == (layout.OP_VA_SCANF, 0, 0, 1, 256, WCHAR, 0)


def test_they_are_shown_as_c_writes_them() -> None:
    of = printer("int f(const wchar_t *s);")
    (shown,) = of.arguments(at_entry(1, strings={0: wide('h\xe9\n"\u20ac')}), 32, None)
    assert (shown.text, shown.value) == ('L"h\xe9\\n\\"\u20ac"', 'h\xe9\n"\u20ac')
    odd = at_entry(1, strings={0: wide("\x01\u200b\U000e0001") + b"\xff\xff\xff\xff"})
    assert texts(of, odd) == [r'L"\001\u200b\U000e0001\Uffffffff"']
    assert texts(of, at_entry(1, strings={0: b""})) == ['L""']


def test_they_are_cut_by_characters() -> None:
    of = printer("int f(const wchar_t *s);")
    assert texts(of, at_entry(1, strings={0: wide("wide")}), 4) == ['L"wide"']
    assert texts(of, at_entry(1, strings={0: wide("wide")}), 3) == ['L"wid"...']
    cut = {0: (DATA_STRING, DATA_TRUNCATED, wide("wide"))}
    (shown,) = of.arguments(at_entry(1, data=cut), 32, None)
    assert (shown.text, shown.cut) == ('L"wide"...', True)


def test_what_is_behind_a_wide_format() -> None:
    of = printer("int f(const wchar_t *format FORMAT(printf), ...);")
    kept = at_entry(
        *(1, 7, 0x20AC, 8, 9),
        strings={0: wide("\u20ac %d%lc%ls%s%g"), 3: wide("\u20ac"), 4: b"narrow"},
        floats=(0.5,),
    )
    shown = [r'L"€ %d%lc%ls%s%g"', "7", "L'€'", 'L"€"', '"narrow"', "0.5"]
    assert texts(of, kept) == shown


def test_a_character_that_is_none_of_a_format_ends_what_is_known() -> None:
    of = printer("int f(const wchar_t *format FORMAT(printf), ...);")
    kept = at_entry(1, 7, 8, strings={0: wide("%d%\u0164%d")})
    assert texts(of, kept) == ['L"%d%Ť%d"', "7", "..."]


def test_what_a_va_list_had() -> None:
    of = printer("int f(const wchar_t *format FORMAT(printf), va_list more);")
    values = {VALUES_ITEM: (DATA_BYTES, 0, b"\7\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0")}
    kept = at_entry(1, 2, strings={0: wide("%d%ls"), 2: wide("in")}, data=values)
    assert texts(of, kept) == ['L"%d%ls"', "7", 'L"in"']


def test_what_a_call_has_written() -> None:
    of = printer("int f(wchar_t *to OUT(success) LIMIT(n), long n) FAILS(< 0);")
    assert texts(of, at_entry(8, 4), 32, at_exit(2, data={0: wide("ab")})) == ['L"ab"', "4"]


def test_elements_are_characters() -> None:
    of = printer("int f(const wchar_t *s IN ELEMENTS(n), long n);")
    data = {0: (DATA_BYTES, 0, wide("a\0€"))}
    assert texts(of, at_entry(1, 3, data=data)) == ["[L'a', L'\\0', L'€']", "3"]
