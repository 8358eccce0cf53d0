# SPDX-License-Identifier: Apache-2.0
"""Declarations, constants and structures are those of the system's headers."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from soscope.model.call import FLOATING, RECORD, VOID, WORD
from soscope.prototypes import build, load
from soscope.prototypes.parser import Declarations
from tests.support.machines import tools
from tests.support.time.patience import limit

DIRECTORY = Path(__file__).parents[3] / "prototypes"
HEADERS = """
aio alloca arpa/inet assert complex crypt ctype dirent dlfcn err errno error execinfo fcntl fenv
fnmatch ftw fts getopt glob gnu/libc-version grp iconv ifaddrs inttypes langinfo libgen libintl
link locale malloc math mntent net/if netdb netinet/in netinet/tcp poll pthread pty pwd regex
resolv sched search semaphore setjmp shadow signal spawn stdarg stdint stdio stdlib string strings
sys/auxv sys/epoll sys/eventfd sys/file sys/inotify sys/ioctl sys/mman sys/mount sys/param
sys/prctl sys/ptrace sys/random sys/resource sys/select sys/syscall sys/sendfile sys/socket sys/stat
sys/statfs sys/statvfs sys/sysinfo sys/time sys/timerfd sys/times sys/types sys/uio sys/utsname
sys/vfs sys/wait sys/xattr syslog termios threads time ucontext uchar unistd utime utmp wchar
wctype wordexp zlib linux/close_range linux/fs linux/sockios sys/signalfd netinet/udp
linux/netlink linux/if_packet linux/vm_sockets linux/tls
argp argz envz fmtmsg fstab gshadow mcheck monetary mqueue netinet/ether nl_types obstack re_comp
rpc/netdb sgtty stdio_ext sys/acct sys/fanotify sys/fsuid sys/gmon sys/ipc sys/klog sys/msg
sys/personality sys/pidfd sys/profil sys/quota sys/reboot sys/sem sys/shm sys/single_threaded
sys/swap sys/sysmacros sys/timeb sys/timex ulimit utmpx wait
sqlite3 curl/curl curl/mprintf libpq-fe lzma zstd zdict openssl/ssl openssl/err openssl/evp
openssl/bio openssl/x509 openssl/x509v3 openssl/pem openssl/rand openssl/sha openssl/hmac
openssl/md5 Python
""".split()
# Not in every glibc: newer than some that are supported, older, or musl's alone.
ELSEWHERE = re.compile(
    r"__isoc23_\w+|strl(cpy|cat)|arc4random\w*|_dl_find_object|closefrom|str.*_np"
    r"|__libc_dlopen_mode|atexit|at_quick_exit|fpurge"
)
# Headers that lie elsewhere; of CPython's the stable ABI alone.
PYTHON = max(Path("/usr/include").glob("python3.*"), default=Path("/usr/include"), key=str)
FLAGS = ("-I/usr/include/postgresql", f"-I{PYTHON}", "-DPy_LIMITED_API=0x03090000")
LIBRARIES = ("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libz.so.1")
MORE_LIBRARIES = (
    "libstdc++.so.6", "ld-linux-x86-64.so.2", "libcrypt.so.1", "libgcc_s.so.1", "libsqlite3.so.0",
    "libcurl.so.4", "libpq.so.5", "liblzma.so.5", "libzstd.so.1", "libssl.so.3", "libcrypto.so.3",
    f"lib{PYTHON.name}.so.1.0",
)  # fmt: skip


def _compiler() -> str:
    return tools.need("gcc", "/usr/include/stdio.h", "/usr/include/zlib.h")


def _includes() -> str:
    lines = ["#define _GNU_SOURCE"]
    lines += [
        f"#if __has_include(<{name}.h>)\n#include <{name}.h>\n#endif" for name in sorted(HEADERS)
    ]
    # <linux/...> last: some of it collides with what libc declares.
    lines.sort(key=lambda line: "linux/" in line)
    return "\n".join(lines) + "\n"


def _assert_compiles(tmp_path: Path, source: str, *options: str) -> None:
    file = tmp_path / "check.c"
    file.write_text(source)
    command = [_compiler(), *FLAGS, "-fsyntax-only", "-std=gnu17", "-w", "-fno-builtin", *options]
    done = subprocess.run(
        [*command, f"-iquote{DIRECTORY}", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[:4000]


@pytest.fixture(scope="module")
def declarations() -> Declarations:
    found = build.read_declarations(str(DIRECTORY))
    # what the headers have is the newest version
    found.functions = [each for each in found.functions if "SYMBOL_VERSION" not in each.words]
    return found


def _names(declarations: Declarations) -> list[str]:
    names = []
    for function in declarations.functions:
        names += [function.name, *(one for one in function.words.get("ALSO", []) if one != ",")]
    return names


def _declared(declarations: Declarations) -> list[str]:
    """Return the lines of a C file that has all declarations, behind the system's headers."""
    lines = [_includes(), '#include "annotations.h"', '#include "types.h"']
    lines += [f"#undef {name}" for name in _names(declarations)]
    files = sorted(path.name for path in DIRECTORY.glob("*.h"))
    return lines + [
        f'#include "{name}"'
        for name in files
        if name not in ("annotations.h", "types.h", "enums.h", "structs.h", "versions.h")
    ]


