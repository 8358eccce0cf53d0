# SPDX-License-Identifier: Apache-2.0
"""Programs and libraries that Debian made for other processors, unpacked below a folder.

They come through a root of apt's own: the machine's packages never hear of the architecture.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support.machines.tools import need, not_here
from tests.support.time.patience import limit

_SOURCES = Path("/etc/apt")
_MIRROR = re.compile(r"^(?:URIs:|deb (?:\[.*\] )?)\s*(http\S+/debian/?)\s", re.MULTILINE)
_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
_ROW = re.compile(
    r"^([0-9a-f]+)\s+[0-9a-f]+\s+R_\w+?_"
    r"(?:JUMP_SLOT?|JMP_SLOT?|GLOB_DAT?|IRELATIVE?|TLSDESC|TLS_DESC)\s",
    re.MULTILINE,
)


def _mirror() -> str:
    """Return where this machine's packages come from."""
    for path in (*_SOURCES.glob("sources.list.d/*.sources"), _SOURCES / "sources.list"):
        found = re.search(
            r"^(?:URIs:|deb (?:\[.*\] )?)\s*(http\S+/debian/?)\s", _text(path), re.MULTILINE
        )
        if found:
            return found[1]
    not_here("no Debian mirror in /etc/apt")
    raise AssertionError


def _text(path: Path) -> str:
    return path.read_text() + "\n" if path.exists() else ""


def unpacked(
    folder: Path, arch: str, suite: str, packages: tuple[str, ...], behind: str = ""
) -> Path:
    """Download packages of an architecture and a suite; return where they are unpacked.

    `behind` names one that has nothing but dependencies, which come, too.
    """
    need("apt-get")
    need("dpkg-deb")
    root, files = folder / "apt", folder / "files"
    for name in ("state/lists/partial", "cache/archives/partial", "etc", "download"):
        (root / name).mkdir(parents=True)
    (root / "status").touch()
    line = f"deb [signed-by={_KEYS} arch={arch}] {_mirror()} {suite} main\n"
    (root / "etc/sources.list").write_text(line)
    settings = {
        "Dir::State": root / "state",
        "Dir::State::status": root / "status",
        "Dir::Cache": root / "cache",
        "Dir::Etc::sourcelist": root / "etc/sources.list",
        "Dir::Etc::sourceparts": "-",
        "APT::Architecture": arch,
        "APT::Sandbox::User": "root",
    }
    words = [f"-o{name}={value}" for name, value in settings.items()]
    words.append(f"-oAPT::Architectures::={arch}")
    _run(["apt-get", *words, "update"], root)
    if behind:
        told = _run(["apt-cache", *words, "depends", behind], root)
        packages += tuple(re.findall(r"^ *Depends: (\S+)", told, re.MULTILINE))
    _run(["apt-get", *words, "download", *packages], root / "download")
    for path in (root / "download").glob("*.deb"):
        _run(["dpkg-deb", "-x", str(path), str(files)], root)
    return files


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=limit(600), check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def elf_files(folder: Path) -> Iterator[Path]:
    """Give the programs and shared objects below a folder."""
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        with path.open("rb") as file:
            head = file.read(18)
        if head[:4] == b"\x7fELF" and head[17 if head[5] == 2 else 16] in {2, 3}:
            yield path


def readelf_slots(path: Path, readelf: str) -> set[int]:
    """Return where the relocations go that `readelf -r` says fill slots, words of the GOT not."""
    need(readelf)
    done = subprocess.run(
        [readelf, "-rW", str(path)],
        capture_output=True,
        text=True,
        timeout=limit(120),
        check=False,
        env={**os.environ, "LC_ALL": "C"},
    )
    kinds = r"JUMP_SLOT?|JMP_SLOT?|GLOB_DAT?|IRELATIVE?|JMP_IREL|TLSDESC|TLS_DESC"
    rows = re.findall(
        rf"^([0-9a-f]+)\s+[0-9a-f]+\s+R_\w+?_(?:{kinds})\s", done.stdout, re.MULTILINE
    )
    return {int(row, 16) for row in rows}
