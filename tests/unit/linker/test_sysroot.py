# SPDX-License-Identifier: Apache-2.0
"""Below a sysroot: what a loader says that has it for its root, or believes so."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from soscope.linker.library import open_image
from soscope.linker.machine import kind_of, machine_of
from soscope.linker.providers import Providers
from tests.support.machines.tools import need
from tests.support.targets.build import made_in
from tests.support.time.patience import limit
from tests.support.truth import loaderword
from tests.support.truth.loaderword import LOADER

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="not here: needs root")
LIBC = "/lib/x86_64-linux-gnu"


def of(path: str | Path, sysroot: str | Path, library_path: str = "") -> Providers:
    return Providers(
        open_image(str(path)), str(path), sysroot=str(sysroot), library_path=library_path
    )


def link(target: Path, source: str, *words: str) -> None:
    kind = ["-shared", f"-Wl,-soname,{target.name}"] if ".so" in target.name else []
    target.parent.mkdir(parents=True, exist_ok=True)
    command = ["gcc", "-x", "c", "-", "-fPIC", "-Wl,--no-as-needed", *kind, "-o", target.name]
    made_in(target.parent, *command, *words, text=source)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small system: a loader, a C library, libraries behind links of all sorts, a cache."""
    need("gcc")
    root = tmp_path / "tree"
    for folder in ("lib64", "usr/lib/x86_64-linux-gnu", "opt/here", "etc", "usr/bin", "opt/old"):
        (root / folder).mkdir(parents=True)
    (root / "lib").symlink_to("/usr/lib")  # absolute: inside of the tree only
    shutil.copy(LOADER, root / "lib64")
    shutil.copy(f"{LIBC}/libc.so.6", root / "usr/lib/x86_64-linux-gnu")
    there = root / "opt/here"
    link(there / "libreal.so.1", "int f(void) { return 1; }", "-Wl,-soname,libone.so")
    (root / "usr/lib/x86_64-linux-gnu/libone.so").symlink_to("/opt/here/libreal.so.1")
    link(there / "libtwo.so", "int g(void) { return 2; }")
    (root / "opt/link").symlink_to("../../../opt/here/../here")  # climbs above the root
    link(there / "libthree.so", "int h(void) { return 3; }")
    link(root / "opt/old/libfour.so", "int i(void) { return 4; }")
    source = "int f(void), g(void), h(void), i(void);"
    source += "int main(void) { return f() + g() + h() + i(); }"
    words = ["-Lopt/here", "-Lopt/old", "-l:libreal.so.1", "-ltwo", "-lthree", "-lfour"]
    words += ["-Wl,-rpath,/opt/link:$ORIGIN/../../opt/none", "-o", "usr/bin/program"]
    made_in(root, "gcc", "-x", "c", "-", "-fPIC", "-Wl,--no-as-needed", *words, text=source)
    (root / "etc/ld.so.conf").write_text("/opt/old\n")
    return root


@ROOT
def test_a_tree_is_searched_as_its_own_loader_does(tree: Path) -> None:
    subprocess.run([need("/sbin/ldconfig"), "-r", str(tree)], check=True, timeout=limit())
    loader = [*loaderword.IN_ROOT, str(tree)]
    word = loaderword.ask("/usr/bin/program", loader=loader, prefix=str(tree))
    found = of(tree / "usr/bin/program", tree)
    named = {"f": "libone.so", "g": "libtwo.so", "h": "libthree.so", "i": "libfour.so"}
    assert {name for name, _ in word.bound} >= named.keys()
    for (name, version), where in word.bound.items():
        if str(tree / "usr/bin/program") in where:
            continue
        provider = found.find(name, version)
        assert {provider.path} == where
        assert provider.name == named.get(name, provider.name)


def test_nothing_outside_of_the_tree_is_taken(tree: Path) -> None:
    """This system has a C library and a cache, too; the tree's cache is gone."""
    program = tree / "usr/bin/program"
    found = of(program, tree)
    assert found.missing == ("libfour.so",)
    assert found.find("puts").path == str(tree / "usr/lib/x86_64-linux-gnu/libc.so.6")
    assert found.find("f").path == str(tree / "opt/here/libreal.so.1")
    (tree / "usr/lib/x86_64-linux-gnu/libc.so.6").unlink()
    assert of(program, tree).missing == ("libfour.so", "libc.so.6")
    assert of(program, tree, "/opt/old:/opt/none").find("i").name == "libfour.so"


def test_a_program_outside_of_the_tree_has_its_origin_outside(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "opt/none").mkdir(parents=True)
    shutil.copy(tree / "opt/old/libfour.so", tmp_path / "opt/none")
    program = tmp_path / "usr/bin/program"
    program.parent.mkdir(parents=True)
    shutil.copy(tree / "usr/bin/program", program)
    found = of(program, tree)
    path = found.find("i").path
    assert path is not None
    assert os.path.realpath(path) == str(tmp_path / "opt/none/libfour.so")
    assert found.find("g").path == str(tree / "opt/here/libtwo.so")


def test_links_that_go_round_are_no_files(tree: Path) -> None:
    (tree / "opt/link").unlink()
    (tree / "opt/link").symlink_to("/opt/again")
    (tree / "opt/again").symlink_to("link")
    assert "libtwo.so" in of(tree / "usr/bin/program", tree).missing


CROSS = [
    ("aarch64-linux-gnu", "qemu-aarch64"),
    ("s390x-linux-gnu", "qemu-s390x"),
    ("mips-linux-gnu", "qemu-mips"),
    ("arm-linux-gnueabihf", "qemu-arm"),
]


@pytest.mark.parametrize(("triplet", "qemu"), CROSS)
def test_other_machines_are_searched_as_their_own_loaders_do(triplet: str, qemu: str) -> None:
    """Of 32 and 64 bits, and of both byte orders; one without DT_GNU_HASH's usual form."""
    root = Path("/usr") / triplet
    need(str(root / "lib/libc.so.6"))
    libc = open_image(str(root / "lib/libc.so.6"))
    assert libc.header is not None
    machine = machine_of(kind_of(libc), libc.header.flags)
    assert machine.triplet == triplet
    assert (root / machine.loader[1:]).exists()
    loader = [need(qemu), "-L", str(root), str(root / machine.loader[1:])]
    compared = 0
    for name in ("libm.so.6", "libresolv.so.2", "libnss_compat.so.2", "libanl.so.1"):
        path = root / "lib" / name
        word = loaderword.ask(f"/lib/{name}", loader=loader, prefix=str(root))
        found = of(path, root)
        for (symbol, version), where in word.bound.items():
            if str(path) in where:
                continue
            assert found.find(symbol, version).path in where
            compared += 1
    assert compared > 40
