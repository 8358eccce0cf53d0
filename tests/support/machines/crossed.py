# SPDX-License-Identifier: Apache-2.0
"""Programs for other processors that count their own calls, and soscope's view of those."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from tests.support.machines.tools import need
from tests.support.processes.run import run, soscope
from tests.support.targets.build import made_in

_HERE = Path(__file__).parent
TRIPLETS = {
    "ppc64le": "powerpc64le-linux-gnu",
    "aarch64": "aarch64-linux-gnu",
    "riscv64": "riscv64-linux-gnu",
    "s390x": "s390x-linux-gnu",
    "arm": "arm-linux-gnueabihf",
    "i386": "i686-linux-gnu",
    "ppc": "powerpc-linux-gnu",
    "ppc64": "powerpc64-linux-gnu",
    "mips": "mips-linux-gnu",
    "mipsel": "mipsel-linux-gnu",
}

NAMES = ("add", "eight", "half", "again", "callback", "text")  # of the library's functions
SECURE = ("-msecure-plt", "-Wl,--secure-plt")  # on 32-bit PowerPC, as GNU's compiler does


def compiler_of(arch: str) -> list[str]:
    """Return how clang compiles for a machine; it needs the files of its cross packages."""
    need(f"qemu-{arch}")
    need(f"/usr/{TRIPLETS[arch]}/include/stdio.h")
    # one compiler for all: those of GNU take each other's place on Debian
    here = f"-B/usr/{TRIPLETS[arch]}/lib"  # not what this machine has for 32 bits
    return [need("clang"), f"--target={TRIPLETS[arch]}", here, "-O1", "-fuse-ld=bfd"]


def program(
    folder: Path,
    arch: str,
    *words: str,
    unseen: bool = False,
    source: str = "crossed",
    own: str = "",
) -> Path:
    """Build the program, its library and its plug-in, linked with `words`.

    `unseen`: the program's own calls go through words that are addresses as well; on 32-bit
    PowerPC its slots are code. `source` is the program's, `own` an option of it alone.
    """
    compiler = compiler_of(arch)
    secure = SECURE if arch == "ppc" else ()
    for name, other in (("calls", "crossed_lib.c"), ("plugin", "crossed_plugin.c")):
        library = [*compiler, "-shared", "-fPIC", "-o", f"lib{name}.so"]
        made_in(folder, *library, _HERE / other, *words, *secure)
    alone: tuple[str, ...] = ("-fno-plt",) if unseen and not secure else () if unseen else secure
    alone += (own,) if own else ()
    search = ["-L.", "-Wl,--no-as-needed", "-lcalls", "-Wl,-rpath,$ORIGIN"]
    options = ["-fno-builtin", "-pthread", "-o", source]
    made_in(folder, *compiler, *options, _HERE / f"{source}.c", *search, *words, *alone)
    return folder / source


def built_alone(folder: Path, arch: str, source: str, *words: str) -> Path:
    """Build a program of one file beside this one, linked with `words`."""
    secure = SECURE if arch == "ppc" else ()
    path = folder / f"{source}-{arch}"
    made_in(folder, *compiler_of(arch), *secure, *words, "-o", path, _HERE / f"{source}.c")
    return path


def threaded(folder: Path, arch: str) -> Path:
    """Build the program whose threads call a library at once, and that."""
    compiler = compiler_of(arch)
    library = [*compiler, "-shared", "-fPIC", "-o", "libtogether.so"]
    made_in(folder, *library, _HERE / "crossed_threads_lib.c")
    search = ["-L.", "-Wl,--no-as-needed", "-ltogether", "-Wl,-rpath,$ORIGIN"]
    options = ["-fno-builtin", "-pthread", "-Wl,-z,lazy", "-o", "crossed_threads"]
    made_in(folder, *compiler, *options, _HERE / "crossed_threads.c", *search)
    return folder / "crossed_threads"


def sysroot(arch: str) -> Path:
    """Return where the C library of its machine lies."""
    return Path("/usr") / TRIPLETS[arch]


def untraced(path: Path, arch: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run it without soscope."""
    return run([need(f"qemu-{arch}"), "-L", sysroot(arch), path, *words])


def executed(path: Path, arch: str, addrs: dict[int, str], log: Path) -> dict[str, int]:
    """Run it; return how often instructions at `addrs` were run, by the emulator's own log.

    That is what breakpoints there would count; the names are those of `addrs`.
    """
    filtered = ",".join(f"{addr:#x}+4" for addr in addrs)
    words = ["-d", "exec,nochain", "-dfilter", filtered, "-D", str(log)]
    run([need(f"qemu-{arch}"), *words, "-L", sysroot(arch), path])
    counts = dict.fromkeys(addrs.values(), 0)
    for place in re.findall(r"\[[0-9a-f]+/([0-9a-f]+)/", log.read_text()):
        if int(place, 16) in addrs:
            counts[addrs[int(place, 16)]] += 1
    return counts


def account(text: str) -> dict[str, int]:
    """Return how often the library's functions were called, by their own account."""
    rows = [line.split() for line in text.splitlines()]
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}


def counted(
    path: Path, arch: str, log: Path, *words: str, engine: str = "auto"
) -> dict[str, object]:
    """Trace it; return the document with the calls of the library's functions."""
    options = ["-q", "-c", "--json", "--from", "all", "-l", "libcalls.so", "-e", ",".join(NAMES)]
    options += ["--engine", engine]
    done = soscope("trace", *options, "-o", log, "--sysroot", sysroot(arch), "--", path, *words)
    plain = untraced(path, arch, *words)
    assert (done.returncode, done.stdout, done.stderr) == (
        plain.returncode,
        plain.stdout,
        plain.stderr,
    )
    document: dict[str, object] = json.loads(log.read_text())
    return {"document": document, "account": account(plain.stderr)}