@pytest.mark.parametrize("fortify", [False, True])
def test_every_declaration_is_the_one_of_the_system(
    declarations: Declarations, tmp_path: Path, fortify: bool
) -> None:
    lines = _declared(declarations)
    for function in declarations.functions:
        for alias in function.words.get("ALSO", []):
            if alias != ",":
                lines.append(f"extern __typeof__({function.name}) {alias};")
    options = ["-O2", "-D_FORTIFY_SOURCE=2"] if fortify else []
    _assert_compiles(tmp_path, "\n".join(lines), *options)


# What gdb says of a pointer to each function: code and size of its result and its arguments.
SAYING = """
import json
for name in open("names").read().split():
    of = gdb.parse_and_eval("leads_to_" + name).type.target()
    types = [of.target(), *(field.type for field in of.fields())]
    types = [one.strip_typedefs() for one in types]
    print(json.dumps([name, "...)" in str(of), [[one.code, one.sizeof] for one in types]]))
codes = "INT ENUM BOOL CHAR PTR FLT STRUCT VOID".split()
print(json.dumps({getattr(gdb, "TYPE_CODE_" + code): code for code in codes}))
"""
KINDS = {"FLT": FLOATING, "STRUCT": RECORD, "VOID": VOID}


@pytest.mark.slow
def test_signatures_are_those_of_the_headers(declarations: Declarations, tmp_path: Path) -> None:
    names = [function.name for function in declarations.functions]
    lines = _declared(declarations) + [f"__typeof__({name}) *leads_to_{name};" for name in names]
    (tmp_path / "pointers.c").write_text("\n".join(lines))
    (tmp_path / "names").write_text("\n".join(names))
    (tmp_path / "saying.py").write_text(SAYING)
    compiler = [_compiler(), *FLAGS, "-g", "-c", "-std=gnu17", "-w", "-fno-builtin"]
    words = [*compiler, f"-iquote{DIRECTORY}", "pointers.c"]
    subprocess.run(words, cwd=tmp_path, check=True, timeout=limit(120))
    debugger = [tools.need("gdb"), "-batch", "-nx", "-x", "saying.py", "pointers.o"]
    said = subprocess.run(
        debugger, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=limit(120)
    ).stdout.splitlines()
    codes = {int(number): code for number, code in json.loads(said.pop()).items()}
    assert len(said) == len(names) > 700
    known = load()
    for name, is_variadic, types in map(json.loads, said):
        signature = known.signature(name)
        assert signature is not None
        assert signature.is_known, name
        assert signature.is_variadic == is_variadic, name
        mine = [
            (of.kind, of.size if of.kind != VOID else 1)
            for of in (signature.result, *(signature.arguments or ()))
        ]
        assert mine == [(KINDS.get(codes[code], WORD), size) for code, size in types], name


