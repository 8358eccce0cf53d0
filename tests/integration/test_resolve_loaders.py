# SPDX-License-Identifier: Apache-2.0
"""Other C libraries, and programs of 32 bits: where symbols are, as they say themselves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from soscope.live.process import Process
from tests.integration.loaders import SUITES, Loader
from tests.support.machines.tools import not_here
from tests.support.processes.resolving import LIBRARY, SOURCES, Teller, made, teller
from tests.support.truth.asking import asked


@pytest.fixture(scope="module", params=SUITES)
def loader(request: pytest.FixtureRequest) -> Loader:
    return Loader(request.param)


def linking(loader: Loader) -> list[str]:
    """Return the flags for what this loader is to run: linked with the oldest library."""
    oldest = Loader(next(iter(SUITES)))
    names = ("libc.so.6", "libgcc_s.so.1", "libdl.so.2", "libpthread.so.0")
    return [
        "-nodefaultlibs",
        "-U_FORTIFY_SOURCE",
        *(str(oldest.library(name)) for name in names),
        *("-l:libc_nonshared.a", "-lgcc", "-Wl,--as-needed", str(oldest.interpreter)),
        *(f"-Wl,-rpath-link,{place}" for place in oldest.folders),
        *("-Wl,--disable-new-dtags", f"-Wl,-rpath,{':'.join(map(str, loader.folders))}"),
    ]


@pytest.fixture
def running(loader: Loader) -> Iterator[Teller]:
    interpreter = f"-Wl,--dynamic-linker={loader.interpreter}"
    program = teller("-pie", "-fPIE", *linking(loader), interpreter)
    with Teller(program) as one:
        yield one


def test_the_scope_versions_and_ifuncs(running: Teller) -> None:
    for name in (
        *("malloc", "puts", "stdout", "environ", "nosuch", "strlen", "memcpy"),
        *("pthread_create", "dlopen", "errno"),
    ):
        running.check(name, running.tell("default", name))
    for name in ("time", "gettimeofday"):  # only their own slot would say what they are
        answer = running.process.answer(name)
        asked(running.pid, name, running.tell("default", name), answer.addr)
        assert answer.addr in (None, running.tell("default", name))
        assert answer.status in ("ok", "unbound")
    for name, version in (("memcpy", "GLIBC_2.2.5"), ("memcpy", "GLIBC_2.14")):
        running.check(f"{name}@{version}", running.tell("default", name, version))
    assert not running.process.picture.scope_is_guessed


def test_an_ifunc_is_known_when_somebody_is_bound_to_it(running: Teller, loader: Loader) -> None:
    """No slot of libc's own tells of these two: their importers' do."""
    text = """
        #include <sys/time.h>
        #include <time.h>
        int ask(void) { struct timeval now; return gettimeofday(&now, 0) + (time(0) > 0); }"""
    library = made("libtimes.so", text, *LIBRARY, *linking(loader), "-Wl,-z,now")
    running.open(library)
    for name in ("time", "gettimeofday"):
        truth = running.tell("default", name)
        assert running.check(name, truth).status == "ok"
        running.check(name, truth, seen_from="libtimes.so")


def test_thread_local_variables(running: Teller, loader: Loader) -> None:
    text = "__thread int local = 3; void *ask(void) { return &local; }"
    library = made("liblocal.so", text, *LIBRARY, *linking(loader))
    running.check("own_tls", running.tell("own", "own_tls"))
    tid, truth = running.in_thread("own-in-thread", "own_tls")
    running.check("own_tls", truth, thread=tid)
    handle = running.open(library)
    assert running.check("local", 0).status == "not-allocated"
    running.check("local", running.tell("call", handle, "ask"))
    tid, truth = running.in_thread("call-in-thread", handle, "ask")
    running.check("local", truth, thread=tid)


def test_namespaces_local_libraries_and_unique_symbols(running: Teller, loader: Loader) -> None:
    text = "int here = 1; void *ask(void) { return &here; }"
    library = made("libspace.so", text, *LIBRARY, *linking(loader))
    first = running.open(library)
    assert running.check("here", running.tell("call", first, "ask")).rule == "handle"
    for number in (1, 2):
        handle = running.say("space", library)
        assert handle.isdecimal(), handle
        running.check("here", running.tell("call", handle, "ask"), namespace=number)
        picture = running.process.picture
        running.in_thread("own-in-thread", "own_tls")
        assert running.process.picture is picture  # no image has come
    assert running.process.answer("libspace.so!here").status == "ambiguous"
    assert running.say("close", "1") == "0"
    running.check("here", 0, namespace=1)
    running.check("here", running.tell("call", "2", "ask"), namespace=2)
    running.say("space", library)
    running.check("here", running.tell("call", "3", "ask"), namespace=1)
    running.check("here", running.tell("call", first, "ask"))
    running.check("malloc", running.tell("default", "malloc"))


THIRTY_TWO = ("-m32", "-nostdlib", "-static-libgcc", "-fno-stack-protector", "-fno-builtin")


@pytest.mark.parametrize(
    "flags", [("-static-pie", "-fPIE"), ("-no-pie", "-fno-pie", "-static")], ids=lambda one: one[0]
)
def test_programs_of_32_bits(flags: tuple[str, ...]) -> None:
    """Without a C library: there may be none of 32 bits here."""
    program = made("small", (SOURCES / "small.c").read_text(), *THIRTY_TWO, *flags)
    try:
        running = Teller(program)
    except OSError as error:
        not_here(f"no programs of 32 bits: {error}")
    with running:
        rows = [running.say("next").split() for _ in range(4)]
        with Process(running.pid) as process:
            assert process.space.bits == 32
            for name, addr in rows:
                answer = process.resolve(name)
                assert answer.addr == int(addr, 16), (answer, answer.why)
                place = process.locate(int(addr, 16))
                assert (place.symbol, place.offset) == (name, 0)
            value = process.resolve("exported")
            assert value.addr is not None
            assert process.read(value.addr, 4) == (42).to_bytes(4, "little")


def test_a_program_of_32_bits_with_a_loader_of_its_own() -> None:
    """The program names a loader of 32 bits without a C library; libraries are its own."""
    loader = made("ld-small.so", (SOURCES / "small.c").read_text(), *THIRTY_TWO, "-shared", "-fPIC")
    program = made(
        "dynamic",
        "int exported = 1; int main_code(void) { return 2; }",
        *("-m32", "-nostdlib", "-pie", "-fPIE", "-rdynamic"),
        *(f"-Wl,--dynamic-linker={loader}", "-Wl,-e,main_code"),
    )
    try:
        running = Teller(program)
    except OSError as error:
        not_here(f"no programs of 32 bits: {error}")
    with running:
        rows = [running.say("next").split() for _ in range(4)]
        name, addr = rows[3]  # nobody has relocated it: its table of addresses is empty
        with Process(running.pid) as process:
            images = process.images
            assert [image.name for image in images[:2]] == ["dynamic", "ld-small.so"]
            answer = process.resolve(name, image="ld-small.so")
            assert (name, answer.addr) == ("private_code", int(addr, 16))
            mine = process.resolve("main_code")
            assert mine.image is images[0]
