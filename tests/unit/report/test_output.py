# SPDX-License-Identifier: Apache-2.0
"""An output that fails is noted and gives up; nothing is raised into a trace."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path

import pytest

from soscope.errors import SoscopeError
from soscope.report.output import Output


def test_text_arrives_whatever_its_characters(tmp_path: Path) -> None:
    output = Output.open(os.fspath(tmp_path / "out"))
    output.write("é\udcff\n")
    output.close()
    assert (tmp_path / "out").read_bytes() == "é".encode() + b"\xff\n"


def test_a_file_is_not_inherited_and_not_a_standard_descriptor(tmp_path: Path) -> None:
    output = Output.open(os.fspath(tmp_path / "out"))
    assert output.fd > 2
    assert not os.get_inheritable(output.fd)
    output.close()


def test_a_file_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SoscopeError, match="no such file") as raised:
        Output.open(os.fspath(tmp_path / "no" / "out"))
    assert raised.value.errno == errno.ENOENT


def test_a_full_disk_ends_the_output_and_counts_lines() -> None:
    output = Output.open("/dev/full")
    output.write("a\nb\n")
    output.write("c\n")
    assert output.error is not None
    assert output.error.errno == errno.ENOSPC
    assert output.lost == 3
    output.close()


def test_a_reader_that_went_away_ends_the_output() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    output = Output(writer, "pipe")
    output.write("a\n")
    assert not output.is_open
    output.close()


def test_a_nonblocking_pipe_loses_nothing() -> None:
    """The target may switch the terminal that both share."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    got = bytearray()

    def read() -> None:
        while data := os.read(reader, 1 << 16):
            got.extend(data)
            time.sleep(0.001)

    thread = threading.Thread(target=read)
    thread.start()
    output = Output(writer, "pipe")
    text = "x" * 99 + "\n"
    output.write(text * 10_000)
    output.close()
    thread.join()
    os.close(reader)
    assert output.error is None
    assert len(got) == 1_000_000


def test_a_reader_that_has_gone_is_noticed_without_writing() -> None:
    reader, writer = os.pipe()
    output = Output(writer, "a pipe")
    assert output.is_read
    os.close(reader)
    assert not output.is_read
    assert isinstance(output.error, BrokenPipeError)
    output.write("lost\n")
    assert output.lost == 1
    output.close()
