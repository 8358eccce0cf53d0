# SPDX-License-Identifier: Apache-2.0
"""Shared memory files: what is sealed stays as it is."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from collections.abc import Iterator

import pytest

from soscope.entry.agent.install import Blob
from soscope.errors import NoSharedMemory
from soscope.wire import sharedfile

SIZE = 8192


@pytest.fixture
def file() -> Iterator[int]:
    descriptor = sharedfile.create(SIZE, seals=0)
    yield descriptor
    os.close(descriptor)


def test_a_size_is_for_good() -> None:
    descriptor = sharedfile.create(SIZE)
    for size in (0, 2 * SIZE):
        with pytest.raises(PermissionError):
            os.ftruncate(descriptor, size)
    os.pwrite(descriptor, b"x", SIZE - 1)
    os.close(descriptor)


def test_content_is_for_good(file: int) -> None:
    os.pwrite(file, b"x", 0)
    sharedfile.seal_content(file)
    with pytest.raises(PermissionError):
        os.pwrite(file, b"y", 0)
    with pytest.raises(PermissionError):
        os.ftruncate(file, 0)


def test_a_file_that_somebody_writes_to_keeps_its_size(file: int) -> None:
    with mmap.mmap(file, SIZE) as mapping:
        sharedfile.seal_content(file)
        mapping[0] = 1
    with pytest.raises(PermissionError):
        os.ftruncate(file, 0)


def test_a_file_of_another_size_is_refused(file: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever shares it has cut it before it was sealed."""
    monkeypatch.setattr(os, "ftruncate", lambda _, __: None)
    with pytest.raises(NoSharedMemory) as refused:
        sharedfile.resize(os.dup(file), 2 * SIZE)
    assert refused.value.errno == errno.EBUSY


def test_code_is_for_good() -> None:
    blob = Blob.build()
    blob.fill()
    assert fcntl.fcntl(blob.fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_WRITE
    with mmap.mmap(blob.fd, blob.size, prot=mmap.PROT_READ) as mapping:
        assert mapping[:4] == b"\x7fELF"
    blob.close()
