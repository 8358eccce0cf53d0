# SPDX-License-Identifier: Apache-2.0
"""Declarations become capture programs that keep what is shown and not more."""

from __future__ import annotations

import pytest

from soscope.errors import FormatError
from soscope.prototypes.capture import Op
from soscope.wire import layout
from tests.unit.prototypes.calls import describe, programs

FOLLOW = layout.OP_IS_READ
RESULT = layout.ARG_RESULT


def op(
    code: int,
    arg: int,
    item: int = 0,
    *,
    length: int = 0,
    of: int = 0,
    limit: int = 0,
    flags: int = 0,
) -> Op:
    return code, arg, length, of, limit, flags, item


def string_of(register: int, flags: int = 0) -> Op:
    return op(layout.OP_STRING, 0, 0, length=layout.LENGTH_ARG, of=register, flags=flags)


def string(arg: int, item: int | None = None, flags: int = 0) -> Op:
    return op(layout.OP_STRING, arg, arg if item is None else item, flags=flags)


@pytest.mark.parametrize(
    "text", ["void f(void);", "int f(int a);", "void f(void *p) ;", "int f(size_t n) FAILS(< 0);"]
)
def test_the_first_argument_costs_nothing(text: str) -> None:
    found = programs(text)
    assert found.flags == found.entry_flags == 0
    assert found.at_entry == found.at_exit == []


@pytest.mark.parametrize("text", ["int f(int a, int b);", "void *f(void *p, int b, int c, int d);"])
def test_several_registers_alone_are_six(text: str) -> None:
    found = programs(text)
    assert found.flags == found.entry_flags == layout.FN_SIX
    assert found.at_entry == []


def test_a_string_the_function_reads_is_followed_without_a_check() -> None:
    found = programs("size_t f(const char *s FOLLOW);")
    assert found.flags == layout.FN_PROGRAM
    assert found.at_entry == [string(0, flags=FOLLOW)]


def test_followed_strings_need_no_pointers() -> None:
    found = programs("int f(const char *a FOLLOW, const char *b FOLLOW);")
    assert found.at_entry == [string(0, flags=FOLLOW), string(1, flags=FOLLOW)]


def test_a_string_that_may_not_be_read_at_all_says_by_which_parameter() -> None:
    flags = FOLLOW | layout.OP_UNLESS_0
    found = programs("int f(const char *a FOLLOW_UNLESS_0(n), size_t n);")
    assert found.at_entry == [op(layout.OP_WORDS, 2), op(layout.OP_STRING, 0, of=1, flags=flags)]
    found = programs("int f(const char *a FOLLOW, const char *b FOLLOW_UNLESS_0(n), int n);")
    assert found.at_entry == [
        op(layout.OP_WORDS, 3),
        string(0, flags=FOLLOW),
        op(layout.OP_STRING, 1, 1, of=2, flags=flags | layout.OP_INT_LENGTH),
    ]


def test_what_a_function_has_written_says_when() -> None:
    to, written = "char *to OUT(success, n > 0) LIMIT(n)", layout.OP_UNLESS_NEGATIVE
    flags = FOLLOW | layout.OP_UNLESS_0 | written
    found = programs(f"int f({to} FOLLOW, size_t n) FAILS(< 0);")
    assert found.at_exit == [string_of(1, flags=flags)]
    assert found.at_entry == [op(layout.OP_WORDS, 2)]  # the address is shown where it has not
    found = programs("int f(int a, char *to OUT(success) FOLLOW) FAILS(< 0);")
    assert found.at_exit == [string(1, flags=FOLLOW | written)]
    assert found.at_entry == [op(layout.OP_WORDS, 2)]
    assert programs(f"int f({to}, size_t n) FAILS(< 0);").at_exit[0][5] == 0


def test_a_format_says_whether_what_it_names_is_read() -> None:
    found = programs("int f(char *to, const char *format FORMAT(printf) FOLLOW FOLLOW_NAMED, ...);")
    assert found.at_entry[-1][0] == layout.OP_FORMAT
    assert found.at_entry[-1][5] == FOLLOW | layout.OP_NAMES_READ
    found = programs("int f(const char *format FORMAT(printf) FOLLOW FOLLOW_NAMED, va_list more);")
    assert found.at_entry[-1][0] == layout.OP_VA_FORMAT
    assert found.at_entry[-1][5] == FOLLOW | layout.OP_NAMES_READ


