# SPDX-License-Identifier: Apache-2.0
"""What a Python callable is called with, by the catalogue."""

from __future__ import annotations

import ctypes as c

import pytest

from soscope.errors import HookError
from soscope.hooking import slots
from soscope.hooking.hook import signature_of, stack_words
from soscope.prototypes import load
from soscope.wire import layout

PROTOTYPES = load()


@pytest.mark.parametrize(
    ("name", "arguments", "result", "strings", "text"),
    [
        ("getenv", [c.c_void_p], c.c_void_p, [0], True),
        ("getpid", [], c.c_int32, [], False),
        ("malloc", [c.c_uint64], c.c_void_p, [], False),
        ("read", [c.c_int32, c.c_void_p, c.c_uint64], c.c_int64, [], False),
        ("strcpy", [c.c_void_p, c.c_void_p], c.c_void_p, [1], False),
        ("strchr", [c.c_void_p, c.c_int32], c.c_void_p, [0], True),
        ("strncmp", [c.c_void_p, c.c_void_p, c.c_uint64], c.c_int32, [], False),
        ("fgets", [c.c_void_p, c.c_int32, c.c_void_p], c.c_void_p, [], False),
        ("pow", [c.c_double, c.c_double], c.c_double, [], False),
        ("fmaf", [c.c_float] * 3, c.c_float, [], False),
        ("powl", [c.c_longdouble] * 2, c.c_longdouble, [], False),
        ("frexp", [c.c_double, c.c_void_p], c.c_double, [], False),
        ("htons", [c.c_uint16], c.c_uint16, [], False),
        ("free", [c.c_void_p], None, [], False),
    ],
)
def test_types_are_the_declarations(
    name: str, arguments: list[type], result: type | None, strings: list[int], text: bool
) -> None:
    signature = signature_of(PROTOTYPES, name)
    assert signature.arguments == arguments
    assert signature.result is result
    assert signature.strings == strings
    assert signature.returns_string is text


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nobody_has_this", "no prototype"),
        ("open", "variadic"),
        ("printf", "variadic"),
        ("vprintf", "va_list"),
        ("inet_ntoa", "structure"),
    ],
)
def test_what_ctypes_cannot_do_is_refused(name: str, reason: str) -> None:
    with pytest.raises(HookError, match=reason) as caught:
        signature_of(PROTOTYPES, name)
    assert caught.value.hint is not None


def test_every_prototype_has_types_or_a_reason() -> None:
    made = 0
    hints = []
    for name in PROTOTYPES.names():
        try:
            made += bool(signature_of(PROTOTYPES, name))
        except HookError as error:
            hints.append(error.hint)
    assert made > 1200
    assert all(hints)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([c.c_int] * 6, 0),
        ([c.c_int] * 7, 1),
        ([c.c_double] * 8 + [c.c_int] * 6, 0),
        ([c.c_double] * 9, 1),
        ([c.c_longdouble], 2),
        ([c.c_int] * 7 + [c.c_longdouble], 4),  # aligned to 16 bytes
    ],
)
def test_words_on_the_stack_are_those_of_the_psabi(arguments: list[type], words: int) -> None:
    assert stack_words(arguments) == words


@pytest.mark.parametrize(
    ("name", "flag"),
    [
        ("getenv", 0),
        ("strlen", layout.FN_BRIEF),
        ("dlopen", layout.FN_ENTRY_ONLY),
        ("setjmp", layout.FN_TWICE),
        ("mcount", layout.FN_NEVER),
        ("__asan_init", layout.FN_ENTRY_ONLY),  # by a pattern
        ("__cyg_profile_func_any", layout.FN_NEVER),
        ("nobody_has_this", 0),
    ],
)
def test_treatments_are_found_by_name(name: str, flag: int) -> None:
    assert PROTOTYPES.flags(name) == flag


@pytest.mark.parametrize("name", ["fork", "vfork", "longjmp", "dlsym", "pthread_exit", "mcount"])
def test_functions_that_no_python_callable_can_stand_for(name: str) -> None:
    with pytest.raises(HookError, match="no Python callable can stand for it"):
        slots.refuse(PROTOTYPES, name)


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("getpid", slots.ANYWHERE),
        ("exit", slots.ANYWHERE),
        ("clock_gettime", slots.HOLDING),
        ("malloc", slots.NOWHERE),
        ("memcpy", slots.NOWHERE),
        ("pthread_mutex_lock", slots.NOWHERE),
        ("sem_post", slots.NOWHERE),
    ],
)
def test_where_the_interpreter_may_be_led_away(name: str, where: int) -> None:
    slots.refuse(PROTOTYPES, name)
    assert slots.within_interpreter(PROTOTYPES, name) == where
