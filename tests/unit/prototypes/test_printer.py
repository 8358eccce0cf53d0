# SPDX-License-Identifier: Apache-2.0
"""Arguments and results look as an ltrace user expects, and say what is not known."""

from __future__ import annotations

import struct

import pytest

from soscope.model.call import (
    DATA_BYTES,
    DATA_NULL,
    DATA_STRING,
    DATA_TRUNCATED,
    DATA_UNREADABLE,
    ENDED_KILLED,
    ENDED_UNWOUND,
    ERRNO_ITEM,
    Captured,
    Entry,
)
from soscope.prototypes.printer import unknown_result, unknown_words
from tests.unit.prototypes.calls import WORD, at_entry, at_exit, printer, texts


@pytest.mark.parametrize(
    ("parameter", "word", "text", "value"),
    [
        ("int x", 0xFFFF_FFFF, "-1", -1),
        ("int x", 0x1_0000_0005, "5", 5),
        ("unsigned int x", 0xFFFF_FFFF, "4294967295", 0xFFFF_FFFF),
        ("long x", WORD, "-1", -1),
        ("unsigned long x", WORD, str(WORD), WORD),
        ("short x", 0xFFFF, "-1", -1),
        ("unsigned char x", 0x141, "65", 65),
        ("char x", 0x41, "'A'", 65),
        ("int x CHAR", 10, r"'\n'", 10),
        ("int x CHAR", 0, r"'\0'", 0),
        ("int x CHAR", 0x27, r"'\''", 0x27),
        ("int x CHAR", 0xFFFF_FFFF, "-1", -1),
        ("int x CHAR", 300, "300", 300),
        ("wchar_t x", 0xE9, "L'é'", 0xE9),
        ("wint_t x", 0xFFFF_FFFF, "-1", 0xFFFF_FFFF),
        ("int x BOOL", 0, "false", 0),
        ("int x BOOL", 1024, "true", 1024),
        ("bool x", 0x101, "true", 1),
        ("mode_t x", 0o644, "0644", 0o644),
        ("mode_t x", 0, "0", 0),
        ("int x HEX", 0xFFFF_FFFF, "0xffffffff", -1),
        ("uid_t x", 0xFFFF_FFFF, "-1", -1),
        ("void *x", 0x7F00_0000_0000, "0x7f0000000000", 0x7F00_0000_0000),
        ("struct passwd *x", 0, "nil", 0),
        ("void (*x)(int)", 0x401000, "0x401000", 0x401000),
        ("int x ENUM(whence)", 1, "SEEK_CUR", 1),
        ("int x ENUM(whence)", 7, "7", 7),
        ("void *x ENUM(handle)", WORD, "NEXT", WORD),
        ("void *x ENUM(handle)", 0x401000, "0x401000", 0x401000),
        ("int x FLAGS(open)", 0, "O_RDONLY", 0),
        ("int x FLAGS(open)", 0o2000101, "O_WRONLY|O_CREAT|O_CLOEXEC", 0o2000101),
        ("int x FLAGS(open)", 0o4010000, "O_RDONLY|O_SYNC", 0o4010000),
        ("int x FLAGS(open)", 0x4000_0003, "0x40000003", 0x4000_0003),
        ("int x FLAGS(protection)", 0, "PROT_NONE", 0),
        ("int x FLAGS(protection)", 3, "PROT_READ|PROT_WRITE", 3),
        ("int x FLAGS(protection)", 0x13, "PROT_READ|PROT_WRITE|0x10", 0x13),
        ("struct in_addr x", 0x0100_007F, "{s_addr=0x100007f}", None),
    ],
)
def test_numbers(parameter: str, word: int, text: str, value: int | None) -> None:
    (shown,) = printer(f"int f({parameter});").arguments(at_entry(word), 32, None)
    assert (shown.text, shown.value) == (text, value)


