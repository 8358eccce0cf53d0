# SPDX-License-Identifier: Apache-2.0
"""Traces what it does, in a way of several; says beside it what it has done."""

import ctypes
import gc
import glob
import io
import json
import os
import signal
import sys
import threading

import soscope_mem

WAY, WORDS = sys.argv[1], sys.argv[2:]


def traced(work):
    text = io.StringIO()
    with soscope_mem.trace(text):
        work()
    (line,) = text.getvalue().splitlines()
    return json.loads(line)


def calls():
    """Make calls of known numbers and sizes; the marks are for strace."""
    path = WORDS[0]

    def work():
        os.write(2, b"BEGIN\n")
        for size in range(50):
            file = os.open(path, os.O_RDWR)
            os.write(file, bytes(size))
            os.lseek(file, 0, os.SEEK_SET)
            os.read(file, 30)
            os.readv(file, [bytearray(7), bytearray(8)])
            os.pwrite(file, b"12345", 0)
            os.close(file)
        for _ in range(3):
            try:
                os.read(file, 10)
            except OSError:
                pass  # it is closed: a call that fails is a call
        os.write(2, b"END\n")

    print(json.dumps([traced(work), traced(work)]))


def threads():
    count = int(WORDS[0])
    null = os.open("/dev/null", os.O_WRONLY)

    def some():
        for _ in range(1000):
            os.write(null, b"abc")

    def work():
        each = [threading.Thread(target=some) for _ in range(count)]
        for thread in each:
            thread.start()
        for thread in each:
            thread.join()

    print(traced(work)["fd"]["write"]["calls"])


class Own:
    pass


def objects():
    """Make objects of known types; collections must not show but as themselves."""

    def work():
        [Own() for _ in range(40)]
        [bytearray(9) for _ in range(30)]
        [set() for _ in range(20)]

    def collect():
        for _ in range(10):
            gc.collect()

    def nothing():
        pass

    gc.collect()
    gc.disable()
    for each in (work, collect, nothing):
        traced(each)
        print(json.dumps(traced(each)))


def ways():
    """Go the ways that a trace can be asked for, and end."""
    path = WORDS[0]

    @soscope_mem.trace(path)
    def add(one, *, two):
        return one + two

    print(add(1, two=2), add.__name__)
    try:
        with soscope_mem.trace(path + ".none"):
            raise KeyError("through")
    except KeyError as error:
        print(error, os.path.exists(path + ".none"))
    sys.stdout.flush()  # the child would print it once more
    inner, outer = io.StringIO(), io.StringIO()
    null = os.open("/dev/null", os.O_WRONLY)
    with soscope_mem.trace(outer):
        os.write(null, b"1")
        with soscope_mem.trace(inner):
            os.write(null, b"2")
        os.write(null, b"3")
        child = os.fork()
        if not child:
            os.write(null, b"4")
            print(traced(lambda: os.write(null, b"56"))["fd"]["write"]["actual_bytes"])
            sys.stdout.flush()
    if not child:
        os._exit(len(outer.getvalue()))
    print(os.waitpid(child, 0)[1])
    for text in (inner, outer):
        print(json.loads(text.getvalue())["fd"]["write"]["calls"])
    with soscope_mem.trace():
        pass


def sqlite():
    def work():
        import sqlite3

        base = sqlite3.connect(":memory:", isolation_level=None)
        base.execute("create table numbers (number int)")
        for number in range(10):
            base.execute("insert into numbers values (?)", (number,))
        for _ in range(7):
            base.execute("/* all */ SELECT * from numbers").fetchall()
        base.execute("  update numbers set number = 1")
        base.execute("-- half\ndelete from numbers where number > 5")
        base.close()

    print(json.dumps(traced(work)["sqlite3"]))


