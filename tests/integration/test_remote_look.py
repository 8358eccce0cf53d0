# SPDX-License-Identifier: Apache-2.0
"""`resolve` and `map` over a stub: as of a process that is looked at here, and by nm."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.sections import relative_words
from soscope.binfmt.source import BufferSource
from soscope.control.qemu.memory import RemoteProcess, RemoteSpace
from soscope.entry.remote.packets import RemoteAddress
from soscope.entry.remote.stub import RemoteStub
from soscope.proc import maps
from tests.support.machines.crossed import program, sysroot, untraced
from tests.support.machines.gdbstubs import emulator, gdbserver
from tests.support.processes.run import kill, soscope
from tests.support.time.patience import limit, until
from tests.support.time.progress import waits_in

pytestmark = pytest.mark.shares

_SLEEPS = 35, 230  # nanosleep and clock_nanosleep on x86-64
QUERIES = ("malloc", "memcpy", "errno", "environ", "libc.so.6!free", "main_arena", "nobody", "0x1")


@pytest.fixture(scope="module")
def asleep() -> Iterator[int]:
    """Give a process that sleeps."""
    process = subprocess.Popen(["sleep", "1000"], text=True)
    until(waits_in(process.pid, *_SLEEPS), "it sleeps", running=process)
    yield process.pid
    assert process.poll() is None  # let go unharmed each time
    kill(process)


def test_the_same_as_of_a_process(asleep: int) -> None:
    words = ["--json", "--read", "hex:8", *QUERIES]
    here = soscope("resolve", "-p", str(asleep), *words)
    with gdbserver("--attach", str(asleep)) as stub:
        there = soscope("resolve", "--remote", stub.address, *words)
    assert json.loads(there.stdout) == json.loads(here.stdout)
    assert there.returncode == here.returncode == 1
    for form in ([], ["--json"]):
        here = soscope("map", "-p", str(asleep), *form)
        with gdbserver("--attach", str(asleep)) as stub:
            there = soscope("map", "--remote", stub.address, *form)
            assert stub.process.wait(limit()) == 0
        assert there.stdout == here.stdout
        assert there.returncode == here.returncode == 0


def test_before_the_first_instruction(tmp_path: Path) -> None:
    path = program(tmp_path, "ppc", "-Wl,-z,now")
    loader = sysroot("ppc") / "lib" / "ld.so.1"
    plain = untraced(path, "ppc", "signals")
    with emulator("ppc", path, "signals") as stub:
        done = soscope("resolve", "--remote", stub.address, "--json", "main", "--", path, "_start")
        out, err = stub.process.communicate(timeout=limit())
    main, start = json.loads(done.stdout)["results"]
    assert int(main["addr"], 16) - int(main["load_bias"], 16) == _value(path, "main")
    assert start["status"] == "ok"
    assert (stub.process.returncode, out, err) == (plain.returncode, plain.stdout, plain.stderr)
    with emulator("ppc", path, "signals") as stub:
        done = soscope("map", "--remote", stub.address, "--json")
        assert stub.process.wait(limit()) == plain.returncode == 7  # a signal later does not end it
    images = json.loads(done.stdout)["images"]
    assert [image["path"] for image in images] == [str(path), f"/lib/{loader.name}"]


@pytest.mark.every(2)
@pytest.mark.parametrize("arch", ["ppc", "ppc64"])
def test_of_another_order(tmp_path: Path, arch: str) -> None:
    """A program that has started: what its loader has bound, by the loader's own words."""
    path = program(tmp_path, arch, "-Wl,-z,now")
    with emulator(arch, path) as waiting:
        stub = RemoteStub(RemoteAddress(waiting.address).connect(), "<")
        with RemoteProcess(_at_entry(stub, path)) as process:
            own = process.bindings(image="crossed", symbol="add")
            answer = process.resolve("add")
            assert answer.image is not None
            assert [(each.state, each.to_image) for each in own] == [("bound", answer.image)]
            file = next(iter(process.space.files_at(answer.image.loader_name)))
            with open(file, "rb") as opened:
                theirs = os.fstat(opened.fileno())
            assert os.path.samestat(theirs, os.stat(path.parent / "libcalls.so"))
        assert waiting.process.wait(limit()) == untraced(path, arch).returncode


@pytest.mark.parametrize("unbound", [True, False])
def test_slots_that_are_code(tmp_path: Path, *, unbound: bool) -> None:
    """The BSS PLT of PowerPC: entries lead to the loader's own choice, and to nobody's hook."""
    path = program(tmp_path, "ppc", "-Wl,-z,lazy" if unbound else "-Wl,-z,now", unseen=True)
    with emulator("ppc", path) as waiting:
        stub = RemoteStub(RemoteAddress(waiting.address).connect(), "<")
        with RemoteProcess(_at_entry(stub, path)) as process:
            calls = [each for each in process.bindings(image="crossed") if each.is_call]
            assert "add" in {each.symbol for each in calls}
            for each in calls:
                answer = process.resolve(each.symbol)
                if not answer:
                    continue  # weak, and nobody has it
                assert each.state == ("unbound" if unbound else "bound"), each.symbol
                assert unbound or (each.value, each.to_image) == (answer.addr, answer.image)


def _value(path: Path, name: str) -> int:
    """Return a symbol's value by pyelftools."""
    with path.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        value: int = table.get_symbol_by_name(name)[0]["st_value"]
        return value


def _at_entry(stub: RemoteStub, path: Path) -> RemoteSpace:
    """Have the program run until its loader has done its work; return it as it is then."""
    vector = RemoteSpace(stub, str(path), None).auxv
    entry = vector[maps.AT_ENTRY]
    elf = ElfImage.from_source(BufferSource(path.read_bytes()))
    assert elf.header is not None
    if elf.header.arch is not None and elf.header.arch.has_descriptors:
        entry += relative_words(elf)[elf.header.entry] - elf.header.entry
    stub.insert(entry, 4)
    stub.resume()
    assert stub.wait(limit()) is not None
    stub.remove(entry, 4)
    return RemoteSpace(stub, str(path), None)


# ---- what does not work ------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "status", "why"),
    [
        ("unix:/nowhere/stub", 125, "there is no such socket"),
        ("localhost:1", 125, "no program listens there"),
        ("192.0.2.1:2345", 2, "is not on this machine"),
        ("example.org:2345", 2, "is no address of this machine"),
        ("localhost", 2, "is no address of a stub"),
        ("unix:", 2, "names no socket"),
    ],
)
def test_addresses(address: str, status: int, why: str) -> None:
    done = soscope("resolve", "--remote", address, "malloc")
    assert done.returncode == status
    assert why in done.stderr.splitlines()[0]


def test_another_program(asleep: int, tmp_path: Path) -> None:
    foreign = program(tmp_path, "ppc")
    for path, why in (
        ("/bin/cat", "the stub's program is not /bin/cat"),
        (foreign, "is big-endian, and the stub's program is little-endian"),
        (tmp_path / "none", "no such file"),
    ):
        with gdbserver("--attach", str(asleep)) as stub:
            done = soscope("map", "--remote", stub.address, "--", path)
            assert stub.process.wait(limit()) == 0
        assert done.returncode == 125
        assert re.search(re.escape(why), done.stderr), done.stderr
        assert len(done.stderr.splitlines()) == 1
