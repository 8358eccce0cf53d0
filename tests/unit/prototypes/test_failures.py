# SPDX-License-Identifier: Apache-2.0
"""How functions fail: by their declarations, and by prototypes/failures.txt."""

from __future__ import annotations

from pathlib import Path

import pytest

from soscope.errors import FormatError, UsageError
from soscope.prototypes import failures, load
from soscope.prototypes.failures import RESULT_KINDS
from tests.support.machines.tools import need
from tests.support.processes.run import run

PROTOTYPES = load()


@pytest.mark.parametrize(
    ("name", "error", "outcome"),
    [
        ("malloc", None, (0, 12)),
        ("realloc", None, (0, 12)),
        ("read", "EIO", (-1, 5)),
        ("mmap", "ENOMEM", (-1, 12)),
        ("fopen", "2", (0, 2)),
        ("posix_memalign", "ENOMEM", (12, None)),
        ("pthread_create", None, (11, None)),
        ("getaddrinfo", "EAI_NONAME", (-2, None)),
        ("getaddrinfo", None, (-3, None)),
        ("dlopen", None, (0, None)),
    ],
)
def test_a_function_fails_by_its_rule(
    name: str, error: str | None, outcome: tuple[int, int | None]
) -> None:
    failure = PROTOTYPES.failure(name)
    assert failure is not None
    assert failure.outcome(error) == outcome


@pytest.mark.parametrize("name", ["strlen", "free", "nobody_knows", "sqrt"])
def test_of_others_nobody_knows(name: str) -> None:
    assert PROTOTYPES.failure(name) is None


def test_all_errors_of_the_table_have_numbers() -> None:
    count = 0
    for name in PROTOTYPES.names():
        failure = PROTOTYPES.failure(name)
        for error in failure.errors if failure is not None else ():
            assert failure is not None
            assert failure.number(error)
            count += 1
    assert count > 1000


def test_results_outside_integer_registers() -> None:
    assert PROTOTYPES.result_kind("sqrt") == "float"
    assert PROTOTYPES.result_kind("malloc") == PROTOTYPES.result_kind("free") == ""


def test_results_of_undeclared_functions_are_what_the_compiler_says(tmp_path: Path) -> None:
    arguments = {"mallinfo": 0, "mallinfo2": 0}
    classes = {"float": 8, "complex number": 9, "struct": 12}  # __builtin_classify_type
    lines = ["#define _GNU_SOURCE"]
    lines += [f"#include <{name}.h>" for name in ("complex", "inttypes", "malloc")]
    lines += ["#include <stdlib.h>", "void check(void) {"]
    for name, kind in RESULT_KINDS.items():
        count = arguments.get(name, 2 if name.startswith("cpow") or name.endswith("div") else 1)
        call = f"{name}({', '.join('1' * count)})"
        lines.append(
            f'_Static_assert(__builtin_classify_type({call}) == {classes[kind]}, "{name}");'
        )
        assert PROTOTYPES.result_kind(name) == kind
        assert name not in PROTOTYPES.names()
    source = tmp_path / "classes.c"
    source.write_text("\n".join([*lines, "}\n"]))
    done = run([need("gcc"), "-w", "-fsyntax-only", str(source)])
    assert (done.returncode, done.stderr) == (0, "")


def test_a_close_name_is_suggested() -> None:
    with pytest.raises(UsageError) as caught:
        failures.errno_number("ENOMM")
    assert caught.value.hint == "did you mean ENOMEM?"


def test_the_file_is_read_by_entries() -> None:
    text = "# said\na b = NULL: ENOMEM # why\nc\n    d: EIO\n    EINVAL\n"
    assert failures.read_failures(text, "file") == {
        "a": ("NULL", ("ENOMEM",)),
        "b": ("NULL", ("ENOMEM",)),
        "c": ("", ("EIO", "EINVAL")),
        "d": ("", ("EIO", "EINVAL")),
    }


@pytest.mark.parametrize("text", ["a EIO", "a = 7: EIO", ": EIO", "a: EIO\na: EIO"])
def test_a_faulty_line_is_named(text: str) -> None:
    with pytest.raises(FormatError):
        failures.read_failures(text, "file")
