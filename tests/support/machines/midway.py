# SPDX-License-Identifier: Apache-2.0
"""Emulated programs that have run for a while when soscope comes.

qemu 7.2 takes one connection to its stub in all. So a client of ours has it from the beginning,
lets the program run to where it raises SIGTRAP, and hands on what is said from there.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from tests.support.machines.gdbstubs import Waiting, emulator
from tests.support.processes.run import kill
from tests.support.time.patience import limit

Order = Literal["little", "big"]
_PIECE = 1 << 16
_PC = 64  # GDB's number of the register on PowerPC


class MidwayClient:
    """A client of a stub, which knows packets alone."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(limit())
        self.socket.connect(address.removeprefix("unix:"))
        self._rest = b""

    def ask(self, packet: bytes) -> bytes:
        """Return the answer to a packet, b"" where the stub is gone."""
        self.socket.sendall(b"$%s#%02x" % (packet, sum(packet) & 0xFF))
        while b"#" not in self._rest or len(self._rest) < self._rest.index(b"#") + 3:
            data = self.socket.recv(_PIECE)
            if not data:
                return b""
            self._rest += data
        answer, _, rest = self._rest.partition(b"#")
        self._rest = rest[2:]
        self.socket.sendall(b"+")
        return answer.partition(b"$")[2]

    def run_to_trap(self) -> None:
        """Have the program run until it raises SIGTRAP."""
        self.ask(b"qSupported:multiprocess+")
        assert self.ask(b"?").startswith(b"T05")
        assert self.ask(b"vCont;c").startswith(b"T05")

    def count(self, addrs: Sequence[int], order: Order) -> dict[int, int]:
        """Let it run to its end; return how often each instruction at `addrs` was come to.

        That is of PowerPC, of the byte order "little" or "big".
        """
        counts = dict.fromkeys(addrs, 0)
        assert self.ask(b"qXfer:features:read:target.xml:0,ff0")  # single registers come then
        for addr in addrs:
            assert self.ask(b"Z0,%x,4" % addr) == b"OK"
        stop = self.ask(b"vCont;c")
        while stop.startswith(b"T"):
            thread = stop.partition(b"thread:")[2].partition(b";")[0]
            if stop[1:3] != b"05":  # a signal of the program's own
                stop = self.ask(b"vCont;C%s:%s;c" % (stop[1:3], thread))
                continue
            pc = int.from_bytes(bytes.fromhex(self.ask(b"p%x" % _PC).decode()), order)
            counts[pc] += 1
            assert self.ask(b"z0,%x,4" % pc) == b"OK"
            assert self.ask(b"vCont;s:" + thread).startswith(b"T05")
            assert self.ask(b"Z0,%x,4" % pc) == b"OK"
            stop = self.ask(b"vCont;c")
        return counts


@contextlib.contextmanager
def midway(arch: str, program: Path, *words: str) -> Iterator[tuple[Waiting, MidwayClient]]:
    """Have a program stand where it raises SIGTRAP, with a client of its stub."""
    with emulator(arch, program, *words) as stub:
        client = MidwayClient(stub.address)
        try:
            client.run_to_trap()
            yield stub, client
        finally:
            client.socket.close()


def _relay(listener: socket.socket, ours: socket.socket) -> None:
    """Hand on what a second client and the stub say to each other, until one has gone."""
    theirs, _ = listener.accept()
    other = {theirs: ours, ours: theirs}
    with theirs, ours:
        while True:
            for each in select.select([theirs, ours], [], [])[0]:
                try:
                    data = each.recv(_PIECE)
                    other[each].sendall(data)
                except OSError:
                    return  # one has gone with something unread
                if not data:
                    return


@contextlib.contextmanager
def handed_on(arch: str, program: Path, *words: str) -> Iterator[Waiting]:
    """Do so; its `address` is there for one further client."""
    with midway(arch, program, *words) as (stub, client):
        place = str(program.parent / f"midway-{stub.process.pid}")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(place)
            listener.listen(2)
            stub.address = f"unix:{place}"
            thread = threading.Thread(target=_relay, args=(listener, client.socket), daemon=True)
            thread.start()
            try:
                yield stub
            finally:
                kill(stub.process)
                with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as nobody:
                    nobody.connect(place)  # where nobody has come, this ends it
                    thread.join(limit())
