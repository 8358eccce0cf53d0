# SPDX-License-Identifier: Apache-2.0
"""Other dynamic loaders: fetched from this system's own package mirror, kept unpacked.

Programs are linked against the oldest C library and name the loader that is to run them;
they need neither root nor a file system of their own.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.support.machines import tools
from tests.support.machines.tools import need
from tests.support.targets import build
from tests.support.targets.locked import alone
from tests.support.targets.matrix import BINDINGS, FOLDER

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


def _lack(message: str) -> None:
    if tools.strict():
        pytest.fail(message)
    pytest.skip(message)


@functools.cache
def mirror() -> str:
    """Return where this system's packages come from."""
    apt = need("apt-get")
    listed = _run([apt, "indextargets", "--format", "$(SITE) $(ORIGIN) $(LABEL)"], {})
    rows = [line.split(" ") for line in listed.splitlines()]
    sites = [row[0] for row in rows if row[1:] == ["Debian", "Debian"]]
    if not sites:
        _lack("apt knows no mirror of Debian: 'apt-get update', on Debian")
    return sites[0]


def _run(words: list[str], env: dict[str, str]) -> str:
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "LC_ALL": "C", **env},
    )
    if done.returncode != 0:
        _lack(f"{shlex.join(words)}: {done.stderr or done.stdout}")
    return done.stdout


@functools.cache
def fetched(suite: str, packages: tuple[str, ...] = PACKAGES) -> Path:
    """Return the folder with a suite's packages, having downloaded them if need be."""
    folder = _folder(suite, packages)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(f".lock-{suite}"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one reads the mirror's lists, for all workers
        if not folder.exists():
            _fetch(suite)
    return folder


def _folder(suite: str, packages: tuple[str, ...]) -> Path:
    which = "" if packages == PACKAGES else "-" + "-".join(packages)
    return FOLDER / "loaders" / f"{suite}{which}"


def _fetch(suite: str) -> None:
    """Make the folders of all sets of packages of a suite that are not there."""
    apt, unpack = need("apt-get"), need("dpkg-deb")
    folder = _folder(suite, PACKAGES)
    scratch = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".new-"))
    try:
        for name in ("state/lists/partial", "cache/archives/partial", "etc"):
            (scratch / name).mkdir(parents=True)
        (scratch / "state/status").touch()
        # the packages run in tests alone; the next stable's keys need not be here
        source = f"deb [trusted=yes] {mirror()} {suite} main\n"
        (scratch / "etc/sources.list").write_text(source)
        settings = {
            "Dir::State": scratch / "state",
            "Dir::State::status": scratch / "state/status",
            "Dir::Cache": scratch / "cache",
            "Dir::Etc::SourceList": scratch / "etc/sources.list",
            "Dir::Etc::SourceParts": "-",
            "Dir::Etc::Preferences": "-",
            "Dir::Etc::PreferencesParts": "-",
            "APT::Sandbox::User": "",
            "APT::Architecture": "amd64",
            "Acquire::Languages": "none",
            "Acquire::Check-Valid-Until": "false",
            "Acquire::Retries": "2",
        }
        options = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
        _run([apt, *options, "-qq", "update"], {})
        for packages in (PACKAGES, FOREIGN):
            place = scratch / str(len(packages))
            root = place / "root"
            root.mkdir(parents=True)
            with contextlib.chdir(place):
                _run([apt, *options, "-qq", "download", *packages], {})
            found = list(place.glob("*.deb"))
            assert len(found) == len(packages)
            for package in found:
                _run([unpack, "-x", str(package), str(root)], {})
            with contextlib.suppress(OSError):  # it is there
                root.rename(_folder(suite, packages))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def program(name: str, binding: str, loader: Loader) -> Path:
    """Build a target of tests/targets for a loader, with its libraries beside it."""
    oldest = Loader(next(iter(SUITES)))
    parts = [build._content(path) for path in sorted(build.TARGETS.iterdir()) if path.is_file()]
    parts += [name, binding, str(loader.folder), Path(__file__).read_text()]
    digest = hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()[:16]
    folder = FOLDER / "loaded" / f"{name}-{loader.suite}-{binding}-{digest}"
    with alone(folder):
        if folder.exists():
            return folder / name
        scratch = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".new-"))
        try:
            _link(name, binding, loader, oldest, scratch)
            scratch.rename(folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return folder / name


def _link(name: str, binding: str, loader: Loader, oldest: Loader, folder: Path) -> None:
    """Make a program, or `lib_NAME`, and what it needs, in `folder`."""
    source = build.find(name)
    wish = build.directives(source)
    needed = [word for word in wish.get("libs", "").split(",") if word]
    plugins = [word for word in wish.get("plugins", "").split(",") if word]
    for library in [*needed, *plugins]:
        if not (folder / f"lib{library}.so").exists():
            _link(f"lib_{library}", binding, loader, oldest, folder)
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
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, f"{shlex.join(words)}\n{done.stderr}"


def version(loader: Loader) -> str:
    """Return what the C library says that it is."""
    # the library can be run, and says who it is
    words = [loader.interpreter, loader.library("libc.so.6")]
    said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=20).stdout
    return said.splitlines()[0].rstrip(".").split()[-1]