def test_a_wrong_declaration_would_be_found(tmp_path: Path) -> None:
    source = _includes() + '#include "annotations.h"\nint strlen(const char *s FOLLOW);\n'
    with pytest.raises(AssertionError, match="strlen"):
        _assert_compiles(tmp_path, source)


def test_every_constant_has_the_value_of_the_headers(tmp_path: Path) -> None:
    sets = build.read_constants(str(DIRECTORY))
    # Names that headers keep to themselves, or that older ones do not have.
    private = {"__O_TMPFILE", "O_LARGEFILE", "FICLONE", "BLKGETSIZE64", "SOL_NETLINK", "CSIGNAL"}
    lines = [_includes()]
    enumerators = _enumerators(tmp_path, set(sets.values) - private)
    for name, value in sets.values.items():
        if name in private:
            continue
        check = f"_Static_assert((long long)({name}) == {value}LL || (long long)({name}) == "
        check += f'{value & 0xFFFFFFFF}LL, "{name}");'
        lines.append(check if name in enumerators else f"#ifdef {name}\n{check}\n#endif")
    _assert_compiles(tmp_path, "\n".join(lines))


def _enumerators(tmp_path: Path, names: set[str]) -> set[str]:
    """Find names that are enumerators and not macros."""
    file = tmp_path / "enumerators.c"
    file.write_text(_includes())
    command = [_compiler(), *FLAGS, "-E", "-P", "-w", str(file)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    bodies = re.findall(r"enum\s*\w*\s*\{(.*?)\}", text, re.DOTALL)
    found = {name for body in bodies for name in re.findall(r"[A-Za-z_]\w*", body)}
    return found & names


def test_nearly_every_constant_is_in_the_headers(tmp_path: Path) -> None:
    sets = build.read_constants(str(DIRECTORY))
    lines = [_includes()]
    enumerators = _enumerators(tmp_path, set(sets.values))
    lines += [
        f"#ifndef {name}\nmissing {name}\n#endif" for name in sets.values if name not in enumerators
    ]
    file = tmp_path / "missing.c"
    file.write_text("\n".join(lines))
    command = [_compiler(), *FLAGS, "-E", "-P", "-w", str(file)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    missing = re.findall(r"^missing (\w+)", text, re.MULTILINE)
    assert len(missing) < 20, missing


# what is declared of them is shorter, or they have another name
BEGINNINGS = ("rusage", "sigaction", "sigevent", "siginfo")
NAMES = {"sigval": "union sigval", "epoll_data": "union epoll_data", "siginfo": "siginfo_t"}


def test_structures_lie_as_in_the_headers(declarations: Declarations, tmp_path: Path) -> None:
    lines = [_includes(), "#ifndef sigev_notify_thread_id"]
    lines += ["#define sigev_notify_thread_id _sigev_un._tid", "#endif"]
    for struct in declarations.structs.values():
        if struct.name[:1] == "<" or " in " in struct.name:
            continue  # a part of another one
        name = NAMES.get(struct.name, f"struct {struct.name}")
        same = ">=" if struct.name in BEGINNINGS else "=="
        lines.append(f'_Static_assert(sizeof({name}) {same} {struct.size}, "{name}");')
        lines += [
            f"_Static_assert(__builtin_offsetof({name}, {field.name}) == {field.offset} && "
            f"sizeof((({name} *)0)->{field.name}) == {field.type.size}, "
            f'"{name} {field.name}");'
            for field in struct.fields
        ]
    _assert_compiles(tmp_path, "\n".join(lines))


def test_every_name_is_exported_by_a_library(declarations: Declarations) -> None:
    exported: set[str] = set()
    nm = tools.need("nm")
    directories = ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64")
    for library in LIBRARIES + MORE_LIBRARIES:
        path = next((p for d in directories if (p := Path(d) / library).exists()), None)
        if path is not None:
            command = [nm, "-D", "--defined-only", str(path)]
            text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            exported |= {line.split()[-1].split("@")[0] for line in text.splitlines()}
    if "gnu_get_libc_version" not in exported:
        tools.not_here("libc is not glibc")
    missing = [
        name
        for name in _names(declarations)
        if name not in exported and not ELSEWHERE.fullmatch(name)
    ]
    assert missing == []