def test_the_type_is_the_one_of_the_declaration() -> None:
    of = printer("int f(const char *s, size_t n, mode_t mode);")
    shown = of.arguments(at_entry(1, 2, 3, strings={0: b""}), 32, None)
    assert [one.type for one in shown] == ["const char *", "size_t", "mode_t"]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", '""'),
        (b"/bin/ls", '"/bin/ls"'),
        (b'a"b\\c', r'"a\"b\\c"'),
        (b"a\tb\nc\r\x07\x08\x0b\x0c", r'"a\tb\nc\r\a\b\v\f"'),
        (b"\x1b[0m\x7f", r'"\033[0m\177"'),
        ("é".encode(), r'"\303\251"'),
        (b"it's", '"it\'s"'),
    ],
)
def test_strings_are_c_literals(content: bytes, text: str) -> None:
    assert texts(printer("int f(const char *s);"), at_entry(1, strings={0: content})) == [text]


def test_the_value_of_a_string_is_the_string() -> None:
    of = printer("int f(const char *s);")
    (shown,) = of.arguments(at_entry(1, strings={0: "é\n".encode() + b"\xff"}), 32, None)
    assert shown.value == "é\n\\xff"


def test_a_string_is_cut_at_the_limit_or_where_it_was_cut() -> None:
    of = printer("int f(const char *s);")
    assert texts(of, at_entry(1, strings={0: b"x" * 40})) == ['"' + "x" * 32 + '"...']
    assert texts(of, at_entry(1, strings={0: b"x" * 32})) == ['"' + "x" * 32 + '"']
    cut = at_entry(1, data={0: (DATA_STRING, DATA_TRUNCATED, b"abc")})
    assert texts(of, cut) == ['"abc"...']


def test_a_pointer_that_could_not_be_followed_is_an_address() -> None:
    of = printer("int f(int a, const char *s);")
    null = at_entry(1, 0, data={1: (DATA_STRING, DATA_NULL, b"")})
    assert texts(of, null) == ["1", "nil"]
    wild = at_entry(1, 0x10, data={1: (DATA_STRING, DATA_UNREADABLE, b"")})
    assert texts(of, wild) == ["1", "0x10"]
    assert texts(of, at_entry(1)) == ["1", "?"]


def test_what_a_call_fills_in_is_an_address_until_it_returns() -> None:
    of = printer("long f(int fd, void *p OUT(success) BYTES(result), size_t n) FAILS(< 0);")
    entry = at_entry(3, 0x7000, 4096)
    assert of.known_at_entry == 1
    assert texts(of, entry) == ["3", "0x7000", "4096"]
    full = at_exit(6, data={1: b"hello\n"})
    assert texts(of, entry, after=full) == ["3", r'"hello\n"', "4096"]
    assert texts(of, entry, after=at_exit(0)) == ["3", '""', "4096"]
    # The length could not be kept: not the same as an empty buffer.
    assert texts(of, entry, after=at_exit(6, data={1: b""})) == ["3", "0x7000", "4096"]


def test_what_a_failed_or_broken_call_left_is_not_shown() -> None:
    of = printer("long f(int fd, void *p OUT(success) BYTES(result), size_t n) FAILS(< 0);")
    entry, wanted = at_entry(3, 0x7000, 4096), ["3", "0x7000", "4096"]
    assert texts(of, entry, after=at_exit(-1, data={1: b"old"})) == wanted
    for ended in (ENDED_UNWOUND, ENDED_KILLED):
        assert texts(of, entry, after=at_exit(None, data={1: b"old"}, ended=ended)) == wanted


def test_nothing_is_filled_in_where_the_result_is_null() -> None:
    of = printer("char *f(char *s OUT(result != NULL), int n) POINTER;")
    entry = at_entry(0x7000, 100)
    line = at_exit(0x7000, data={0: b"line\n"})
    assert texts(of, entry, after=line) == [r'"line\n"', "100"]
    assert texts(of, entry, after=at_exit(0, data={0: b"old"})) == ["0x7000", "100"]


def test_numbers_that_pointers_lead_to() -> None:
    of = printer("int f(int fds[2] OUT(always), void **p OUT(always));")
    data = {0: struct.pack("<ii", 3, -4), 1: struct.pack("<Q", 0x5000)}
    shown = of.arguments(at_entry(1, 2), 32, at_exit(0, data=data))
    assert [one.shown for one in shown] == ["[3, -4]", "[0x5000]"]
    assert [one.value for one in shown] == [1, 2]
    assert [one.out and one.out.value for one in shown] == [None, 0x5000]