def test_what_is_passed_in_memory_is_followed_as_well() -> None:
    stack, six = layout.ARG_STACK, "int a, int b, int c, int d, int e, int f"
    found = programs(f"int f({six}, const char *s, double x, void *p IN BYTES(n), size_t n);")
    assert found.at_entry == [
        op(layout.OP_WORDS, 6),
        op(layout.OP_STACK, 3),
        op(layout.OP_FLOAT, 1),
        op(layout.OP_STRING, stack, 6),
        op(layout.OP_BYTES, stack + 1, 8, length=layout.LENGTH_ARG, of=stack + 2),
    ]
    found = programs(f"int f({six}, long *out OUT(success)) FAILS(< 0);")
    assert found.at_exit == [op(layout.OP_WORD_AT, stack, 6)]
    assert found.exit_words == 1
    with pytest.raises(FormatError, match="length '\\*n' is on the stack"):
        programs(f"int f({six}, void *to OUT(always) BYTES(*n), int *n);")


def test_a_va_list_is_read_by_the_format_in_front_of_it() -> None:
    text = "int f(char *to, const char *format FORMAT({}) FOLLOW, va_list list);"
    found = programs(text.format("printf"))
    limit = {"limit": 256, "flags": FOLLOW}
    assert found.flags == found.entry_flags == layout.FN_PROGRAM | layout.FN_WIDE
    assert found.at_entry == [
        op(layout.OP_WORDS, 3),
        op(layout.OP_VA_FORMAT, 1, 1, of=2, **limit),
    ]
    assert programs(text.format("scanf")).at_entry == [
        op(layout.OP_WORDS, 3),
        op(layout.OP_VA_SCANF, 1, 1, of=2, **limit),
    ]
    assert not programs(text.replace("va_list list", "...").format("printf")).flags & layout.FN_WIDE
    with pytest.raises(FormatError, match="without a va_list at its end"):
        programs("int f(const char *format FORMAT(printf), char *list);")
    with pytest.raises(FormatError, match="not right in front of the va_list"):
        programs("int f(const char *format FORMAT(printf), int n, va_list list);")


def test_what_scanf_stores_is_kept_at_the_return() -> None:
    found = programs("int f(const char *format FORMAT(scanf), ...);")
    assert found.at_entry == [op(layout.OP_WORDS, 6), op(layout.OP_SCANF, 0, limit=256)]
    assert found.at_exit == [op(layout.OP_FILLED, RESULT)]
    assert found.exit_words == 0
    assert found.flags == layout.FN_PROGRAM | layout.FN_EXIT_PROGRAM


def test_a_string_that_the_function_has_made_is_followed_without_a_check() -> None:
    found = programs("char *f(int number) FOLLOW;")
    assert found.at_exit == [string(RESULT, flags=FOLLOW)]


def test_a_string_for_the_kernel_is_checked_and_keeps_its_pointer() -> None:
    found = programs("int f(int dir, const char *path, int flags);")
    assert found.at_entry == [op(layout.OP_WORDS, 3), string(1)]


def test_bytes_with_a_length() -> None:
    found = programs("long f(int fd, const void *p BYTES(n), size_t n);")
    assert found.at_entry == [
        op(layout.OP_WORDS, 3),
        op(layout.OP_BYTES, 1, 1, length=layout.LENGTH_ARG, of=2),
    ]
    found = programs("size_t f(const void *p BYTES(a * b) FOLLOW, size_t a, size_t b);")
    assert found.at_entry[1] == op(
        layout.OP_BYTES, 0, 0, length=layout.LENGTH_PRODUCT, of=1, flags=FOLLOW
    )


def test_what_the_call_fills_in_is_kept_at_the_exit() -> None:
    found = programs("long f(int fd, void *p OUT(success) BYTES(result), size_t n) FAILS(< 0);")
    assert found.at_entry == [op(layout.OP_WORDS, 3)]
    assert found.at_exit == [op(layout.OP_BYTES, 1, 1, length=layout.LENGTH_RESULT)]
    assert found.exit_words == 1
    assert found.flags == layout.FN_PROGRAM | layout.FN_EXIT_PROGRAM
    assert found.entry_flags == layout.FN_SIX


def test_the_length_counts_among_the_exit_words() -> None:
    found = programs("size_t f(void *p OUT(always) BYTES(result * a), size_t a);")
    assert found.at_exit == [op(layout.OP_BYTES, 0, 0, length=layout.LENGTH_RESULT_PRODUCT, of=1)]
    assert found.exit_words == 2


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("int f(int *n OUT(always));", op(layout.OP_BYTES, 0, 0, limit=4)),
        ("int f(int fds[2] OUT(always));", op(layout.OP_WORD_AT, 0, 0)),
        ("int f(void **p OUT(always));", op(layout.OP_WORD_AT, 0, 0)),
        ("int f(char *s OUT(always));", string(0)),
        ("int f(struct timespec *t OUT(always));", op(layout.OP_BYTES, 0, 0, limit=16)),
        ("int f(struct sockaddr *a OUT(always));", op(layout.OP_BYTES, 0, 0, limit=28)),
        ("int f(char *s OUT(always) LIMIT(n), size_t n);", string_of(1)),
        ("int f(char *s OUT(always) LIMIT(n), int n);", string_of(1, layout.OP_INT_LENGTH)),
    ],
)
def test_what_an_out_pointer_leads_to(text: str, wanted: Op) -> None:
    assert programs(text).at_exit == [wanted]


