# SPDX-License-Identifier: Apache-2.0
"""`soscope trace --remote` where some slots are bound already and some are not.

Beside what it sees stands what breakpoints at PLT entries see from the same place on: first calls
alone, where slots are addresses.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.isa.ppc.stubs import branches
from soscope.binfmt.source import BufferSource
from tests.support.machines.crossed import NAMES, account, program
from tests.support.machines.gdbstubs import Waiting
from tests.support.machines.midway import Order, handed_on, midway
from tests.support.processes.run import kill, soscope
from tests.support.time.patience import limit, until

pytestmark = pytest.mark.shares

SHAPES = ("ppc64le", "ppc64", "ppc", "ppc-bss")
_HERE = "from here on\n"


@pytest.fixture(scope="module", params=SHAPES)
def shape(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path, bool]:
    """Return an architecture, a program for it, and whether its slots are code."""
    arch, _, kind = request.param.partition("-")
    folder = tmp_path_factory.mktemp(request.param)
    path = program(
        folder, arch, "-Wl,-z,lazy", source="crossed_mixed", own="-no-pie", unseen=bool(kind)
    )
    return arch, path, bool(kind)


def _words(log: Path, stub: Waiting, path: Path, *more: str) -> list[str]:
    options = ["-c", "--json", "-o", str(log), "-l", "libcalls.so", "-e", ",".join(NAMES), *more]
    return ["trace", *options, "--remote", stub.address, "--", str(path)]


def _counted(log: Path) -> dict[str, int]:
    return {row["symbol"]: row["calls"] for row in json.loads(log.read_text())["rows"]}


def _from_there_on(err: str) -> dict[str, int]:
    """Return the calls that the library has counted behind the line."""
    before, _, all_ = err.partition(_HERE)
    counted = account(before)
    return {name: calls - counted.get(name, 0) for name, calls in account(all_).items()}


def _alone(arch: str, path: Path, *words: str) -> tuple[str, int]:
    """Return output and status of the program where nobody is there for the rest."""
    with midway(arch, path, *words) as (stub, client):
        client.socket.close()
        if words:
            stub.process.send_signal(signal.SIGUSR1)
        out, _ = stub.process.communicate(timeout=limit())
    return out, stub.process.returncode


def _naive(arch: str, path: Path, *, is_code: bool) -> dict[str, int]:
    """Return what breakpoints at PLT entries see from there on, by symbol."""
    mapped = ElfMap(ElfImage.from_source(BufferSource(path.read_bytes(), str(path))))
    slots = {slot.symbol: slot.vaddr for slot in mapped.slots if slot.symbol in NAMES}
    entries = slots
    if not is_code:
        led = branches(mapped)
        entries = {symbol: led[vaddr] for symbol, vaddr in slots.items()}
    order: Order = "little" if arch == "ppc64le" else "big"
    with midway(arch, path) as (stub, client):
        counts = client.count([*entries.values()], order)
        assert stub.process.wait(limit()) == 5
    return {symbol: counts[addr] for symbol, addr in entries.items()}


@pytest.mark.every(2)
def test_calls_from_there_on(shape: tuple[str, Path, bool], tmp_path: Path) -> None:
    arch, path, is_code = shape
    log = tmp_path / "log"
    with handed_on(arch, path) as stub:
        done = soscope(*_words(log, stub, path))
        out, err = stub.process.communicate(timeout=limit())
    assert (out, stub.process.returncode) == _alone(arch, path)
    assert done.returncode == stub.process.returncode == 5
    truth = _from_there_on(err)
    assert _counted(log) == truth
    assert truth == {"add": 5, "again": 4, "eight": 2, "half": 1, "callback": 1, "text": 1}
    assert json.loads(log.read_text())["totals"]["complete"]
    naive = _naive(arch, path, is_code=is_code)
    if is_code:  # calls go through the entry, bound or not; the stub's points are not in memory
        assert naive == truth
    else:
        assert naive["add"] == naive["text"] == 0
        assert naive["again"] == naive["eight"] == 1
        # on 32 bits an unbound call runs through the entries behind its own, which are nops
        assert naive["half"] == naive["callback"] == (arch == "ppc")


@pytest.mark.every(2)
def test_it_is_let_go(shape: tuple[str, Path, bool], tmp_path: Path) -> None:
    """Some slots are not bound even then."""
    arch, path, _ = shape
    log = tmp_path / "log"
    with handed_on(arch, path, "loops") as stub:
        words = [word for word in _words(log, stub, path) if word != "-c"]
        with _tracing(log, words) as tracing:
            tracing.send_signal(signal.SIGINT)
            _, said = tracing.communicate(timeout=limit())
            assert tracing.returncode == 0, said
        stub.process.send_signal(signal.SIGUSR1)
        out, err = stub.process.communicate(timeout=limit())
    assert (out, stub.process.returncode) == _alone(arch, path, "loops")
    calls = [json.loads(line).get("symbol") for line in log.read_text().splitlines()]
    assert 0 < calls.count("add") <= _from_there_on(err)["add"] - 5
    assert _from_there_on(err)["again"] == 4


@contextmanager
def _tracing(log: Path, words: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Trace during the block, which begins when calls are in the log."""
    tracing = subprocess.Popen(
        [sys.executable, "-m", "soscope", *words], stderr=subprocess.PIPE, text=True
    )
    try:
        until(
            lambda: log.exists() and "add" in log.read_text(), "calls in the log", running=tracing
        )
        yield tracing
    finally:
        kill(tracing)