def test_what_was_there_before_stands_in_front_of_what_was_written() -> None:
    of = printer("int f(char *s OUT(success), int *n IN OUT(success)) FAILS(< 0);")
    entry = at_entry(0x7000, 0x8000, data={1: (DATA_BYTES, 0, struct.pack("<i", 128))})
    assert texts(of, entry) == ["0x7000", "[128]"]
    other = at_exit(0, data={0: b"x", 1: struct.pack("<i", 16)})
    assert texts(of, entry, after=other) == ['"x"', "[128] => [16]"]
    same = at_exit(0, data={0: b"x", 1: struct.pack("<i", 128)})
    assert texts(of, entry, after=same) == ['"x"', "[128]"]
    failed = at_exit(-1, data={0: b"x", 1: struct.pack("<i", 16)})
    assert texts(of, entry, after=failed) == ["0x7000", "[128]"]
    text, number = of.arguments(entry, 32, other)
    assert (text.name, text.text, text.value, text.is_address) == ("s", "0x7000", 0x7000, True)
    assert text.out is not None
    assert (text.out.name, text.out.text, text.out.value) == ("s", '"x"', "x")
    assert (number.value, number.out and number.out.value) == (128, 16)


def test_structures_name_their_fields() -> None:
    of = printer("int f(const struct timespec *t IN);")
    data = {0: (DATA_BYTES, 0, struct.pack("<qq", 1, 500))}
    assert texts(of, at_entry(1, data=data)) == ["{tv_sec=1, tv_nsec=500}"]
    torn = {0: (DATA_BYTES, 0, b"12345678")}
    assert texts(of, at_entry(0x7000, data=torn)) == ["0x7000"]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"\2\0\0\x50\x7f\0\0\1" + bytes(8), "{AF_INET, 127.0.0.1:80}"),
        (b"\x0a\0\x01\xbb" + bytes(4) + bytes(15) + b"\1" + bytes(4), "{AF_INET6, [::1]:443}"),
        (b"\1\0/run/x\0garbage", '{AF_UNIX, "/run/x"}'),
        (b"\1\0\0name", '{AF_UNIX, "@name"}'),
        (b"\1\0\0name\0\0", r'{AF_UNIX, "@name\000\000"}'),
        (b"\1\0\0", '{AF_UNIX, "@"}'),
        (b"\1\0", '{AF_UNIX, ""}'),
        (b"\x10\0" + bytes(10), "{AF_NETLINK, ...}"),
        (b"\x63\0" + bytes(10), "{99, ...}"),
    ],
)
def test_socket_addresses(content: bytes, text: str) -> None:
    of = printer("int f(int fd, const struct sockaddr *a IN BYTES(n), unsigned int n);")
    captured = at_entry(3, 0x7000, len(content), data={1: (DATA_BYTES, 0, content)})
    assert texts(of, captured)[1] == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.0, "2"),
        (0.1, "0.1"),
        (1 / 3, "0.3333333333333333"),
        (-0.0, "-0"),
        (1e300, "1e+300"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
    ],
)
def test_doubles_have_the_digits_they_need(value: float, text: str) -> None:
    of = printer("double f(double x);")
    assert texts(of, at_entry(0, floats=(value,))) == [text]
    result = of.result(at_exit(0, floats=(value,)), 32)
    assert result is not None
    assert result.text == text


@pytest.mark.parametrize("value", [0.1, 1e-40, 3.4028234663852886e38, 16777216.0])
def test_floats_are_the_low_half_of_a_register(value: float) -> None:
    (register,) = struct.unpack("<d", struct.pack("<ff", value, 7.0))
    (shown,) = printer("int f(float x);").arguments(at_entry(0, floats=(register,)), 32, None)
    assert isinstance(shown.value, float)
    assert struct.pack("<f", float(shown.text)) == struct.pack("<f", value)
    assert len(shown.text) <= 13


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (1 << 63, 0x3FFF, "1"),
        (3 << 62, 0xC000, "-3"),
        (0, 0, "0"),
        (1 << 63, 0x7FFF, "inf"),
        (3 << 62, 0xFFFF, "nan"),
        (1 << 63, 0x7FFE, "5.9486574767861588254e+4931"),
    ],
)
def test_long_doubles_come_from_the_stack(low: int, high: int, text: str) -> None:
    of = printer("long double f(int a, long double x);")
    assert texts(of, at_entry(1, stack=(low, high)))[1] == text


