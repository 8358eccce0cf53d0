# SPDX-License-Identifier: Apache-2.0
"""The ways in which a program can be built that change what its slots look like."""

from __future__ import annotations

import functools
import glob
import hashlib
import itertools
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.support.targets.locked import alone
from tests.support.time.patience import limit

REPOSITORY = Path(__file__).parents[3]
# Shared by all runs and all workers: every name in it is made of what went into it.
FOLDER = Path(os.environ.get("SOSCOPE_TEST_BUILD", REPOSITORY / "build" / "targets")).absolute()

COMPILERS = {"gcc": ("gcc", "g++"), "clang": ("clang", "clang++")}
# Another C library, for C alone: no cell of the matrix, but one can be asked for.
MUSL = {"musl": ("musl-gcc", "musl-gcc")}
LINKERS = {"bfd": "ld.bfd", "gold": "ld.gold", "lld": "ld.lld", "mold": "mold"}

# binding -> how to compile, how to link. All is said, because distributions differ in
# what they default to.
BINDINGS = {
    "lazy": (["-fcf-protection=none", "-fplt"], ["-Wl,-z,relro", "-Wl,-z,lazy"]),
    "now": (["-fcf-protection=none", "-fplt"], ["-Wl,-z,relro", "-Wl,-z,now"]),
    "no-plt": (["-fcf-protection=none", "-fno-plt"], ["-Wl,-z,relro", "-Wl,-z,now"]),
    "ibt": (["-fcf-protection=full", "-fplt"], ["-Wl,-z,relro", "-Wl,-z,lazy"]),
}
# How a linker is asked for stubs that begin with endbr64; gold cannot.
IBT = {"bfd": ["-Wl,-z,ibtplt"], "lld": ["-Wl,-z,force-ibt"], "mold": []}


class Cell(NamedTuple):
    """One way to build."""

    compiler: str = "gcc"
    binding: str = "lazy"
    pie: str = "pie"
    linker: str = "bfd"
    opt: str = "O2"

    @property
    def name(self) -> str:
        """A word for test names and folders."""
        return "-".join(self)

    def driver(self, source: Path) -> str:
        """Name the compiler for a source of this language."""
        return {**COMPILERS, **MUSL}[self.compiler][source.suffix in {".cc", ".cpp"}]

    def compiling(self) -> list[str]:
        """Flags of the compiler, for programs and shared objects alike."""
        return [f"-{self.opt}", *BINDINGS[self.binding][0]]

    def linking(self) -> list[str]:
        """Flags of the linker."""
        ibt = IBT.get(self.linker, []) if self.binding == "ibt" else []
        return [f"-fuse-ld={self.linker}", *BINDINGS[self.binding][1], *ibt]

    def program(self) -> list[str]:
        """Flags that say what kind of program it is."""
        return ["-fPIE", "-pie"] if self.pie == "pie" else ["-fno-pie", "-no-pie"]


PLAIN = Cell()

FACTORS = (tuple(COMPILERS), tuple(BINDINGS), ("pie", "nopie"), tuple(LINKERS), ("O0", "O2"))


# Assemblers and linkers for other processors, and what of C libraries is linked into programs.
_CROSS = ("/usr/bin/*-linux-gnu*-as", "/usr/bin/*-linux-gnu*-ld*")
_LIBRARIES = ("/usr/lib/*/libc.a", "/usr/lib/*/libc.so.6", "/usr/*/lib/libc.a")


@functools.cache
def tools() -> str:
    """Return one word that changes with any compiler, linker or C library of this machine."""
    names = [*itertools.chain(*COMPILERS.values(), *MUSL.values()), *LINKERS.values(), "as"]
    paths = [path for name in names if (path := shutil.which(name))]
    paths += itertools.chain.from_iterable(map(glob.glob, (*_CROSS, *_LIBRARIES)))
    text = "\n".join(f"{path} {version(path)}" for path in sorted(set(paths)))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def version(path: str) -> str:
    """Return a text that changes when another version of a program is installed at `path`."""
    real = os.path.realpath(path)
    return f"{real} {os.stat(real).st_mtime_ns}"


def existing() -> list[Cell]:
    """Return all cells that can be built here: found by trying, and remembered."""
    notes = FOLDER / f"cells-{tools()}.json"
    if not notes.exists():
        with alone(notes):
            if not notes.exists():
                _find_cells(notes)
    good = [tuple(row) for row in json.loads(notes.read_text())]
    cells = map(Cell._make, itertools.product(*FACTORS))
    return [cell for cell in cells if (cell.compiler, cell.binding, cell.linker) in good]


def _find_cells(notes: Path) -> None:
    # Neither pie nor optimisation decides whether a tool can do the rest.
    tried = [Cell(c, b, "pie", k, "O0") for c in COMPILERS for b in BINDINGS for k in LINKERS]
    good = [(cell.compiler, cell.binding, cell.linker) for cell in tried if _tries(cell)]
    with tempfile.NamedTemporaryFile("w", dir=notes.parent, delete=False) as file:
        json.dump(good, file)
    os.replace(file.name, notes)


def _tries(cell: Cell) -> bool:
    if not all(map(shutil.which, (cell.compiler, LINKERS[cell.linker]))):
        return False
    if cell.binding == "ibt" and cell.linker not in IBT:
        return False
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "trial.c"), Path(folder, "trial")
        source.write_text('#include <stdio.h>\nint main(void) { return puts("") < 0; }\n')
        words = [cell.compiler, *cell.compiling(), *cell.program(), str(source)]
        words += [*cell.linking(), "-o", str(program)]
        done = subprocess.run(words, capture_output=True, timeout=limit(), check=False)
        return (
            done.returncode == 0
            and subprocess.run(
                [program], stdout=subprocess.DEVNULL, timeout=limit(10), check=False
            ).returncode
            == 0
        )