def test_a_structure_that_is_read() -> None:
    found = programs("int f(const struct timespec *t IN);")
    assert found.at_entry == [op(layout.OP_BYTES, 0, 0, limit=16)]
    found = programs("int f(int fd, const struct sockaddr *a IN BYTES(n), unsigned int n);")
    assert found.at_entry[1] == op(
        layout.OP_BYTES, 1, 1, length=layout.LENGTH_ARG, of=2, limit=110, flags=layout.OP_INT_LENGTH
    )


def test_results() -> None:
    assert programs("char *f(int a);").at_exit == [string(RESULT, RESULT)]
    assert programs("char *f(int a) POINTER;").at_exit == []
    assert programs("double f(double x);").at_exit == [op(layout.OP_FLOAT, 1, RESULT)]
    registers = op(layout.OP_RESULT, RESULT, RESULT, limit=64)
    assert programs("long double f(long double x);").at_exit == [registers]
    registers = op(layout.OP_RESULT, RESULT, RESULT, limit=32)
    assert programs("struct timespec f(int a);").at_exit == [registers]
    assert programs("double _Complex f(int a);").at_exit == [registers]
    memory = op(layout.OP_BYTES, RESULT, RESULT, limit=32)
    assert programs("struct itimerval f(int a);").at_exit == [memory]
    assert programs("struct winsize f(int a);").at_exit == []
    found = programs("wchar_t *f(int a);")
    assert found.at_exit == [string(RESULT, RESULT, flags=layout.OP_WCHAR)]
    assert found.exit_words == 0


def test_a_result_that_is_followed_leaves_six_registers_six() -> None:
    found = programs("char *f(int a, int b);")
    assert found.flags == layout.FN_SIX | layout.FN_EXIT_PROGRAM


def test_numbers_in_vector_registers_and_on_the_stack() -> None:
    found = programs("int f(int a, double x, float y);")
    assert found.at_entry == [op(layout.OP_FLOAT, 2)]
    found = programs("int f(int a, int b, int c, int d, int e, int f, int g, long double x);")
    # g is the first stack word; x is aligned to 16 bytes behind it.
    assert found.at_entry == [op(layout.OP_WORDS, 6), op(layout.OP_STACK, 4)]
    nine = ", ".join(f"double d{number}" for number in range(9))
    assert programs(f"int f({nine});").at_entry == [
        op(layout.OP_STACK, 1),
        op(layout.OP_FLOAT, 8),
    ]


def test_a_format_keeps_all_registers() -> None:
    found = programs("int f(void *p, const char *format FORMAT(printf) FOLLOW, ...);")
    assert found.at_entry == [
        op(layout.OP_WORDS, 6),
        op(layout.OP_FORMAT, 1, 1, limit=256, flags=FOLLOW),
    ]


def test_alternatives_for_an_optional_argument_share_a_register() -> None:
    found = programs(
        "int f(int a, int how, ... OPTIONAL(int x, how == O_CREAT) OPTIONAL(void *p, 1));"
    )
    assert found.flags == layout.FN_SIX
    found = programs(
        "int f(const char *s, int how, ... OPTIONAL(int x, how == O_CREAT) OPTIONAL(void *p, 1));"
    )
    assert found.at_entry[0] == op(layout.OP_WORDS, 3)


def test_no_more_is_kept_than_the_call_can_have_written() -> None:
    found = programs("long f(void *p OUT(success) BYTES(min(result, n)), size_t n) FAILS(< 0);")
    assert found.at_exit == [op(layout.OP_BYTES, 0, 0, length=layout.LENGTH_RESULT_ARG, of=1)]
    assert found.exit_words == 2
    found = programs(
        "int f(struct sockaddr *a OUT(success) BYTES(*n), unsigned *n OUT(success)) FAILS(< 0);"
    )
    assert found.at_exit == [
        op(layout.OP_BYTES, 0, 0, length=layout.LENGTH_AT, of=1, limit=110),
        op(layout.OP_BYTES, 1, 1, limit=4),
    ]
    assert found.exit_words == 3  # both pointers, and what the second led to