def test_a_long_double_result_is_not_known() -> None:
    result = printer("long double f(int a);").result(at_exit(5), 32)
    assert result is not None
    assert (result.text, result.value) == ("?", None)


def test_arguments_beyond_the_registers_are_on_the_stack() -> None:
    of = printer("int f(int a, int b, int c, int d, int e, int f, int g, const char *h);")
    captured = at_entry(1, 2, 3, 4, 5, 6, stack=(7, 0x8000))
    assert texts(of, captured) == ["1", "2", "3", "4", "5", "6", "7", "0x8000"]


OPEN = "int f(const char *path, int how FLAGS(open), ... OPTIONAL(mode_t mode, how & O_CREAT));"


def test_an_optional_argument_is_there_if_its_condition_holds() -> None:
    of = printer(OPEN)
    path = {0: b"x"}
    assert texts(of, at_entry(1, 0o100, 0o644, strings=path)) == ['"x"', "O_RDONLY|O_CREAT", "0644"]
    assert texts(of, at_entry(1, 0, 0o644, strings=path)) == ['"x"', "O_RDONLY"]


def test_the_first_alternative_that_holds_is_taken() -> None:
    of = printer(
        "int f(int how, ... OPTIONAL(int mode OCTAL, how == O_CREAT | O_CLOEXEC)"
        " OPTIONAL(void *p, 1));"
    )
    assert texts(of, at_entry(0o100, 8)) == ["64", "010"]
    assert texts(of, at_entry(0, 8)) == ["0", "0x8"]


def test_more_arguments_that_nobody_knows() -> None:
    assert texts(printer("int f(int a, ...);"), at_entry(1, 2, 3)) == ["1", "..."]
    of = printer("int f(int a, ... WORDS(2));")
    assert texts(of, at_entry(1, 2, 0x7000_0000, 4)) == ["1", "2", "0x70000000 ?"]


FORMAT = "int f(void *p, const char *format FORMAT(printf) FOLLOW, ...);"


def test_the_values_of_a_format() -> None:
    captured = at_entry(
        0x10, 0x20, 42, 0x7000, 5, 0xFFFF_FFFF, strings={1: b"%d %s %c%u%%", 3: b"two"}
    )
    captured.words = (0x10, 0x20, 42, 0x7000, 0x41, 0xFFFF_FFFF)
    assert texts(printer(FORMAT), captured) == [
        "0x10",
        '"%d %s %c%u%%"',
        "42",
        '"two"',
        "'A'",
        "4294967295",
    ]


def test_the_values_of_a_format_on_the_stack_and_in_vectors() -> None:
    long_double = (1 << 63, 0x3FFF)
    captured = at_entry(
        0x10,
        0x20,
        1,
        2,
        3,
        4,
        strings={1: b"%d%d%d%d%f%d%Lf%lx"},
        floats=(2.5,),
        stack=(5, 0, *long_double, 0xABC),
    )
    assert texts(printer(FORMAT), captured)[2:] == ["1", "2", "3", "4", "2.5", "5", "1", "0xabc"]


SCANF = "int f(const char *s FOLLOW, const char *format FORMAT(scanf) FOLLOW, ...);"
LONG_DOUBLE = (1 << 63).to_bytes(8, "little") + b"\xff\x3f"


