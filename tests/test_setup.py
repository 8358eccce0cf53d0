# SPDX-License-Identifier: Apache-2.0
"""scripts/setup.sh says what is missing, and does nothing twice."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.support.processes.run import run

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A source tree of which only the setting up is real, and a folder for stand-ins."""
    (tmp_path / "tree" / "scripts").mkdir(parents=True)
    shutil.copy2(REPOSITORY / "scripts" / "setup.sh", tmp_path / "tree" / "scripts")
    shutil.copytree(REPOSITORY / "packaging", tmp_path / "tree" / "packaging")
    (tmp_path / "bin").mkdir()
    return tmp_path / "tree"


def stand_in(tree: Path, name: str, script: str) -> None:
    path = tree.parent / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def setup(tree: Path, what: str, **env: str) -> tuple[int, str]:
    path = f"{tree.parent / 'bin'}:{os.environ['PATH']}"
    done = run(["sh", "scripts/setup.sh", what], cwd=tree, env={"PATH": path, **env})
    return done.returncode, done.stderr


def missing_package(tree: Path) -> None:
    with (tree / "packaging" / "apt-demo.txt").open("a") as listing:
        listing.write("a-command-that-nobody-has # and why\tpackage-x\n".replace(" # and why", ""))


def test_who_is_not_root_is_told_the_one_command(tree: Path) -> None:
    missing_package(tree)
    stand_in(tree, "id", "echo 1000")
    stand_in(tree, "apt-get", "echo called >> apt-get.log")
    stand_in(tree, "apt-cache", "exit 0")
    status, said = setup(tree, "demo")
    assert status == 2
    assert "sudo apt-get install --no-install-recommends package-x" in said
    assert not (tree / "apt-get.log").exists()
    assert not (tree / ".venv").exists()


def test_root_installs_what_is_missing_and_nothing_else(tree: Path) -> None:
    missing_package(tree)
    stand_in(tree, "id", "echo 0")
    log = tree.parent / "apt-get.log"
    # "installing" makes the command appear; a Python that cannot make environments ends it
    command = tree.parent / "bin" / "a-command-that-nobody-has"
    stand_in(tree, "apt-get", f'echo "$@" >> {log}; cp {tree.parent}/bin/id {command}')
    stand_in(tree, "apt-cache", "exit 0")
    python = tree.parent / "bin" / "python"
    stand_in(tree, "python", 'case "$*" in *venv*) exit 1;; esac; exit 0')
    status, said = setup(tree, "demo", PYTHON=str(python))
    assert status == 2
    assert "-m venv' does not work" in said
    installs = [line for line in log.read_text().splitlines() if line.startswith("install")]
    assert len(installs) == 1
    assert installs[0].endswith("package-x")
    assert "--no-install-recommends" in installs[0]


def test_an_old_python_is_named(tree: Path) -> None:
    for name in ("python3", "python3.11", "python3.12", "python3.13", "python3.14"):
        stand_in(tree, name, 'case "$1" in --version) echo "Python 3.9.2";; *) exit 1;; esac')
    script = (tree / "scripts" / "setup.sh").read_text()
    (tree / "scripts" / "setup.sh").write_text(script.replace("/usr/bin/python3 ", ""))
    status, said = setup(tree, "demo")
    assert status == 2
    assert "Python 3.11 or newer is needed" in said
    assert "Python 3.9.2" in said


def test_every_line_of_the_lists_is_a_probe_and_a_package() -> None:
    for listing in (REPOSITORY / "packaging").glob("apt-*.txt"):
        for line in listing.read_text().splitlines():
            words = line.partition("#")[0].split()
            assert not words or len(words) >= 2, (listing.name, line)
