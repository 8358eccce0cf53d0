# SPDX-License-Identifier: Apache-2.0
"""Other dynamic loaders: fetched from this system's own package mirror, kept unpacked.

Programs are linked against the oldest C library and name the loader that is to run them;
they need neither root nor a file system of their own.
"""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

from tests.support.machines.foreign import unpacked
from tests.support.machines.tools import need
from tests.support.targets import build
from tests.support.targets.matrix import BINDINGS
from tests.support.time.patience import limit

# oldest first: what is linked against
SUITES = {"bullseye": "2.31", "trixie": "2.41"}
PACKAGES = ("libc6", "libgcc-s1", "libstdc++6")
# for reading alone: the same release for other architectures
FOREIGN = ("libc6-i386", "libc6-arm64-cross")
LOADER = "ld-linux-x86-64.so.2"


class Loader:
    """An unpacked C library: `folder` has the loader and its libraries."""

    def __init__(self, suite: str) -> None:
        self.suite = suite
        self.root = fetched(suite)
        self.folder = next(self.root.rglob("libc.so.6")).parent
        self.interpreter = self.folder / LOADER

    def library(self, name: str) -> Path:
        """Find a library, which may lie in one of two folders."""
        return next(self.root.rglob(name))

    @property
    def folders(self) -> list[Path]:
        """Where its libraries are."""
        return sorted({self.library(name).parent for name in ("libc.so.6", "libstdc++.so.6")})


def fetched(suite: str, packages: tuple[str, ...] = PACKAGES) -> Path:
    """Return the folder with a suite's packages, having downloaded them if need be."""
    # the packages run in tests alone; the next stable's keys need not be here
    folders = unpacked("amd64", suite, PACKAGES, FOREIGN, trusted=True)
    return folders[packages == FOREIGN]


def program(name: str, binding: str, loader: Loader) -> Path:
    """Build a target, or `lib_NAME`, for a loader, with its libraries beside it."""
    oldest = Loader(next(iter(SUITES)))
    source = build.find(name)
    wish = build.directives(source)
    needed = [word for word in wish.get("libs", "").split(",") if word]
    plugins = [word for word in wish.get("plugins", "").split(",") if word]
    beside = [program(f"lib_{library}", binding, loader) for library in [*needed, *plugins]]
    is_cxx = source.suffix == ".cc"
    flags = shlex.split(wish.get("cflags", "")), shlex.split(wish.get("ldflags", ""))
    if loader.suite == oldest.suite:
        flags = flags[0], [word for word in flags[1] if "relative-relocs" not in word]  # 2.36
    libraries = ["libc.so.6", "libgcc_s.so.1", *(["libstdc++.so.6", "libm.so.6"] if is_cxx else [])]
    libraries += ["libdl.so.2"]
    if "-pthread" in [*flags[0], *flags[1]]:
        libraries.append("libpthread.so.0")
    shared = name.startswith("lib_")
    out = f"lib{name[4:]}.so" if shared else name
    path = ":".join(["$ORIGIN", *map(str, loader.folders)])
    words = [
        need("g++" if is_cxx else "gcc"),
        *("-O2", "-U_FORTIFY_SOURCE", *BINDINGS[binding][0], *flags[0], str(source)),
        *(["-fPIC", "-shared", f"-Wl,-soname,{out}"] if shared else ["-fPIE", "-pie"]),
        *(str(build.TARGETS / word) for word in wish.get("sources", "").split(",") if word),
        *BINDINGS[binding][1],
        *(f"lib{library}.so" for library in needed),
        *(word for word in flags[1] if word != "-pthread"),
        "-nodefaultlibs",
        *(str(oldest.library(library)) for library in libraries),
        *("-l:libc_nonshared.a", "-lgcc", "-Wl,--as-needed", str(oldest.interpreter)),
        *(f"-Wl,-rpath-link,{place}" for place in oldest.folders),
        *("-Wl,--disable-new-dtags", f"-Wl,-rpath,{path}"),
        *([] if shared else [f"-Wl,--dynamic-linker={loader.interpreter}"]),
        *("-o", out),
    ]
    return build.product(f"loaded/{loader.suite}-{binding}/{out}", out, words, beside)


def version(loader: Loader) -> str:
    """Return what the C library says that it is."""
    # the library can be run, and says who it is
    words = [loader.interpreter, loader.library("libc.so.6")]
    said = subprocess.run(
        words, capture_output=True, text=True, check=True, timeout=limit(20)
    ).stdout
    return said.splitlines()[0].rstrip(".").split()[-1]
