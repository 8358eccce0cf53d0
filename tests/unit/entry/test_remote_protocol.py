# SPDX-License-Identifier: Apache-2.0
"""The GDB remote protocol, against packets as its manual writes them."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from soscope.entry.remote import packets
from soscope.entry.remote.packets import PacketStream
from soscope.entry.remote.stub import Capabilities, RemoteStub
from soscope.errors import RemoteError
from tests.support.time.patience import limit

TARGET = """<?xml version="1.0"?><!DOCTYPE target SYSTEM "gdb-target.dtd">
<target><architecture>x</architecture><xi:include href="core.xml"/><xi:include href="fpu.xml"/>
</target>"""
CORE = """<feature name="core"><reg name="r0" bitsize="32"/><reg name="pc" bitsize="32"
regnum="4"/><reg name="lr" bitsize="64"/></feature>"""
FPU = """<feature name="fpu"><reg name="f0" bitsize="64" type="ieee_double"/></feature>"""
FILES = {"target.xml": TARGET, "core.xml": CORE, "fpu.xml": FPU}


@pytest.fixture
def ends() -> Iterator[tuple[PacketStream, socket.socket]]:
    """Give a client, and the other side's socket."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(limit())
    packets = PacketStream(ours)
    yield packets, theirs
    packets.close()
    theirs.close()


def _framed(data: bytes) -> bytes:
    return b"$%s#%02x" % (data, sum(data) & 0xFF)


@pytest.mark.parametrize(
    ("wire", "data"),
    [
        (b"OK", b"OK"),
        (b"", b""),
        (b"0* ", b"0000"),  # the manual's own: "0* " is 0000
        (b"}\x03}\x04}]}\x0a", b"#$}*"),
        (b"a* b*!", b"aaaabbbbb"),
    ],
)
def test_packets_are_decoded(
    ends: tuple[PacketStream, socket.socket], wire: bytes, data: bytes
) -> None:
    packets, theirs = ends
    theirs.sendall(b"+" + _framed(wire))
    assert packets.receive(limit()) == data
    packets.send(b"g")
    assert theirs.recv(64) == b"+" + _framed(b"g")


def test_what_is_sent_is_escaped(ends: tuple[PacketStream, socket.socket]) -> None:
    packets, theirs = ends
    packets.send(b"X#$}*y")
    assert theirs.recv(64) == _framed(b"X}\x03}\x04}]}\x0ay")


def test_a_damaged_packet_is_asked_for_again(ends: tuple[PacketStream, socket.socket]) -> None:
    packets, theirs = ends
    theirs.sendall(b"$OK#00" + _framed(b"OK"))
    assert packets.receive(limit()) == b"OK"
    packets.acknowledge()
    packets.acknowledge()
    said = b""
    while len(said) < 2:
        said += theirs.recv(8)
    assert said == b"-+"


@pytest.mark.parametrize("wire", [b"$OK#00" * 5, _framed(b"* "), _framed(b"a*\x01")])
def test_nonsense_ends(ends: tuple[PacketStream, socket.socket], wire: bytes) -> None:
    packets, theirs = ends
    theirs.sendall(wire)
    with pytest.raises(RemoteError):
        packets.receive(limit())


def test_a_closed_connection_is_no_packet(ends: tuple[PacketStream, socket.socket]) -> None:
    packets, theirs = ends
    theirs.sendall(b"$half")
    theirs.close()
    assert packets.receive(limit()) is None
    assert packets.is_over


def test_registers_lie_in_order_of_their_numbers() -> None:
    registers = packets.read(FILES.get)
    places = {name: (each.number, each.offset, each.size) for name, each in registers.items()}
    assert places == {"r0": (0, 0, 4), "pc": (4, 4, 4), "lr": (5, 8, 8), "f0": (6, 16, 8)}


def test_registers_that_nobody_describes_are_those_of_the_machine() -> None:
    registers = packets.read(lambda _: None, ("r0", "r1", "pc"))
    places = {name: (each.number, each.offset, each.size) for name, each in registers.items()}
    assert places == {"r0": (0, 0, 4), "r1": (1, 4, 4), "pc": (2, 8, 4)}
    assert packets.read(FILES.get, ("r0", "r1", "pc")).keys() == {"r0", "pc", "lr", "f0"}


@pytest.mark.parametrize(
    "text",
    [
        None,
        "<target>",
        '<!DOCTYPE a [<!ENTITY b "c">]><target>&b;</target>',
        '<target><reg name="r0"/></target>',
        '<target><xi:include href="target.xml"/></target>',
    ],
)
def test_a_description_of_nothing_is_refused(text: str | None) -> None:
    with pytest.raises(RemoteError):
        packets.read(lambda _: text)


def test_stops() -> None:
    stop = packets.parse(b"T05thread:p01.1a;swbreak:;")
    assert (stop.kind, stop.number, stop.tid) == (packets.SIGNAL, 5, 0x1A)
    assert "swbreak" in stop.facts
    assert (packets.parse(b"W07").kind, packets.parse(b"W2c;process:57").number) == ("exited", 0x2C)
    assert (packets.parse(b"X0b;process:1").kind, packets.parse(b"S0b").tid) == ("killed", 0)
    for nonsense in (b"", b"OK", b"T", b"Wxx", b"E01", b"F0"):
        with pytest.raises(RemoteError):
            packets.parse(nonsense)