def ssl():
    certificate = WORDS[0]

    def work():
        import ssl

        to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server = context.wrap_bio(to_server, to_client, server_side=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        client = context.wrap_bio(to_client, to_server)
        for side in (client, server, client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass  # the other side has not answered yet
        for size in range(1, 11):
            client.write(bytes(size * 100))
            assert len(server.read(5000)) == size * 100

    print(json.dumps(traced(work)["ssl"]))


def leaving():
    """Leave calls by ways that no return goes."""
    library = ctypes.CDLL(WORDS[0])
    said = []
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    def work():
        said.append(library.by_longjmp(20))
        said.append(library.by_cancel(20))
        said.append(library.many_words())
        said.append(library.by_stack_end())

    print(json.dumps([traced(work)["fd"], said]))
    print(json.dumps(traced(work)["fd"]))


def throwing():
    """Have exceptions go through calls."""
    library = ctypes.CDLL(WORDS[0])
    said = []
    seen = traced(lambda: said.extend(divmod(library.thrown(20), 1000)))
    print(json.dumps([seen["sqlite3"], said]))


def unwanted():
    """Make calls that do not want all of their answers, and the same ones that do."""
    library = ctypes.CDLL(WORDS[0])
    for answers in (0, 1):
        said = []
        seen = traced(lambda: said.append(library.unwanted(answers)))  # noqa: B023  called in this round
        print(json.dumps([seen["memcache"], seen["ssl"], said]))


def plugins():
    """Load a library and let go of it, many times, and call it each time."""
    library = ctypes.CDLL(WORDS[0])
    seen = traced(lambda: print(library.come_and_go(WORDS[1].encode(), 1000)))
    print(seen["fd"]["pread"]["calls"], "all" in seen.get("unseen", {}))
    print(json.dumps(seen.get("unseen", {}).get("fd", {})))


def storm():
    """Hook and unhook while threads, children and signal handlers make calls."""
    library = ctypes.CDLL(WORDS[0])
    library.end.restype = ctypes.c_long
    meter = soscope_mem._trace.meter()
    said, seen = [library.begin(20)], 0
    for turn in range(100):
        meter.open()
        span = meter.begin()
        said.append(turn % 10 or library.bear())
        seen += span.end()["fd"].get("write", {"calls": 0})["calls"]
        meter.close()
    print(said[0], all(said[1:]), library.end(), seen > 0)


def many():
    """Call one function of each of many libraries, twice; how many were left, or were not."""
    libraries = [ctypes.CDLL(path) for path in sorted(glob.glob(f"{WORDS[0]}/*.so"))]
    file = os.open("/dev/zero", os.O_RDONLY)
    for _ in range(2):
        seen = traced(lambda: [library.once(file) for library in libraries])
        left = seen["unseen"]["all"]["no room"]
        found = sum(path.startswith("copy") for path in left)
        print(seen["fd"]["pread"]["calls"] + found, found > 0)


def cycles():
    """Hook and unhook many times while other threads call; then wait twice for who looks."""
    null, is_over, made = os.open("/dev/null", os.O_WRONLY), threading.Event(), [0] * 3

    def some(at):
        while not is_over.is_set():
            os.write(null, b"1")
            made[at] += 1

    each = [threading.Thread(target=some, args=(at,)) for at in range(3)]
    for thread in each:
        thread.start()
    for _ in range(40):
        seen = traced(lambda: [os.getcwd(), os.read(0, 0), os.read(0, 0)])
        assert seen["fd"]["read"]["calls"] == 2, seen
        assert "fd" not in seen.get("unseen", {}), seen
    is_over.set()
    for thread in each:
        thread.join()
    print(all(made))
    for _ in range(2):
        print("look", flush=True)
        sys.stdin.readline()
        traced(lambda: None)
    meter = soscope_mem._trace.meter()
    meter.open()
    print("look", flush=True)
    sys.stdin.readline()
    meter.close()
    print("look", flush=True)
    sys.stdin.readline()


def postgres():
    library, words = ctypes.CDLL(WORDS[0]), WORDS[1].encode()
    said = []
    first = traced(lambda: said.append(library.run(words)))
    print(json.dumps([first["postgres"], first["fd"], said]))


globals()[WAY]()
