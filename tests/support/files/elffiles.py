# SPDX-License-Identifier: Apache-2.0
"""Files for tests of what lies outside of the loaded part: built, stripped, split, packed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.support.machines.tools import need
from tests.support.targets.build import made_in
from tests.support.time.patience import limit


def run(*words: str | Path) -> str:
    """Run a tool; return what it prints."""
    need(str(words[0]))
    done = subprocess.run(
        list(map(str, words)), capture_output=True, text=True, timeout=limit(), check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def built(folder: Path, name: str, text: str, *flags: str, compiler: str = "gcc") -> Path:
    """Compile one source text in `folder`; return the path of the result."""
    source = folder / f"{name}.{'cc' if compiler.endswith('+') else 'c'}"
    source.write_text(text)
    made_in(folder, compiler, "-O1", "-o", name, source, *flags)
    return folder / name


def nm(path: Path, *words: str) -> list[tuple[int, int, str, str]]:
    """Return (value, size, letter, name) of every defined symbol that nm prints."""
    found = []
    for line in run("nm", "-S", "--defined-only", *words, path).splitlines():
        row = re.fullmatch(r"([0-9a-f]+) (?:([0-9a-f]+) )?(\w) (.*)", line)
        assert row, line
        found.append((int(row[1], 16), int(row[2] or "0", 16), row[3], row[4]))
    return found


def build_id(path: Path) -> bytes:
    """Return the build-id that readelf prints."""
    found = re.search(r"Build ID: (\w+)", run("readelf", "-n", path))
    return bytes.fromhex(found[1]) if found else b""


def split(path: Path, debug: Path, *, link: bool = True) -> None:
    """Move what a debugger needs from `path` to `debug`; `link` adds a .gnu_debuglink."""
    run("objcopy", "--only-keep-debug", path, debug)
    words = [f"--add-gnu-debuglink={debug}"] if link else []
    run("objcopy", "--strip-all", *words, path)


def pack(path: Path) -> None:
    """Strip `path` and pack its static symbols into .gnu_debugdata, as the GDB manual says."""
    mini = path.with_name(f"{path.name}.mini")
    packed = mini.with_name(f"{mini.name}.xz")
    kept = path.with_name(f"{path.name}.keep")
    kept.write_text("".join(f"{row[3]}\n" for row in nm(path) if row[2] in "tTbBdDwWi"))
    run("objcopy", "--only-keep-debug", path, mini)
    run("objcopy", "-S", f"--keep-symbols={kept}", mini)
    run("xz", "-k", "-f", mini)
    run("objcopy", "--strip-all", f"--add-section=.gnu_debugdata={packed}", path)
    for scratch in (mini, packed, kept):
        scratch.unlink()