@pytest.mark.parametrize(
    ("conversion", "stored", "text", "value"),
    [
        ("%d", b"\xff\xff\xff\xff", "[-1]", -1),
        ("%hhx", b"\xff", "[0xff]", 255),
        ("%zu", b"\xff" * 8, f"[{WORD}]", WORD),
        ("%ho", b"\x09\0", "[011]", 9),
        ("%f", struct.pack("<f", 0.1), "[0.1]", struct.unpack("<f", struct.pack("<f", 0.1))[0]),
        ("%lf", struct.pack("<d", 0.1), "[0.1]", 0.1),
        ("%Lf", LONG_DOUBLE, "[1]", 1.0),
        ("%p", bytes(8), "[nil]", 0),
        ("%s", b'a"b', r'"a\"b"', 'a"b'),
        ("%3c", b"a\0b", r'"a\000b"', "a\0b"),
        ("%ls", "é".encode("utf-32-le"), 'L"é"', "é"),
        ("%ms", b"made", '["made"]', "made"),
        ("%mS", "é".encode("utf-32-le"), '[L"é"]', "é"),
        ("%n", b"\x05\0\0\0", "[5]", 5),
        ("%d", b"\xff\xff", "0x1000", None),
    ],
)
def test_what_scanf_has_stored(
    conversion: str, stored: bytes, text: str, value: float | str | None
) -> None:
    of = printer(SCANF)
    captured = at_entry(0x10, 0x20, 0x1000, 0, 0, 0, strings={0: b"from", 1: conversion.encode()})
    assert texts(of, captured)[2:] == ["0x1000"]
    after = at_exit(1, data={2: stored})
    assert texts(of, captured, 32, after)[2:] == [text]
    shown = of.arguments(captured, 32, after)[2]
    assert (shown.text, shown.value, shown.type[-1]) == ("0x1000", 0x1000, "*")
    assert (shown.out and shown.out.value) == value


def test_what_scanf_stores_is_known_when_it_returns() -> None:
    assert printer(SCANF).known_at_entry == 2
    assert printer(SCANF.replace("...", "va_list list")).known_at_entry == 2
    of = printer(SCANF)
    captured = at_entry(0x10, 0x20, 1, 2, 3, 4, strings={1: b"%3$d %1$s"})
    after = at_exit(1, data={4: b"\7\0\0\0"})
    assert texts(of, captured, 32, after)[2:] == ["0x1", "0x2", "[7]"]


def test_a_format_ends_where_values_were_not_kept() -> None:
    of = printer(FORMAT)
    captured = at_entry(0x10, 0x20, 1, 2, 3, 4, strings={1: b"%d %f %d"})
    assert texts(of, captured)[2:] == ["1", "..."]
    unread = at_entry(0x10, 0x20, data={1: (DATA_STRING, DATA_UNREADABLE, b"")})
    assert texts(of, unread) == ["0x10", "0x20", "..."]
    cut = at_entry(0x10, 0x20, 1, 2, data={1: (DATA_STRING, DATA_TRUNCATED, b"%d ")})
    assert texts(of, cut) == ["0x10", '"%d "...', "1", "..."]


def test_results() -> None:
    assert printer("void f(void);").result(at_exit(5), 32) is None
    string = printer("char *f(void);").result(at_exit(0x7000, data={0xFF: b"C"}), 32)
    assert string is not None
    assert (string.type, string.text, string.value) == ("char *", '"C"', "C")
    null = printer("char *f(void);").result(at_exit(0), 32)
    assert null is not None
    assert null.text == "nil"
    lost = printer("int f(void);").result(at_exit(None), 32)
    assert lost is not None
    assert (lost.text, lost.value) == ("?", None)


def test_which_errno_belongs_to_a_failure() -> None:
    of = printer("int f(int a) FAILS(< 0);")
    assert of.failure_errno(at_exit(0xFFFF_FFFF, errno=2)) == 2
    assert of.failure_errno(at_exit(5, errno=2)) is None
    assert of.failure_errno(at_exit(None, errno=2)) is None
    result = printer("int f(int a) FAILS(!= 0) ERRNO(result);")
    assert result.failure_errno(at_exit(16, errno=2)) == 16
    none = printer("void *f(int a) FAILS(== NULL) ERRNO(none);")
    assert none.failure_errno(at_exit(0, errno=2)) is None


def test_an_unknown_function_shows_four_words_and_a_mark() -> None:
    shown = unknown_words(at_entry(0x1F_FFFF, 3, WORD, 4, 5, 6))
    assert [one.shown for one in shown] == ["0x1fffff", "3", "-1", "4 ?"]
    assert [one.value for one in shown] == [0x1F_FFFF, 3, -1, 4]
    assert {one.type for one in shown} == {"?"}
    assert unknown_words(Captured()) == []


