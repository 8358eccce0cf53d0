# SPDX-License-Identifier: Apache-2.0
"""A stub that refuses a packet in the middle: what is ours is undone, and its program goes on."""

from __future__ import annotations

import select
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.files.elffiles import built
from tests.support.machines.gdbstubs import Waiting, gdbserver
from tests.support.processes.run import run, soscope
from tests.support.time.patience import limit

pytestmark = pytest.mark.shares

_CALLING = """
#include <stdio.h>
#include <stdlib.h>
int main(void)
{
    long sum = 0;
    for (int i = 1; i <= 200; i++)
        sum += labs(-i);
    printf("%ld", sum);
    return 7;
}
"""


@contextmanager
def _refusing(packet: bytes, number: int, stub: Waiting) -> Iterator[str]:
    """Give the address of a stub that is another one, but refuses the packet of this number."""
    with socket.create_server(("localhost", 0)) as server:
        host, _, port = stub.address.partition(":")
        words = (server, (host, int(port)), packet, number)
        proxy = threading.Thread(target=_pass_on, args=words)
        proxy.start()
        yield f"localhost:{server.getsockname()[1]}"
        proxy.join(limit())
        assert not proxy.is_alive()


def _pass_on(server: socket.socket, to: tuple[str, int], packet: bytes, number: int) -> None:
    server.settimeout(limit())
    seen = 0
    with server.accept()[0] as front, socket.create_connection(to) as back:
        while ready := select.select([front, back], [], [], limit())[0]:
            for source in ready:
                data = source.recv(1 << 16)
                if not data:
                    return
                if source is front and b"$" + packet in data:
                    seen += 1
                    if seen == number:
                        front.sendall(b"$E01#a6")
                        continue
                (back if source is front else front).sendall(data)


@pytest.mark.covering(1)
@pytest.mark.parametrize("engine", ["poison", "sites"])
@pytest.mark.parametrize("packet", [b"vCont;c", b"g", b"G", b"Z0"])
def test_its_program_goes_on(engine: str, packet: bytes, tmp_path: Path) -> None:
    program = built(tmp_path, "calling", _CALLING, "-O0", "-fno-builtin", "-Wl,-z,lazy")
    plain = run([program])
    with gdbserver(program, stdout=subprocess.PIPE) as stub, _refusing(packet, 50, stub) as address:
        words = ("--engine", engine, "-e", "labs", "-o", tmp_path / "log")
        done = soscope("trace", *words, "--remote", address)
        out, _ = stub.process.communicate(timeout=limit())
    assert out == plain.stdout == "20100"
    assert done.returncode == 125
    assert "error: the stub" in done.stderr


def test_a_slot_that_it_does_not_read(tmp_path: Path) -> None:
    """One call is not seen. The program makes it."""
    program = built(tmp_path, "calling", _CALLING, "-O0", "-fno-builtin", "-Wl,-z,lazy")
    log = tmp_path / "log"
    with gdbserver(program, stdout=subprocess.PIPE) as stub, _refusing(b"m", 50, stub) as address:
        words = ("--engine", "sites", "-e", "labs", "-o", log)
        done = soscope("trace", *words, "--remote", address)
        out, _ = stub.process.communicate(timeout=limit())
    assert (done.returncode, out) == (7, "20100"), done.stderr
    assert 199 <= log.read_text().count("labs(") <= 200
