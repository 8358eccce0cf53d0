# SPDX-License-Identifier: Apache-2.0
"""Programs and libraries that Debian made for other processors or in other releases, unpacked.

They come through a root of apt's own: the machine's packages never hear of them. They are kept
(`tests/support/targets/kept.py`), so the next run needs no network.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.machines.tools import need, strict
from tests.support.targets.kept import kept
from tests.support.time.patience import limit

_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"


def unpacked(
    arch: str, suite: str, *sets: tuple[str, ...], behind: str = "", trusted: bool = False
) -> list[Path]:
    """Return where packages of an architecture and a suite are unpacked, a folder for each set.

    `behind` names one that has nothing but dependencies: they belong to the first set. `trusted`
    packages are taken without a signature.
    """
    parts = [word for packages in sets for word in ("", *packages)]

    def make(folder: Path) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            _unpack(Path(scratch), folder, arch, suite, sets, behind, trusted)

    root = kept(f"debian/{suite}-{arch}", *parts, behind, str(trusted), make=make)
    return [root / str(number) for number in range(len(sets))]


def _unpack(
    scratch: Path,
    folder: Path,
    arch: str,
    suite: str,
    sets: tuple[tuple[str, ...], ...],
    behind: str,
    trusted: bool,
) -> None:
    apt, unpack = need("apt-get"), need("dpkg-deb")
    for name in ("state/lists/partial", "cache/archives/partial", "etc"):
        (scratch / name).mkdir(parents=True)
    (scratch / "state/status").touch()
    how = "trusted=yes" if trusted else f"signed-by={_KEYS}"
    line = f"deb [{how} arch={arch}] {_mirror(apt)} {suite} main\n"
    (scratch / "etc/sources.list").write_text(line)
    settings = {
        "Dir::State": scratch / "state",
        "Dir::State::status": scratch / "state/status",
        "Dir::Cache": scratch / "cache",
        "Dir::Etc::SourceList": scratch / "etc/sources.list",
        "Dir::Etc::SourceParts": "-",
        "Dir::Etc::Preferences": "-",
        "Dir::Etc::PreferencesParts": "-",
        "APT::Architecture": arch,
        "APT::Architectures::": arch,
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Acquire::Check-Valid-Until": "false",
        "Acquire::Retries": "2",
    }
    options = [f"-o{name}={value}" for name, value in settings.items()]
    _run([apt, *options, "-qq", "update"], scratch)
    depends: list[str] = []
    if behind:
        told = _run(["apt-cache", *options, "depends", behind], scratch)
        depends = re.findall(r"^ *Depends: (\S+)", told, re.MULTILINE)
    for number, packages in enumerate(sets):
        place = scratch / str(number)
        place.mkdir()
        _run([apt, *options, "-qq", "download", *packages, *(depends if not number else ())], place)
        for path in place.glob("*.deb"):
            _run([unpack, "-x", str(path), str(folder / str(number))], scratch)


def _mirror(apt: str) -> str:
    """Return where this machine's packages come from."""
    told = _run([apt, "indextargets", "--format", "$(SITE) $(ORIGIN) $(LABEL)"], Path("/"))
    rows = [line.split(" ") for line in told.splitlines()]
    sites = [row[0] for row in rows if row[1:] == ["Debian", "Debian"]]
    if not sites:
        _lack("apt knows no mirror of Debian: 'apt-get update', on Debian")
    return sites[0]


def _lack(message: str) -> None:
    if strict():
        pytest.fail(message)
    pytest.skip(message)


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=limit(600),
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "LC_ALL": "C"},
    )
    if done.returncode != 0:
        _lack(f"{shlex.join(command)}: {done.stderr or done.stdout}")
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
