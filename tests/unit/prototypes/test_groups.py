# SPDX-License-Identifier: Apache-2.0
"""Sets of functions that filters name."""

from __future__ import annotations

import pytest

from soscope.errors import FormatError, UsageError
from soscope.prototypes import load, table
from soscope.select.filter import chooses, compile_selection

SETS = load().groups()
NAMES = ["open", "open64", "openat", "close", "memcpy", "memalign"]


def also(name: str) -> list[str]:
    """Say which functions of the example have two names."""
    return ["open", "open64"] if name in {"open", "open64"} else []


def test_a_set_has_names_patterns_and_what_was_not_taken_out() -> None:
    text = "file open* close  # a comment\nmem mem*\n    -memalign SSL_... other\n"
    assert table.read_groups(text, "groups.txt", NAMES, also) == {
        "file": ["open", "open64", "openat", "close"],
        "mem": ["memcpy", "SSL_*", "other"],
    }
    assert table.read_groups("a open64 openat -open", "groups.txt", NAMES, also) == {
        "a": ["openat"]
    }


def test_a_set_that_is_there_twice_is_a_mistake() -> None:
    with pytest.raises(FormatError, match=r"groups\.txt:2: 'a' is defined twice"):
        table.read_groups("a open\na close\n", "groups.txt", NAMES, also)


@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [
        ("mem", "malloc free _Znwm _ZdlPvm mmap strdup __libc_malloc", "memcpy memfd read"),
        (
            "file",
            "open fopen stat lstat64 openat __openat_2 getxattr gzopen execve rename posix_spawn",
            "read close fstat fread readdir fgetxattr dup socket malloc fexecve",
        ),
        (
            "desc",
            "read close fstat openat __openat_2 dup2 fgetxattr mmap poll recv fexecve getdents64",
            "open fopen stat readdir fread getxattr malloc socket",
        ),
        (
            "stream",
            "fread readdir __isoc99_fscanf gzread printf closedir",
            "read open close sscanf",
        ),
        (
            "net",
            "socket SSL_read SSL_a_new_one curl_easy_perform getaddrinfo poll",
            "read xSSL_ curl_slist_append BIO_gets",
        ),
        ("string", "strlen memcpy wcscpy isalpha __strcpy_chk", "isnan strftime isatty memalign"),
        ("thread", "pthread_mutex_lock sem_wait cnd_wait", "pthread_kill fork"),
        ("process", "fork execve posix_spawn waitpid getuid system", "pthread_create"),
        ("dl", "dlopen dlsym dladdr", "open"),
        ("time", "clock_gettime nanosleep localtime strftime", "times_of"),
        ("syscall", "read open64 getpid __xstat64", "fopen sbrk clock_gettime exit malloc"),
        ("signal", "sigaction kill pthread_kill raise", "signbit"),
    ],
)
def test_the_sets_are_what_their_names_say(name: str, inside: str, outside: str) -> None:
    assert {word for word in inside.split() if not SETS[name].matches(word.encode())} == set()
    assert {word for word in outside.split() if SETS[name].matches(word.encode())} == set()


def test_there_are_no_others() -> None:
    assert len(SETS) == 12


def test_an_expression_names_sets_among_functions() -> None:
    selection = compile_selection(["%mem-free@libc*+open"], sets=lambda: SETS)

    def takes(symbol: str, caller: str = "prog") -> bool:
        return chooses(selection, symbol, caller=caller, callee="libc.so.6")

    assert takes("malloc")
    assert takes("open")
    assert takes("free")
    assert not takes("free", "libc.so.6")
    assert not takes("read")


def test_a_set_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(UsageError, match="'%memory': there is no such set") as caught:
        compile_selection(["%memory"], sets=lambda: SETS)
    assert (caught.value.hint or "").startswith("did you mean %mem? There are %mem, %file, %desc")
    with pytest.raises(UsageError, match="no such set"):
        compile_selection(["%mem"])
