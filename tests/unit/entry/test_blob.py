# SPDX-License-Identifier: Apache-2.0
"""The blob: what is in it, and what is said of an agent that is not one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from soscope.entry.agent.install import Blob, agent_path
from soscope.errors import AgentError
from soscope.wire import layout
from tests.support.files.elfwriter import Sym, Writer

NAMES = (
    "soscope_agent_start",
    "sosc_trap",
    "sosc_loader_event",
    "soscope_agent_hook",
    "soscope_agent_load",
    "soscope_agent_objects",
    "soscope_agent_unload",
)


def write_agent(path: Path, *, without: str = "", vaddr: int = 0) -> bytes:
    """Write something with the symbols of an agent; return its bytes."""
    writer = Writer(vaddr=vaddr)
    entry = writer.part("entry", b"\x11" * layout.PAGE)
    site = writer.part("site", b"\x22" * layout.PAGE)
    counter = writer.part("counter", b"\x33" * layout.PAGE)
    values = {"sosc_entry_page": entry, "sosc_site_page": site, "sosc_counter_page": counter}
    values |= {name: 0x100 + index for index, name in enumerate(NAMES)}
    writer.symbols([Sym(name, value) for name, value in values.items() if name != without])
    data = writer.build(build_id=b"\xab\xcd")
    path.write_bytes(data)
    return data


def test_the_blob_has_the_file_and_all_pages(tmp_path: Path) -> None:
    data = write_agent(tmp_path / "agent.so")
    blob = Blob.build(str(tmp_path / "agent.so"))
    try:
        assert (blob.start, blob.trap, blob.loader_event, blob.hook) == (0x100, 0x101, 0x102, 0x103)
        assert blob.build_id == b"\xab\xcd"
        assert blob.pages_offset % layout.PAGE == 0
        assert os.fstat(blob.fd).st_size == blob.size
        assert os.pread(blob.fd, 16, 0) == bytes(16)  # not before it is filled
        blob.fill()
        blob.fill()
        content = os.pread(blob.fd, blob.size, 0)
        assert content[: len(data)] == data
        assert not any(content[len(data) : blob.pages_offset])
        repeated = layout.PAGE * layout.BLOB_REPEAT
        pages = b"\x11" * repeated + b"\x22" * repeated + b"\x33" * repeated
        assert content[blob.pages_offset :] == pages
    finally:
        blob.close()
    assert blob.fd == -1


@pytest.mark.parametrize("name", [*NAMES, "sosc_entry_page", "sosc_site_page", "sosc_counter_page"])
def test_an_agent_without_one_of_its_symbols_is_refused(tmp_path: Path, name: str) -> None:
    write_agent(tmp_path / "agent.so", without=name)
    with pytest.raises(AgentError, match=name):
        Blob.build(str(tmp_path / "agent.so"))


def test_what_is_no_agent_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "agent.so"
    with pytest.raises(AgentError, match="no agent at") as caught:
        Blob.build(str(path))
    assert caught.value.hint
    path.write_bytes(b"\x7fELF")
    with pytest.raises(AgentError, match="damaged"):
        Blob.build(str(path))
    write_agent(path, vaddr=0x1000)
    with pytest.raises(AgentError, match="no code at its start"):
        Blob.build(str(path))


def test_the_agent_belongs_to_the_package() -> None:
    assert agent_path().endswith("/soscope/_agent/libsoscope-agent.so")