def _sockets(pid: int) -> int:
    """Return how many sockets a process has open."""
    count = 0
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # it was closed meanwhile
            count += os.readlink(each).startswith("socket:")
    return count


@pytest.mark.every(2)
def test_soscope_is_killed(shape: tuple[str, Path, bool], tmp_path: Path) -> None:
    arch, path, _ = shape
    log = tmp_path / "log"
    with handed_on(arch, path, "loops") as stub:
        words = [word for word in _words(log, stub, path) if word not in ("-c", "--json")]
        with _tracing(log, words):
            connected = _sockets(stub.process.pid)
        # until then the stub would tell of a signal to whom it does not know to be gone
        gone = "the stub notices that nobody is there"
        until(lambda: _sockets(stub.process.pid) < connected, gone, running=stub.process)
        stub.process.send_signal(signal.SIGUSR1)
        out, err = stub.process.communicate(timeout=limit())
    assert (out, stub.process.returncode) == _alone(arch, path, "loops")
    assert _from_there_on(err)["again"] == 4


@pytest.mark.every(2)
def test_it_calls_nothing(shape: tuple[str, Path, bool], tmp_path: Path) -> None:
    """Whoever waits for its next stop hands it the signal for which it stops."""
    arch, path, _ = shape
    log = tmp_path / "log"
    with handed_on(arch, path, "idle") as stub:
        done = soscope(*_words(log, stub, path, "--duration", "0.3s"))
        assert done.returncode == 0, done.stderr
        assert "its breakpoints go when it stops by itself" in done.stderr
        stub.process.send_signal(signal.SIGUSR1)
        out, err = stub.process.communicate(timeout=limit())
    assert (out, stub.process.returncode) == _alone(arch, path, "idle")
    assert not any(_counted(log).values())
    assert _from_there_on(err)["again"] == 4


@pytest.mark.parametrize("shape", ["ppc64le"], indirect=True)
def test_threads(shape: tuple[str, Path, bool], tmp_path: Path) -> None:
    """Its stub does not hold them together, and tracing the emulator would not outlive us."""
    arch, path, _ = shape
    log = tmp_path / "log"
    with handed_on(arch, path, "held") as stub:
        done = soscope(*_words(log, stub, path))
        _, err = stub.process.communicate(timeout=limit())
    assert done.returncode == 125
    assert "runs already, with several threads, and the stub cannot stop them" in done.stderr
    assert (_from_there_on(err)["again"], stub.process.returncode) == (4, 5)
    with handed_on(arch, path, "later") as stub:
        done = soscope(*_words(log, stub, path))
        _, err = stub.process.communicate(timeout=limit())
    assert _counted(log) == {"add": 5, "half": 1}
    assert "a second thread was about to start" in done.stderr
    assert not json.loads(log.read_text())["totals"]["complete"]
    assert (_from_there_on(err)["callback"], stub.process.returncode) == (5, 5)