@pytest.mark.parametrize(
    ("word", "text"),
    [
        (0, "0"),
        (999_999, "999999"),
        (1_000_000, "0xf4240"),
        (WORD - 999_998, "-999999"),
        (WORD - 999_999, "0xfffffffffff0bdc0"),
        (0xFFFF_FFFF, "-1"),  # of an int, whose register is not filled up with ones
        (0xFFFF_FFFF - 999_998, "-999999"),
        (0xFFFF_FFFF - 999_999, "0xfff0bdc0"),
        (1 << 32, "0x100000000"),
    ],
)
def test_words_of_unknown_type_follow_ltrace(word: int, text: str) -> None:
    shown = unknown_result(word)
    assert (shown.text, shown.type) == (f"{text} ?", "?")


def test_an_unknown_result_that_was_not_seen() -> None:
    assert unknown_result(None).value is None


@pytest.mark.parametrize(
    ("rule", "size", "result", "written"),
    [
        ("success", 8, 0, True),
        ("success", 8, -1, False),
        ("success, size > 0", 0, 3, False),
        ("success, size > 0", 1, 3, True),
        ("result > 0", 8, 0, False),
        ("result > 0", 8, -1, False),
        ("result > 0", 8, 0x1_0000_0000, False),  # the result is an int
        ("result >= 0", 8, 0, True),
        ("result != 0", 8, 0, False),
        ("result == 0", 8, 0, True),
        ("always", 8, -1, True),
    ],
)
def test_a_call_has_written_where_its_rule_says_so(
    rule: str, size: int, result: int, written: bool
) -> None:
    of = printer(f"int f(int *p OUT({rule}), size_t size) FAILS(== -1);")
    after = at_exit(result, data={0: b"\5\0\0\0"})
    shown = texts(of, at_entry(0x7000, size), after=after)
    assert shown == ["[5]" if written else "0x7000", str(size)]


def test_a_rule_about_an_argument_that_was_not_kept_does_not_hold() -> None:
    of = printer("int f(int *p OUT(size > 0), size_t size);")
    assert texts(of, at_entry(0x7000), after=at_exit(0, data={0: b"\5\0\0\0"}))[0] == "0x7000"


def test_a_result_that_is_no_number_has_no_other_result() -> None:
    of = printer("double f(double x, int *p OUT(result != NAN));")
    for result, text in ((1.5, "[5]"), (float("nan"), "0x7000")):
        after = at_exit(0, data={1: b"\5\0\0\0"}, floats=(result,))
        assert texts(of, at_entry(0x7000, floats=(2.5,)), after=after) == ["2.5", text]


def test_an_errno_that_was_there_before_is_not_the_reason() -> None:
    of = printer("int f(int a) FAILS(< 0) ERRNO(changed);")
    before = at_entry(1, data={ERRNO_ITEM: (DATA_BYTES, 0, b"\x09\0\0\0")})
    for errno, known in ((2, 2), (9, None)):
        after = at_exit(-1, errno=errno)
        after.entry = Entry(0, 1, 1, after.slot, 0, 0, before, False)
        assert of.failure_errno(after) == known
    assert of.failure_errno(at_exit(-1, errno=2)) is None  # its entry was not kept


def test_several_optional_arguments_or_none() -> None:
    of = printer(
        "int f(int how, ... WORDS(1) OPTIONAL(int a, int b, how == O_CREAT)"
        " OPTIONAL(void, how == O_CLOEXEC));"
    )
    assert texts(of, at_entry(0o100, 7, 8)) == ["64", "7", "8"]
    assert texts(of, at_entry(0o2000000, 7, 8)) == [str(0o2000000)]
    assert texts(of, at_entry(1, 7, 8)) == ["1", "7 ?"]


def test_a_constant_that_another_argument_gives_its_meaning() -> None:
    of = printer("int f(int level, int x, int option ENUM(by_level, level));")
    assert texts(of, at_entry(1, 0, 2)) == ["1", "0", "WORD"]
    assert texts(of, at_entry(6, 0, 2)) == ["6", "0", "NO_DELAY"]
    assert texts(of, at_entry(6, 0, 3)) == ["6", "0", "3"]
    assert texts(of, at_entry(7, 0, 2)) == ["7", "0", "2"]
    (*_, option) = of.arguments(at_entry(6, 0, 2), 32, None)
    assert option.value == 2
