# SPDX-License-Identifier: Apache-2.0
"""Names to addresses as a process itself has them: which definition, and where it is."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.processes.resolving import LIBRARY, Teller, made, teller
from tests.support.processes.run import soscope
from tests.support.truth.asking import asked

PLAIN = ("-pie", "-fPIE")


@pytest.fixture
def plain() -> Iterator[Teller]:
    with Teller(teller(*PLAIN)) as running:
        yield running


# ---- the scope ----


def test_what_dlsym_says(plain: Teller) -> None:
    for name in ("malloc", "puts", "environ", "stdout", "_IO_2_1_stdout_", "sys_nerr", "dlsym"):
        plain.check(name, plain.tell("default", name))
    plain.check("nosuchname", 0)
    assert plain.check("malloc", plain.tell("default", "malloc")).rule == "dlsym"


def test_versions_hidden_versions_and_the_default(plain: Teller) -> None:
    for name, version in (
        ("memcpy", "GLIBC_2.2.5"),
        ("memcpy", "GLIBC_2.14"),
        ("pthread_cond_wait", "GLIBC_2.2.5"),
        ("pthread_cond_wait", "GLIBC_2.3.2"),
        ("__malloc_hook", "GLIBC_2.2.5"),
        ("malloc", "GLIBC_9"),
    ):
        plain.check(f"{name}@{version}", plain.tell("default", name, version))
    answer = plain.check("__malloc_hook", plain.tell("default", "__malloc_hook"))
    assert [one.version for one in answer.candidates] == ["GLIBC_2.2.5"]


VERSIONED = """
int old_way(void) { return 1; }
int new_way(void) { return 2; }
int only_way(void) { return 3; }
int plain_way(void) { return 4; }
__asm__(".symver old_way, way@V1");
__asm__(".symver new_way, way@@V2");
__asm__(".symver only_way, rare@V1");
"""
VERSIONS = "V1 { global: plain_way; local: old_way; new_way; only_way; }; V2 { } V1;"


def test_versions_of_our_own() -> None:
    for style in ("gnu", "sysv", "both"):
        library = made(
            "libversions.so",
            VERSIONED,
            *(*LIBRARY, "-Wl,--version-script=v.map", f"-Wl,--hash-style={style}"),
            files={"v.map": VERSIONS},
        )
        with Teller(teller(*PLAIN)) as running:
            running.open(library, "now,global")
            for name, version in (
                *(("way", None), ("way", "V1"), ("way", "V2"), ("rare", "V1"), ("rare", None)),
                *(("plain_way", None), ("plain_way", "V1"), ("plain_way", "V2")),
            ):
                words = [name, version] if version else [name]
                query = "@".join(words)
                running.check(query, running.tell("default", *words))


def test_the_first_definition_in_breadth_first_order_wins() -> None:
    deep = made("libdeep.so", "int twice(void) { return 1; } int below;", *LIBRARY)
    left = made("libleft.so", "int left;", *LIBRARY, "-Wl,--no-as-needed", links=[deep])
    right = made("libright.so", "int twice(void) { return 2; } int right;", *LIBRARY)
    more = "extern int left, right; static const void *own_more(const char *n) "
    more += "{ return n[0] == 'l' ? &left : &right; }"
    program = teller(*PLAIN, "-Wl,--no-as-needed", more=more, links=[left, right])
    with Teller(program) as running:
        answer = running.check("twice", running.tell("default", "twice"))
        assert answer.image is not None
        assert answer.image.name == "libright.so"
        every = running.process.answer("twice", lists=True).candidates
        assert [one.image.name for one in every if one.image] == ["libright.so", "libdeep.so"]
        assert [one.wins for one in every] == [True, False]
        running.check("libdeep.so!twice", every[1].addr or 0)
        running.check("libleft.so!twice", every[1].addr or 0)
        running.check("below", running.tell("default", "below"))


def test_interposition_by_preload_and_by_the_program() -> None:
    text = "void *malloc(unsigned long n) { static char m[1 << 20]; static long at; "
    text += "void *p = m + at; at += (n + 15) & -16L; return p; } void free(void *p) {}"
    mine = made("libmine.so", text, *LIBRARY)
    with Teller(teller(*PLAIN), env={"LD_PRELOAD": str(mine)}) as running:
        answer = running.check("malloc", running.tell("default", "malloc"))
        assert answer.image is not None
        assert answer.image.name == "libmine.so"
        libc = running.open("libc.so.6", "now,noload")
        running.check("libc.so.6!malloc", running.tell("handle", libc, "malloc"))
    more = "int getppid(void) { return 0; } "
    more += "static const void *own_more(const char *n) { return (void *)getppid; }"
    with Teller(teller(*PLAIN, "-rdynamic", "-fno-builtin", more=more)) as running:
        truth = running.tell("default", "getppid")
        running.check("getppid", truth)
        running.check("teller!getppid", truth)
        assert truth == running.tell("own", "getppid")


def test_weak_is_as_strong_as_global() -> None:
    weak = made("libweak.so", "__attribute__((weak)) int both = 1;", *LIBRARY)
    strong = made("libstrong.so", "int both = 2;", *LIBRARY)
    with Teller(teller(*PLAIN)) as running:
        running.open(weak, "now,global")
        running.open(strong, "now,global")
        answer = running.check("both", running.tell("default", "both"))
        assert answer.image is not None
        assert answer.image.name == "libweak.so"


def test_symbolic_and_protected_definitions_are_looked_up_as_others() -> None:
    text = '__attribute__((visibility("protected"))) int mine(void) { return 1; }'
    text += "int theirs(void) { return 2; } void *ask(void) { return (void *)theirs; }"
    one = made("libone.so", text, *LIBRARY, "-Wl,-Bsymbolic")
    two = made("libtwo.so", text.replace("1;", "3;").replace("ask", "beg"), *LIBRARY)
    with Teller(teller(*PLAIN)) as running:
        first = running.open(two, "now,global")
        second = running.open(one, "now,global")
        for name in ("mine", "theirs"):
            running.check(name, running.tell("default", name))
            running.check(f"libone.so!{name}", running.tell("handle", second, name))
            running.check(f"libtwo.so!{name}", running.tell("handle", first, name))
        # There is no slot: the link editor has bound it.
        assert running.tell("call", second, "ask") != running.tell("default", "theirs")
        answer = running.check("theirs", 0, seen_from="libone.so")
        assert answer.status == "none"
        # it says what to ask instead, and that is right
        assert "it defines it" in answer.why[-1]
        instead = answer.why[-1].split("'")[1]
        running.check(instead, running.tell("call", second, "ask"))
        answer = running.check("malloc", 0, seen_from="libone.so")
        assert answer.why[-1] == "libone.so has no slot for it: it does not import it"


def test_a_hidden_symbol_has_no_slot_and_that_is_said() -> None:
    text = "int unseen(void) { return 1; } void *ask(void) { return (void *)unseen; }"
    hidden = '__attribute__((visibility("hidden"), noinline)) '
    library = made("libhides.so", hidden + text, *LIBRARY)
    with Teller(teller(*PLAIN)) as running:
        handle = running.open(library)
        answer = running.check("unseen", 0, seen_from="libhides.so")
        assert "one of its own static symbols; 'libhides.so!unseen'" in answer.why[-1]
        running.check("libhides.so!unseen", running.tell("call", handle, "ask"))


def test_hidden_symbols_of_a_library_are_static() -> None:
    text = "static int inner(void) { return 1; } void *ask(void) { return (void *)inner; }"
    library = made("libinner.so", text, *LIBRARY)
    with Teller(teller(*PLAIN)) as running:
        handle = running.open(library)
        answer = running.check("inner", running.tell("call", handle, "ask"))
        assert answer.rule == "static"
        running.check("libinner.so!inner", running.tell("call", handle, "ask"))
        other = made("libother.so", text.replace("1;", "2;"), *LIBRARY)
        running.open(other)
        answer = running.check("inner", 0)
        assert answer.status == "ambiguous"
        assert len(answer.candidates) == 2
        assert running.tell("call", handle, "ask") in [one.addr for one in answer.candidates]


def test_the_programs_own_static_symbol_and_its_exported_twin() -> None:
    library = made("libtwin.so", "int own_private(void) { return 1; }", *LIBRARY)
    with Teller(teller(*PLAIN)) as running:
        running.check("own_private", running.tell("own", "own_private"))
        running.check("own_data", running.tell("own", "own_data"))
        running.open(library, "now,global")
        answer = running.check("own_private", running.tell("default", "own_private"))
        assert answer.rule == "dlsym"
        answer = running.check("teller!own_private", running.tell("own", "own_private"))
        assert answer.rule == "static"
        running.check("nowhere", running.tell("own", "nowhere"))


# ---- local, global, deepbind, namespaces, dlclose ----


def test_local_libraries_are_ambiguous_together() -> None:
    text = "int plug(void) { return %d; } void *ask(void) { return (void *)plug; }"
    a, b = (made(f"libplug{n}.so", text % n, *LIBRARY) for n in (1, 2))
    with Teller(teller(*PLAIN)) as running:
        first = running.open(a)
        one = running.check("plug", running.tell("handle", first, "plug"))
        assert one.rule == "handle"
        second = running.open(b)
        assert running.tell("default", "plug") == 0
        both = running.check("plug", 0)
        assert both.status == "ambiguous"
        assert [one.addr for one in both.candidates] == [
            running.tell("handle", handle, "plug") for handle in (first, second)
        ]
        running.check("libplug2.so!plug", running.tell("handle", second, "plug"))
        running.check(f"{a}!plug", running.tell("handle", first, "plug"))
        running.open(b, "now,global,noload")  # promoted later
        promoted = running.check("plug", running.tell("default", "plug"))
        assert promoted.image is not None
        assert promoted.image.name == "libplug2.so"
        assert running.say("close", first) == "0"
        assert running.check("libplug1.so!plug", 0).status == "none"


def test_deepbind_shows_in_the_slot() -> None:
    need = made("libneed.so", "int shared(void) { return 1; }", *LIBRARY)
    text = "int shared(void); void *ask(void) { return (void *)shared; } "
    text += "int call(void) { return shared(); }"
    deep = made("libdeepbind.so", text, *LIBRARY, links=[need])
    first = made("libfirst.so", "int shared(void) { return 2; }", *LIBRARY)
    with Teller(teller(*PLAIN)) as running:
        running.open(first, "now,global")
        handle = running.open(deep, "now,deepbind")
        running.check("shared", running.tell("default", "shared"))
        running.check("shared", running.tell("call", handle, "ask"), seen_from="libdeepbind.so")
        assert running.tell("call", handle, "ask") != running.tell("default", "shared")


def test_a_slot_that_nobody_has_called_through_is_unbound() -> None:
    text = "int puts(const char *); int call(void) { return puts(0); }"
    library = made("liblazy.so", text, *LIBRARY, "-Wl,-z,lazy", "-fno-builtin")
    with Teller(teller(*PLAIN)) as running:
        running.open(library, "lazy")
        answer = running.check("puts", 0, seen_from="liblazy.so")
        assert answer.status == "unbound"


def test_namespaces() -> None:
    text = "int here = 1; void *ask(void) { return &here; } "
    text += '#include <dlfcn.h>\n void *lib(void) { return dlsym(RTLD_DEFAULT, "malloc"); }'
    library = made("libspace.so", text.replace("#", "\n#"), *LIBRARY, "-D_GNU_SOURCE")
    with Teller(teller(*PLAIN)) as running:
        first = running.open(library)
        spaces = [running.say("space", library) for _ in range(2)]
        for number, handle in enumerate(spaces, 1):
            running.check("here", running.tell("call", handle, "ask"), namespace=number)
            running.check("malloc", running.tell("call", handle, "lib"), namespace=number)
            running.check("libc.so.6!malloc", running.tell("call", handle, "lib"), namespace=number)
        running.check("malloc", running.tell("default", "malloc"))
        running.check("here", running.tell("call", first, "ask"))
        running.check("here", 0, namespace=7)
        assert running.process.answer("libspace.so!here").status == "ambiguous"


def test_a_namespace_that_was_closed_leaves_the_numbers_of_others() -> None:
    need = made("libbelow.so", "int far = 1;", *LIBRARY)
    text = "int here = 1; void *ask(void) { return &here; } extern int far; "
    text += "int get(void) { return far; }"
    library = made("libspace.so", text, *LIBRARY, links=[need])
    with Teller(teller(*PLAIN)) as running:
        first, second = (running.say("space", library) for _ in range(2))
        truth = running.tell("call", second, "ask")
        assert running.say("close", first) == "0"
        running.check("here", truth, namespace=2)
        running.check("here", 0, namespace=1)
        running.check("libspace.so!here", truth)
        running.check("libspace.so!far", running.tell("handle", second, "far"))
        running.check("far", running.tell("handle", second, "far"), seen_from="libspace.so")
        assert running.process.bindings(image="libspace.so", symbol="far")[0].state == "bound"


def test_threads_that_come_do_not_change_the_picture(plain: Teller) -> None:
    plain.check("malloc", plain.tell("default", "malloc"))
    before = plain.process.picture
    for _ in range(3):
        plain.in_thread("own-in-thread", "own_tls")
        assert plain.process.picture is before


def test_what_was_closed_is_gone_and_what_comes_in_its_place_is_found() -> None:
    one = made("libcome.so", "int value = 1; int pad[3];", *LIBRARY)
    two = made("libcome.so", "int pad[3]; int value = 2;", *LIBRARY)
    with Teller(teller(*PLAIN)) as running:
        for round_ in range(6):
            handle = running.open((one, two)[round_ % 2], "now,global")
            # dlsym(RTLD_DEFAULT, ...) would keep it from being closed
            running.check("value", running.tell("handle", handle, "value"))
            running.check("libcome.so!pad", running.tell("handle", handle, "pad"))
            assert running.say("close", handle) == "0"
            running.check("value", 0)


# ---- kinds of symbols ----

UNIQUE = """
struct Once { static int &here() { static int value; return value; } };
extern "C" void *ask() { return &Once::here(); }
inline int shared_by_all;
extern "C" void *ask_inline() { return &shared_by_all; }
"""


def test_unique_symbols_are_one_for_all() -> None:
    a, b = (made(f"libonce{n}.so", f"// {n}\n{UNIQUE}", *LIBRARY, compiler="g++") for n in (1, 2))
    name = "_ZZN4Once4hereEvE5value"
    with Teller(teller(*PLAIN)) as running:
        first, second = running.open(a), running.open(b)
        truth = running.tell("call", second, "ask")
        assert truth == running.tell("call", first, "ask")
        running.check(f"libonce2.so!{name}", running.tell("handle", second, name))
        running.check(f"libonce1.so!{name}", truth)
        running.check(name, truth)
        running.check("shared_by_all", running.tell("call", second, "ask_inline"))


def test_absolute_symbols_have_no_load_bias() -> None:
    library = made(
        "libabs.so", "int x;", *LIBRARY, "-Wl,--defsym,fixed=0x1234", "-Wl,--defsym,nought=0"
    )
    with Teller(teller(*PLAIN)) as running:
        running.open(library, "now,global")
        assert running.tell("default", "fixed") == 0x1234
        assert running.check("fixed", 0x1234).kind == "absolute"
        assert running.check("nought", 0).status == "ok"


def test_copy_relocations_and_the_programs_own_stubs() -> None:
    more = "#include <unistd.h>\n extern int shared_data; int shared_function(void); "
    more += "static const void *own_more(const char *n) { return n[7] == 'd' ? (void *)"
    more += "&shared_data : n[7] == 'f' ? (void *)shared_function : (void *)&environ; }"
    text = "int shared_data = 7; int shared_function(void) { return 1; } "
    text += "void *ask(void) { return &shared_data; } void *beg(void) { return shared_function; }"
    library = made("libshared.so", text, *LIBRARY)
    with Teller(teller("-no-pie", "-fno-pie", more=more, links=[library])) as running:
        handle = running.open(library)
        running.check("shared_data", running.tell("own", "shared_data"))
        running.check("shared_data", running.tell("call", handle, "ask"))
        truth = running.tell("own", "shared_function")
        assert truth == running.tell("default", "shared_function")
        answer = running.check("shared_function", truth)
        assert answer.image is not None
        assert (answer.kind, answer.image.name) == ("plt", "teller")
        theirs = running.tell("handle", handle, "shared_function")
        words = ["resolve", "-p", str(running.pid), "shared_function"]
        (said,) = soscope(*words).stdout.splitlines()
        assert said.endswith(f"  plt  dlsym  -> {theirs:#x} libshared.so")
        (result,) = json.loads(soscope(*words, "--json").stdout)["results"]
        assert result["provider"]["addr"] == hex(theirs)
        assert result["provider"]["image"] == "libshared.so"
        running.check("shared_function", running.tell("call", handle, "beg"))
        running.check("environ", running.tell("own", "environ"))
        running.check("libshared.so!shared_data", running.tell("handle", handle, "shared_data"))
        running.check(
            "libshared.so!shared_function", running.tell("handle", handle, "shared_function")
        )


IFUNC = """
static int one(void) { return 1; }
static int two(void) { return 2; }
static void *choose(void) { return two; }
int pick(void) __attribute__((ifunc("choose")));
int never(void) __attribute__((ifunc("choose")));
void *ask(void) { return (void *)pick; }
int use(void) { return pick() + one(); }
"""


def test_ifuncs_that_are_bound_and_one_that_is_not() -> None:
    library = made("libpick.so", IFUNC, *LIBRARY, "-fno-pic", "-fPIC")
    with Teller(teller(*PLAIN)) as running:
        handle = running.open(library, "now,global")
        truth = running.tell("call", handle, "ask")
        assert running.check("pick", truth).kind == "ifunc"
        answer = running.process.answer("never")
        asked(running.pid, "never", running.tell("default", "never"), answer.addr)
        assert answer.addr in (None, running.tell("default", "never"))
        assert answer.status in ("ok", "unbound")


def test_ifuncs_of_the_c_library(plain: Teller) -> None:
    for name in (
        *("memcpy", "memmove", "strlen", "strchr", "strcmp", "memset", "strcasecmp", "wcslen"),
        *("time", "gettimeofday", "strncpy", "memchr", "strstr", "rawmemchr"),
    ):
        plain.check(name, plain.tell("default", name))
    for name in ("time", "gettimeofday"):
        answer = plain.process.resolve(name)
        assert answer.addr is not None
        image = plain.process.picture.at(answer.addr)
        assert image is not None
        assert image.is_vdso


def test_the_vdso() -> None:
    with Teller(teller(*PLAIN)) as running:
        handle = running.say("open", "now,noload", "linux-vdso.so.1")
        for name in ("__vdso_gettimeofday", "__vdso_clock_gettime", "__vdso_getcpu"):
            truth = running.tell("handle", handle, name)
            assert running.check(name, truth).rule == "vdso"
            running.check(f"linux-vdso.so.1!{name}", truth)


# ---- thread-local variables ----

LOCAL = """
__thread int dynamic_local = 3;
__thread char big_local[5000];
static __thread long hidden_local;
void *ask(void) { return &dynamic_local; }
void *ask_hidden(void) { return &hidden_local; }
void *ask_errno(void) { extern int *__errno_location(void); return __errno_location(); }
"""


def test_thread_local_variables_of_the_program_and_its_libraries() -> None:
    library = made("liblocal.so", LOCAL, *LIBRARY)
    more = "extern __thread int dynamic_local; "
    more += "static const void *own_more(const char *n) { return &dynamic_local; }"
    with Teller(teller(*PLAIN, "-rdynamic", more=more, links=[library])) as running:
        for name in ("own_tls", "own_tls_public", "dynamic_local"):
            running.check(name, running.tell("own", name))
            for _ in range(2):
                tid, truth = running.in_thread("own-in-thread", name)
                assert running.check(name, truth, thread=tid).kind == "tls"
        running.check("own_tls_public", running.tell("default", "own_tls_public"))


def test_thread_local_variables_that_are_not_there_yet() -> None:
    library = made("liblocal.so", LOCAL, *LIBRARY)
    with Teller(teller(*PLAIN)) as running:
        idle, _ = running.in_thread("own-in-thread", "own_tls")
        handle = running.open(library, "now,global")
        assert running.check("dynamic_local", 0).status == "not-allocated"
        running.check("dynamic_local", running.tell("call", handle, "ask"))
        running.check("hidden_local", running.tell("call", handle, "ask_hidden"))
        assert running.check("dynamic_local", 0, thread=idle).status == "not-allocated"
        tid, truth = running.in_thread("call-in-thread", handle, "ask")
        running.check("dynamic_local", truth, thread=tid)
        assert running.say("close", handle) == "0"
        running.check("dynamic_local", 0)
        other = made("libother_local.so", LOCAL.replace("= 3", "= 4"), *LIBRARY)
        handle = running.open(other, "now,global")
        # its module has the number that the first one had; no thread has a block of it
        assert running.check("dynamic_local", 0).status == "not-allocated"
        assert running.check("dynamic_local", 0, thread=tid).status == "not-allocated"
        running.check("dynamic_local", running.tell("call", handle, "ask"))


def test_errno_of_each_thread() -> None:
    library = made("liblocal.so", LOCAL, *LIBRARY)
    with Teller(teller(*PLAIN)) as running:
        handle = running.open(library)
        tid, truth = running.in_thread("call-in-thread", handle, "ask_errno")
        running.check("errno", truth, thread=tid)
        running.check("errno", running.tell("call", handle, "ask_errno"))
        assert running.process.answer("errno", thread=1).addr is None


# ---- where the images are ----


@pytest.mark.every(6)
@pytest.mark.parametrize(
    "flags",
    [
        ("-Wl,-z,separate-code",),
        ("-Wl,-z,noseparate-code",),
        ("-Wl,-z,max-page-size=0x200000",),
        ("-Wl,-z,max-page-size=0x10000",),
        ("-Wl,-Ttext-segment=0x400000",),
        ("-Wl,-Ttext-segment=0x7123450000",),
        ("-fuse-ld=lld",),
        ("-fuse-ld=gold",),
        ("-fuse-ld=mold",),
        ("-Wl,--hash-style=sysv",),
        ("-Wl,--hash-style=gnu", "-s"),
        ("-Wl,-z,pack-relative-relocs",),
    ],
    ids=lambda flags: flags[-1],
)
def test_layouts(flags: tuple[str, ...]) -> None:
    text = "int data = 1; static int bss[99999]; int code(void) { return data; } "
    text += 'void *ask(void) { return bss; } const char text[] = "text";'
    library = made("liblayout.so", text, *LIBRARY, *flags)
    with Teller(teller(*PLAIN)) as running:
        handle = running.open(library)
        for name in ("data", "code", "text"):
            truth = running.tell("handle", handle, name)
            running.check(name, truth)
            place = running.process.locate(truth)
            assert (place.symbol, place.offset, place.status) == (name, 0, "ok"), place.why
        if "-s" not in flags:
            running.check("bss", running.tell("call", handle, "ask"))
        assert running.process.read(running.tell("handle", handle, "text"), 5) == b"text\0"


def test_programs_of_every_linkage() -> None:
    for flags in (("-no-pie", "-fno-pie"), ("-pie",), ("-no-pie", "-fno-pie", "-rdynamic")):
        with Teller(teller(*flags)) as running:
            for name in ("own_private", "own_public", "own_data", "own_tls"):
                running.check(name, running.tell("own", name))


@pytest.mark.covering(1)
@pytest.mark.parametrize("linkage", ["-static", "-static-pie"])
@pytest.mark.parametrize("compiler", ["gcc", "musl-gcc"])
def test_static_programs(linkage: str, compiler: str) -> None:
    program = teller(linkage, "-DWITHOUT_DL", compiler=compiler)
    with Teller(program) as running:
        for name in ("own_private", "own_public", "own_data", "own_tls", "own_tls_public"):
            running.check(name, running.tell("own", name))
        tid, truth = running.in_thread("own-in-thread", "own_tls")
        running.check("own_tls", truth, thread=tid)
        assert not running.process.picture.scope_is_guessed


def test_musl() -> None:
    text = "int here; __thread int local; void *ask(void) { return &local; } int abs_data = 3;"
    library = made("libmusl.so", text, *LIBRARY, compiler="musl-gcc")
    with Teller(teller("-pie", "-fPIE", "-rdynamic", compiler="musl-gcc")) as running:
        for name in ("malloc", "puts", "environ", "stdout", "own_public", "nosuch", "errno"):
            running.check(name, running.tell("default", name))
        for name in ("own_tls", "own_private", "own_tls_public"):
            running.check(name, running.tell("own", name))
        handle = running.open(library)
        assert running.tell("default", "here") == 0
        assert running.check("here", running.tell("handle", handle, "here")).rule == "handle"
        running.check("local", running.tell("call", handle, "ask"))
        tid, truth = running.in_thread("call-in-thread", handle, "ask")
        running.check("local", truth, thread=tid)
        running.open(library, "now,global")
        assert running.check("here", running.tell("default", "here")).rule == "dlsym"
