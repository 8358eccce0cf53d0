# SPDX-License-Identifier: Apache-2.0
"""Programs started where something is missing, closed, limited, or set for the loader."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.processes import launching
from tests.support.processes.run import run
from tests.support.targets import build
from tests.support.truth.account import Truth, wrong

TRACE = [sys.executable, "-m", "soscope", "trace", "-q", "--count-only", "--json"]
# A shell that changes its own surroundings, then becomes the command.
AROUND = {
    "stdin-closed": "exec <&-",
    "stdout-closed": "exec >&-",
    "both-closed": "exec <&- >&-",
    "stderr-full": "exec 2>/dev/full",
    "few-descriptors": "ulimit -n 12",
    "very-few-descriptors": "ulimit -n 9",
    "no-file-may-grow": "ulimit -S -f 0",
    "no-file-may-ever-grow": "ulimit -f 0",
    "address-space": "ulimit -S -v 1000000",
    "little-address-space": "ulimit -v 60000",
    "small-stack": "ulimit -S -s 256",
    "nothing-locked": "ulimit -l 0",
    # not SIGPIPE: Python ignores it before anybody can look
    "sighup-ignored": "trap '' HUP INT TERM",
    "other-mask": "umask 077",
    "empty-environment": 'exec env -i PATH="$PATH" PYTHONPATH="$PYTHONPATH" "$@"',
    "no-home": "unset HOME USER LANG LC_ALL TERM",
    "removed-folder": 'd=$(mktemp -d) && cd "$d" && rmdir "$d" && unset PWD OLDPWD d',
}
# Who makes no account of its own, or none of soscope's.
UNTOLD = {
    "stderr-full",
    "no-file-may-grow",
    "no-file-may-ever-grow",
    "very-few-descriptors",
    "little-address-space",
}
ENVIRONMENTS = {
    "bind-now": {"LD_BIND_NOW": "1"},
    "bind-not": {"LD_BIND_NOT": "1"},
    "no-xsavec": {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-XSAVEC"},
    "no-xsave": {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-XSAVEC,-XSAVE"},
    "malloc-check": {"MALLOC_PERTURB_": "165"},
    "debug": {"LD_DEBUG": "unused", "LD_WARN": "1"},
}


class Seen(NamedTuple):
    stdout: str
    stderr: str
    status: int


# soscope may not be able to write either.
NOTE = re.compile(r"^soscope: cannot write .*: file too large.*\n", re.MULTILINE)
FACT = re.compile(r"^(?:calls|range) .*\n", re.MULTILINE)


def look(words: list[str], env: dict[str, str] | None = None) -> tuple[Seen, Truth]:
    """Run, with the program's account on stderr: files may be out of its reach."""
    done = run(words, env=env)
    truth = Truth.parse("".join(FACT.findall(done.stderr)))
    stderr = NOTE.sub("", FACT.sub("", done.stderr))
    return Seen(done.stdout, stderr, done.returncode), truth


def compare(
    before: list[str],
    target: str,
    folder: Path,
    *,
    env: dict[str, str] | None = None,
    at_most: bool = False,
    told: bool = True,
) -> None:
    """`told`: the program can tell how many calls it made."""
    command = [str(build.program(target))]
    output = folder / "output.json"
    wanted, facts = look([*before, *command], env)
    trace = [*TRACE, "-e", "f*,gmid", "-o", str(output), "--"]
    got, truth = look([*before, *trace, *command], env)
    assert got == wanted
    if not told:
        return
    assert truth.names == facts.names
    counted: Counter[str] = Counter()
    for row in json.loads(output.read_text())["rows"]:
        counted[row["symbol"]] += row["calls"]
    bounds = truth.bounds(followed=False)
    if at_most:
        bounds = {name: (0, high) for name, (_, high) in bounds.items()}
    assert not wrong(counted, bounds)


@pytest.mark.every(7)
@pytest.mark.parametrize("target", ["calls", "environment"])
@pytest.mark.parametrize("way", AROUND)
def test_a_program_starts_in_odd_surroundings(way: str, target: str, tmp_path: Path) -> None:
    before = ["sh", "-c", f'{AROUND[way]}\nexec "$@"', "sh"]
    compare(before, target, tmp_path, told=way not in UNTOLD)


@pytest.mark.every(3)
@pytest.mark.parametrize("way", ENVIRONMENTS)
def test_the_loader_is_told_otherwise(way: str, tmp_path: Path) -> None:
    compare([], "calls", tmp_path, env=ENVIRONMENTS[way])


def test_a_preloaded_library_is_kept(tmp_path: Path) -> None:
    env = {"LD_PRELOAD": str(build.library("next"))}
    compare([], "calls", tmp_path, env=env)
    compare([], "environment", tmp_path, env=env)


def test_where_memory_cannot_be_read_by_process_vm_readv(tmp_path: Path) -> None:
    before = [sys.executable, "-m", "tests.support.processes.forbid", "process_vm_readv"]
    path = launching.python_path()
    compare(before, "calls", tmp_path, env={"PYTHONPATH": path})
    counted = []
    for words in ([], before):
        output = tmp_path / "output.json"
        trace = [*TRACE, "--from", "all", "-o", str(output), "--"]
        run([*words, *trace, "/bin/true"], env={"PYTHONPATH": path})
        counted.append(json.loads(output.read_text())["totals"]["calls"])
    assert counted[0] == counted[1] > 0


def test_strings_where_memory_cannot_be_read_by_process_vm_readv() -> None:
    text = """
        #include <fcntl.h>
        int main(void)
        {
            open("/no/such/file", O_RDONLY);
            return open((char *)8, O_RDONLY) == -1 ? 5 : 6;
        }"""
    program = launching.compiled("opens_two.c", text=text)
    before = [sys.executable, "-m", "tests.support.processes.forbid", "process_vm_readv"]
    trace = [sys.executable, "-m", "soscope", "trace", "-e", "open*", "--", str(program)]
    done = run([*before, *trace], env=launching.environment())
    assert done.returncode == 5
    assert '"/no/such/file"' in done.stderr
    assert "EFAULT" in done.stderr


def test_an_auditor_is_left_alone(tmp_path: Path) -> None:
    # The loader's other resolver is not taken over: what it binds late is seen late.
    env = {"LD_AUDIT": str(build.library("audit"))}
    compare([], "calls", tmp_path, env=env, at_most=True)
