# SPDX-License-Identifier: Apache-2.0
"""Mach-O files of real linkers: lld without an SDK, zig's compiler, wheels for macOS."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.machines.tools import need, strict
from tests.support.targets.build import made_in
from tests.support.targets.kept import kept
from tests.support.time.patience import limit

LLD = "ld64.lld-19"
MAGICS = {
    b"\xfe\xed\xfa\xce",
    b"\xfe\xed\xfa\xcf",
    b"\xce\xfa\xed\xfe",
    b"\xcf\xfa\xed\xfe",
    b"\xca\xfe\xba\xbe",
    b"\xca\xfe\xba\xbf",
}

_SYSTEM = """\
--- !tapi-tbd
tbd-version: 4
targets: [ x86_64-macos, arm64-macos ]
install-name: '/usr/lib/libSystem.B.dylib'
exports:
  - targets: [ x86_64-macos, arm64-macos ]
    symbols: [ _puts, _malloc, _free, _strlen, _environ, dyld_stub_binder, _objc_msgSend ]
    weak-symbols: [ __Znwm, __ZdlPv ]
...
"""
_PROGRAM = """\
extern "C" {
int puts(const char *);
void *malloc(unsigned long);
void free(void *);
extern char **environ;
__attribute__((weak)) int coalesced(void) { return 1; }
__attribute__((weak_import)) int absent(void);
}
void *operator new(unsigned long);
void operator delete(void *) noexcept;
void *(*table[])(unsigned long) = {malloc, malloc, 0, malloc};
extern "C" int main()
{
	if (!environ)
		return 1;
	free(malloc(10));
	operator delete(operator new(4));
	puts("x");
	return coalesced() + (absent ? absent() : 0);
}
"""
SELECTORS = ("count", "init:with:")


def _run(*words: str | Path, seconds: float = 60, **environment: str) -> str:
    done = subprocess.run(
        list(map(str, words)),
        capture_output=True,
        text=True,
        check=False,
        timeout=limit(seconds),
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout


def lld(folder: Path, arch: str, *flags: str, objc: bool = False) -> Path:
    """Link a small program with lld for `arch` (x86_64, arm64); `objc` calls two methods."""
    need("clang", LLD)
    (folder / "system.tbd").write_text(_SYSTEM)
    source = folder / ("calls.s" if objc else "calls.cc")
    if objc:
        call = "bl" if arch == "arm64" else "callq"
        calls = "".join(f'{call} "_objc_msgSend${one}"\n' for one in SELECTORS)
        source.write_text(f".text\n.globl _main\n.p2align 2\n_main:\n{calls}ret\n")
    else:
        source.write_text(_PROGRAM)
    out = folder / f"calls-{arch}{''.join(flags)}"
    target = [
        "--target=" + arch + "-apple-macos11",
        "-stdlib=libc++",
        "-Wno-unused-command-line-argument",
    ]
    made_in(folder, "clang", *target, "-O0", "-c", source, "-o", "calls.o")
    version = ["-platform_version", "macos", "11.0", "11.0"]
    inputs = ["calls.o", "system.tbd", "-U", "_absent"]
    made_in(folder, LLD, "-arch", arch, *version, *flags, "-e", "_main", *inputs, "-o", out)
    return out


# ---- for soak tests: fetched by pip, or where the environment says they are ----

ZIGS = ("0.13.0", "0.17.0")
WHEELS = (
    ("py2app==0.28.10", "any", "311", "none"),  # PowerPC and i386 of 2005
    ("numpy==1.8.1", "macosx_10_6_intel", "27", "none"),
    ("pyzmq==14.0.1", "macosx_10_6_intel", "27", "none"),
    ("Pillow==2.5.0", "macosx_10_6_intel", "27", "none"),
    ("numpy==2.4.6", "macosx_10_9_x86_64", "311", "cp311"),
    ("numpy==2.4.6", "macosx_11_0_arm64", "311", "cp311"),
    ("numpy==2.5.5", "macosx_14_0_arm64", "312", "cp312"),
    ("lxml==6.1.3", "macosx_10_9_universal2", "311", "cp311"),
    ("cryptography==48.0.1", "macosx_10_9_universal2", "311", "abi3"),
    ("grpcio==1.85.1", "macosx_11_0_universal2", "311", "cp311"),
    ("orjson==3.8.10", "macosx_10_9_universal2", "311", "cp311"),
    ("greenlet==3.1.0", "macosx_10_9_universal2", "311", "cp311"),
    ("pyobjc-core==13.0", "macosx_10_9_universal2", "311", "cp311"),
    ("pyobjc-framework-Cocoa==13.0", "macosx_10_9_universal2", "311", "cp311"),
    ("frida==17.26.0", "macosx_11_0_arm64", "311", "abi3"),  # arm64e images within its data
    ("ruff==0.17.6", "macosx_11_0_arm64", "311", "none"),
)


def _missing(what: str) -> None:
    if strict():
        pytest.fail(what)
    pytest.skip(what)


def zig(version: str) -> Path:
    """Return a release of zig: SOSCOPE_ZIG has folders of that name, else pip is asked."""
    if named := os.environ.get("SOSCOPE_ZIG"):
        return Path(named) / version / "ziglang" / "zig"

    def make(folder: Path) -> None:
        words = ("-m", "pip", "install", "-q", "--no-deps", "--target", folder)
        try:
            _run(sys.executable, *words, f"ziglang=={version}", seconds=600)
        except AssertionError as error:
            _missing(f"zig {version}: {error}")

    return kept(f"zig-{version}", make=make) / "ziglang" / "zig"


def zig_program(program: Path, arch: str) -> Path:
    """Compile a program with calls of nine functions by zig for `arch` (x86_64, aarch64)."""
    text = (
        "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n"
        "int main(int c, char **v) { char *p = malloc(20); strcpy(p, v[0]); puts(p); free(p);\n"
        'printf("%zu %d", strlen(v[0]), getpid()); return atoi(v[0]) + abs(c) + rand(); }\n'
    )

    def make(folder: Path) -> None:
        (folder / "calls.c").write_text(text)
        caches = {f"ZIG_{one}_CACHE_DIR": str(folder / "cache") for one in ("GLOBAL", "LOCAL")}
        words = ("cc", "-target", f"{arch}-macos", "-O1", "-o", folder / "calls")
        _run(program, *words, folder / "calls.c", seconds=600, **caches)
        shutil.rmtree(folder / "cache")

    return kept(f"zig-{arch}", str(program), text, make=make) / "calls"


def wheels() -> list[Path]:
    """Return wheels for macOS: those in SOSCOPE_MACHO_WHEELS, else pip fetches them."""
    named = os.environ.get("SOSCOPE_MACHO_WHEELS")
    given = Path(named) if named else kept("macos", repr(WHEELS), make=_fetch_wheels)
    return sorted(given.glob("*.whl"))


def _fetch_wheels(folder: Path) -> None:
    for name, platform, python, abi in WHEELS:
        pip = ("-m", "pip", "download", "-q", "--no-deps", "-d", folder, "--only-binary=:all:")
        which = ("--platform", platform, "--python-version", python, "--implementation", "cp")
        try:
            _run(sys.executable, *pip, *which, "--abi", abi, name, seconds=300)
        except AssertionError as error:
            _missing(f"{name}: {error}")


def images(wheel: Path, folder: Path) -> Iterator[Path]:
    """Unpack the Mach-O files of a wheel, one after the other."""
    with zipfile.ZipFile(wheel) as packed:
        for number, member in enumerate(packed.infolist()):
            if member.is_dir() or member.file_size < 28:
                continue
            with packed.open(member) as file:
                magic = file.read(8)
                # Java's classes begin like fat files, with a version where the count is.
                if magic[:4] not in MAGICS or (magic[:1] == b"\xca" and magic[7] > 16):
                    continue
                path = folder / f"{number}-{os.path.basename(member.filename)}"
                path.write_bytes(magic + file.read())
            yield path
            path.unlink()
