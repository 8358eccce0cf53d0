# SPDX-License-Identifier: Apache-2.0
"""The plan: nobody but the mapping that was there before it was sealed writes to it."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from collections.abc import Iterator

import pytest

from soscope.wire import layout
from soscope.wire.sharedfile import PlanFile


@pytest.fixture
def plan() -> Iterator[PlanFile]:
    plan = PlanFile.create(2 * layout.PAGE)
    yield plan
    plan.close()


def test_a_sealed_plan_is_written_to_by_its_first_mapping_alone(plan: PlanFile) -> None:
    assert plan.write(0, b"before")
    plan.seal()
    assert plan.is_sealed
    assert plan.write(0, b"behind")
    with pytest.raises(PermissionError):
        mmap.mmap(plan.fd, plan.size)
    with pytest.raises(PermissionError):
        os.pwrite(plan.fd, b"x", 0)
    with pytest.raises(PermissionError):
        os.ftruncate(plan.fd, 0)
    other = PlanFile(os.dup(plan.fd))
    assert other.read(0, 6) == b"behind"
    assert not other.write(0, b"x")
    with pytest.raises(PermissionError):
        fcntl.fcntl(plan.fd, fcntl.F_ADD_SEALS, 0)  # nobody adds or takes any
    other.close()


def test_a_process_that_has_come_too_late_writes_by_another_one(plan: PlanFile) -> None:
    plan.seal()
    late = PlanFile(os.dup(plan.fd), (os.getpid(), plan.addr))
    assert late.write(layout.PAGE, b"by the other")
    assert plan.read(layout.PAGE, 12) == b"by the other"
    assert not late.write(late.size - 1, b"xy")
    late.close()
    gone = PlanFile(os.dup(plan.fd), (1 << 22, plan.addr))
    assert not gone.write(0, b"x")
    gone.close()


def test_a_kernel_without_the_seal_seals_the_size(
    plan: PlanFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fcntl.fcntl

    def old(descriptor: int, command: int, argument: int = 0) -> int:
        if command == fcntl.F_ADD_SEALS and argument & 0x10:
            raise OSError(errno.EINVAL, "Invalid argument")
        return real(descriptor, command, argument)

    monkeypatch.setattr(fcntl, "fcntl", old)
    plan.seal()
    assert not plan.is_sealed
    assert plan.write(0, b"x")
    with pytest.raises(PermissionError):
        os.ftruncate(plan.fd, 0)


def test_a_file_that_takes_no_seals_is_a_plan_all_the_same() -> None:
    folder = "/dev/shm"
    plan = PlanFile(_sized(os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600)))
    plan.seal()
    assert not plan.is_sealed
    assert plan.write(0, b"x")
    plan.users = 1
    plan.close()


def _sized(descriptor: int) -> int:
    os.ftruncate(descriptor, layout.PAGE)
    return descriptor
