# SPDX-License-Identifier: Apache-2.0
"""What a test needs of its machine.

A missing tool skips the test on a developer's machine and fails it in CI: a run that
quietly tests less is not a green one.
"""

from __future__ import annotations

import functools
import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

from soscope.proc import status

# A reason that begins so is accepted in CI too (see conftest.py).
NOT_HERE = "not here: "


def strict() -> bool:
    """Return whether a missing tool is a failure (CI, or SOSCOPE_REQUIRE_TOOLS=1)."""
    return any(
        os.environ.get(name, "").lower() in {"1", "true", "yes"}
        for name in ("CI", "SOSCOPE_REQUIRE_TOOLS")
    )


def need(*tools: str) -> str:
    """Return the path of the first of `tools`, having made sure that all are there.

    A tool is a command on PATH, or an absolute path of a file.
    """
    found = []
    for tool in tools:
        path = tool if os.path.isabs(tool) and os.path.exists(tool) else shutil.which(tool)
        if path is None:
            missing(tool)
        else:
            found.append(path)
    return found[0]


def missing(what: str) -> NoReturn:
    """Skip because something is not installed; fail in CI."""
    message = f"{what} is not installed; 'make test' as root installs it"
    if strict():
        pytest.fail(message)
    pytest.skip(message)


def not_here(reason: str) -> None:
    """Skip, in CI too: the kernel or the processor cannot do what the test looks at."""
    pytest.skip(NOT_HERE + reason)


# ---- what a container takes away -------------------------------------------

_CAP_SYS_ADMIN = 21
_PF_KTHREAD = 0x0020_0000


def namespaces(*flags: str) -> list[str]:
    """Return unshare(1) with `flags`; skip where a container lets nobody make such namespaces.

    On a whole machine nothing is skipped: an unshare that fails there fails its test.
    """
    words = [need("unshare"), *flags]
    if "--user" not in flags:
        need_admin("new namespaces")
    if {"--mount", "-m", "--mount-proc"} & set(flags) and not _root_is_a_mount():
        not_here("the root folder is no mount point, so there are no mount namespaces")
    return words


def need_admin(what: str) -> None:
    """Skip where root itself may not do `what`: it lacks CAP_SYS_ADMIN, as in a container."""
    if not _is_admin():
        not_here(f"{what}: CAP_SYS_ADMIN is missing")


def for_admin(what: str) -> pytest.MarkDecorator:
    """Return a mark for tests that need `what`: for root, where no container forbids it."""
    if os.geteuid() != 0:
        return pytest.mark.skipif(True, reason=f"{what}: only for root")
    reason = f"{NOT_HERE}{what}: CAP_SYS_ADMIN is missing"
    return pytest.mark.skipif(not _is_admin(), reason=reason)


def _is_admin() -> bool:
    capabilities = int(status.read_status(os.getpid())["CapEff"], 16)
    return bool(capabilities >> _CAP_SYS_ADMIN & 1)


def _root_is_a_mount() -> bool:
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return any(line.split()[4] == "/" for line in mounts)


def kernel_thread() -> int:
    """Return the number of a thread of the kernel; skip where a process namespace hides them."""
    for word in sorted(filter(str.isdigit, os.listdir("/proc")), key=int):
        try:
            if status.read_stat(int(word)).flags & _PF_KTHREAD:
                return int(word)
        except ProcessLookupError:
            continue  # it has ended
    not_here("threads of the kernel are in another process namespace")
    raise AssertionError


# ---- what the machine is: it decides what is expected, not whether a test runs --------


@functools.cache
def hides_processes() -> bool:
    """Return whether a user sees no processes of others in /proc (hidepid of proc(5))."""
    hidden = ("hidepid=2", "hidepid=invisible", "hidepid=4", "hidepid=ptraceable")
    mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    options = [words[-1] for words in mounts if words[4] == "/proc"]
    # the last one lies above the others
    return bool(options) and any(word in hidden for word in options[-1].split(","))


@functools.cache
def yama() -> int:
    """Return Yama's ptrace_scope, 0 where the kernel has no Yama: nothing more is forbidden."""
    try:
        return int(Path("/proc/sys/kernel/yama/ptrace_scope").read_text())
    except FileNotFoundError:
        return 0