def test_signals_have_other_numbers_on_linux() -> None:
    # <gdb/signals.def> and signal(7)
    told = {"USR1": (30, 10), "CHLD": (20, 17), "BUS": (10, 7), "SEGV": (11, 11), "ALRM": (14, 14)}
    for number, linux in told.values():
        assert packets.linux_signal(number) == linux
    assert packets.linux_signal(45) == 33


def test_capabilities() -> None:
    can = Capabilities(b"PacketSize=1000;qXfer:auxv:read+;multiprocess-;junk")
    assert (can.packet_size, can.has("qXfer:auxv:read"), can.has("multiprocess")) == (
        0x1000,
        True,
        False,
    )
    assert Capabilities(b"").packet_size >= 64


def test_a_stub_is_asked_for_what_it_offers() -> None:
    ours, theirs = socket.socketpair()
    answers = {
        b"qXfer:features:read:target.xml:0,ff0": b"l" + TARGET.encode(),
        b"qXfer:features:read:core.xml:0,ff0": b"m" + CORE[:40].encode(),
        b"qXfer:features:read:core.xml:28,ff0": b"l" + CORE[40:].encode(),
        b"?": b"T05thread:p01.2;",
        b"g": b"00112233445566770102030405060708",
        b"P4=78563412": b"OK",
        b"Z0,1000,4": b"OK",
        b"m10,8": b"E14",
    }
    asked: list[bytes] = []

    def serve() -> None:
        side = PacketStream(theirs)
        while (packet := side.receive(limit())) is not None:
            asked.append(packet)
            if packet.startswith(b"qSupported"):
                side.send(b"PacketSize=1000;qXfer:features:read+")
            elif packet.startswith(b"vCont;c"):
                side.send(b"W00")
            else:
                side.send(answers.get(packet, b""))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    stub = RemoteStub(ours, "<")
    assert (stub.get("pc"), stub.get("lr")) == (0x77665544, 0x0807060504030201)
    assert asked.count(b"g") == 1
    assert stub.read(0x10, 8) == b""
    stub.insert(0x1000, 4)
    with pytest.raises(RemoteError, match="sets no breakpoint"):
        stub.insert(0x2000, 4)
    stub.put("pc", 0x12345678)
    stub.resume()
    stop = stub.wait(limit())
    assert stop is not None
    assert stop.kind == packets.EXITED
    assert b"P4=78563412" in asked
    stub.close()
    thread.join(limit())
    theirs.close()


_PIECE = 256


def _serve_in_pieces(theirs: socket.socket, asked: list[bytes]) -> None:
    """Read as qemu's stub does: so many bytes at once, each acknowledgement from behind those."""
    answers = {b"?": b"T05thread:p01.2;", b"vCont;c": b"T05thread:p01.2;"}
    answers |= dict.fromkeys((b"P4=78563412", b"Z0,1000,4", b"z0,1000,4"), b"OK")
    answers[b"Z0,2000,4"] = b"E22"
    answers[b"qXfer:features:read:target.xml:0,ff0"] = b"l" + CORE.encode()
    answers[b"g"] = b"00112233445566770102030405060708"
    with contextlib.suppress(ConnectionError):  # the client goes when it hears of a refusal
        while data := theirs.recv(_PIECE):
            for each in data.split(b"$")[1:]:
                packet = each.partition(b"#")[0]
                asked.append(packet)
                answer = answers.get(packet, b"")
                if packet.startswith(b"qSupported"):
                    answer = b"PacketSize=1000;qXfer:features:read+"
                theirs.sendall(b"+" + _framed(answer))
                if theirs.recv(1) != b"+":
                    theirs.sendall(_framed(b"E99"))  # it would be said again


def test_nothing_waits_for_what_can_come_later() -> None:
    ours, theirs = socket.socketpair()
    asked: list[bytes] = []
    thread = threading.Thread(target=_serve_in_pieces, args=(theirs, asked), daemon=True)
    thread.start()
    stub = RemoteStub(ours, "<", _PIECE)
    for _ in range(3):
        stub.put("pc", 0x12345678)
        stub.insert(0x1000, 4)
        stub.remove(0x1000, 4)
        stub.resume()
        stop = stub.wait(limit())
        assert stop is not None
        assert (stop.kind, stop.tid) == (packets.SIGNAL, 2)
        assert stub.get("pc") == 0x77665544
    whole = [b"Z0,1000,4", b"z0,1000,4", b"P4=78563412", b"vCont;c", b"g"]
    assert asked[-10:] == whole * 2
    stub.insert(0x1000, 4)
    assert stub.read(0x10, 8) == b""
    assert asked[-2:] == [b"Z0,1000,4", b"m10,8"]  # in order, whoever asks
    stub.insert(0x2000, 4)
    stub.resume()
    with pytest.raises(RemoteError, match="sets no breakpoint at 0x2000"):
        stub.wait(limit())
    stub.close()
    thread.join(limit())
    theirs.close()


@pytest.mark.parametrize("noise", [b"A", b"%Stop:T05#00"])
def test_who_sends_without_end_and_no_packet_is_not_listened_to(
    noise: bytes, ends: tuple[PacketStream, socket.socket]
) -> None:
    packets, theirs = ends

    def flood() -> None:
        with contextlib.suppress(OSError):
            while True:
                theirs.sendall(noise * 1000)

    sender = threading.Thread(target=flood)
    sender.start()
    with pytest.raises(RemoteError, match="and no packet"):
        packets.receive(None)
    packets.close()
    sender.join(limit())
    assert not sender.is_alive()