@pytest.mark.parametrize(
    ("result", "size", "flags"),
    [
        ("long", "size_t", 0),
        ("int", "size_t", layout.OP_INT_RESULT),
        ("long", "int", layout.OP_INT_LENGTH),
        ("int", "unsigned", layout.OP_INT_RESULT | layout.OP_INT_LENGTH),
    ],
)
def test_a_length_has_the_size_of_its_type(result: str, size: str, flags: int) -> None:
    found = programs(f"{result} f(void *p OUT(always) BYTES(min(result, n)), {size} n);")
    assert found.at_exit[0][5] == flags


def test_errno_is_kept_where_a_failure_need_not_set_it() -> None:
    found = programs("int f(int a) FAILS(< 0) ERRNO(changed);")
    assert found.at_entry == [op(layout.OP_ERRNO, 0, layout.ITEM_ERRNO)]
    assert found.at_exit == []


OUTS = ", ".join(f"int *{name} OUT(always)" for name in "qrstu")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("int f(int *a OUT);", "f: OUT of 'a' does not say when it is written"),
        ("int f(int *a OUT());", "f: OUT of 'a' does not say when it is written"),
        ("int f(int *a OUT(success));", r"OUT\(success\) of 'a', but the function has no FAILS"),
        ("int f(int *a OUT(sometimes));", r"OUT\(sometimes\) of 'a' is not understood"),
        ("int f(int *a OUT(n > 0));", "'n' is no parameter"),
        ("int f(int *a OUT(result > 1));", "compares with '1', not with 0 or NULL"),
        ("double f(int *a OUT(result > 0));", "the result is no integer"),
        ("int f(int *a OUT(x > 0), double x);", "'x' is not in an integer register"),
        (
            f"int f(int *p OUT(always) BYTES(*q), {OUTS});",
            "more than 6 words are wanted at the return",
        ),
        ("int f(int a ENUM(whence, b));", "'b' is no parameter"),
        ("int f(void *p BYTES(n));", "'n' is no parameter"),
        ("int f(void *p BYTES(n + 1), size_t n);", "not understood"),
        ("int f(void *p BYTES(a * c), size_t a, size_t b, size_t c);", "must be neighbours"),
        ("int f(void *p OUT(always) BYTES(a * b), size_t a, size_t b);", "a product cannot be"),
        ("int f(void *p BYTES(x), double x);", "length 'x' is no integer"),
        ("int f(void *p OUT(always));", "leads to something unknown"),
        ("int f(struct statfs *p OUT(always));", "'struct statfs' is not in structs.h"),
        ("int f(int a ENUM(nothing));", "there is no set 'nothing'"),
        ("int f(int a FLAGS(whence));", "there is no set 'whence' of this kind"),
        ("int f(int a FOLLOW);", "leads nowhere"),
        ("int f(const void *p BYTES(n) FOLLOW_UNLESS_0(n), size_t n);", "which is no string"),
        ("int f(const char *a FOLLOW_UNLESS_0(b));", "no parameter"),
        ("int f(char *a OUT(success) FOLLOW) FAILS(== -1);", "by what OUT"),
        ("int f(char *a OUT(n > 0) FOLLOW, size_t n);", "by what OUT"),
        ("int f(int *a OUT(success) FOLLOW) FAILS(< 0);", "which is not only a string"),
        ("int f(char *a IN OUT(success) FOLLOW) FAILS(< 0);", "which is not only a string"),
        ("int f(const char *a FORMAT(scanf) FOLLOW FOLLOW_NAMED, ...);", "no printf format"),
        ("int f(const char *a FORMAT(printf) FOLLOW_NAMED, ...);", "no printf format"),
        ("int f(int a) FOLLOW;", "neither string nor structure"),
        ("long f(int a) FAILS(!= 0);", r"FAILS\(!= 0\) is not known for 'long'"),
        ("double f(int a) FAILS(< 0);", "FAILS"),
        ("int f(int a) FAILS(< 0) ERRNO(somewhere);", r"ERRNO\(somewhere\)"),
        ("int f(const char *a FORMAT(printf));", "without '...'"),
        ("int f(const char *a FORMAT(strftime), ...);", "is not known"),
        ("int f(int a, ... OPTIONAL(int b, a & O_NOTHING));", "is not in constants.txt"),
        ("int f(int a, ... WORDS(6));", "more WORDS than registers"),
    ],
)
def test_a_faulty_declaration_is_named(text: str, what: str) -> None:
    with pytest.raises(FormatError, match=what) as raised:
        (programs(text), describe(text).kept())
    assert "test.h:1: f: " in raised.value.message
