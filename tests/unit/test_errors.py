# SPDX-License-Identifier: Apache-2.0
"""Errors carry message, hint, slug, exit status and errno, and are what Python calls them."""

from __future__ import annotations

import errno

import pytest

from soscope import errors


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (errors.UsageError, 2),
        (errors.FormatError, 1),
        (errors.RecordingError, 1),
        (errors.NoSuchProcess, 4),
        (errors.NotPermitted, 3),
        (errors.LaunchError, 125),
        (errors.AgentError, 125),
    ],
)
def test_each_error_has_its_exit_status_and_slug(
    kind: type[errors.SoscopeError], status: int
) -> None:
    error = kind("it: broke", hint="mend it", errno=errno.EPERM)
    assert isinstance(error, errors.SoscopeError)
    assert (str(error), error.message, error.hint) == ("it: broke", "it: broke", "mend it")
    assert (error.exit_status, error.errno) == (status, errno.EPERM)
    assert error.slug != "error"
    assert kind.__name__ in (errors.__doc__ or "")


def test_errors_are_also_the_builtins_that_callers_expect() -> None:
    assert issubclass(errors.NoSuchProcess, ProcessLookupError)
    assert issubclass(errors.NotPermitted, PermissionError)


def test_slug_and_status_of_one_error_do_not_leak_into_the_next() -> None:
    assert errors.AgentError("x", slug="other", exit_status=9).exit_status == 9
    assert errors.AgentError("x").exit_status == 125
    assert errors.AgentError("x").slug == "agent"


def test_a_command_that_cannot_run_has_the_status_of_the_shell() -> None:
    assert errors.LaunchError.not_found("nosuch").exit_status == 127
    assert errors.LaunchError.not_executable("x", "permission denied").exit_status == 126


def test_a_format_error_names_field_and_offset() -> None:
    error = errors.FormatError("x.so: e_phnum: too many", field="e_phnum", offset=56)
    assert (error.field, error.offset) == ("e_phnum", 56)
