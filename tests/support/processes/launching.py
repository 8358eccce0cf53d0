# SPDX-License-Identifier: Apache-2.0
"""Build what tests of the launch need, and run commands through the launcher beside this file."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.processes import run as running
from tests.support.targets.build import made
from tests.support.targets.matrix import REPOSITORY
from tests.support.time.patience import until

SUPPORT = REPOSITORY / "tests" / "support" / "processes"
INCLUDE = REPOSITORY / "native" / "include"
AGENT_FLAGS = (
    f"-I{INCLUDE}",
    *("-nostdlib", "-shared", "-fPIC", "-fvisibility=hidden", "-fcf-protection=none"),
    *("-Wl,-z,noseparate-code", "-Wl,--hash-style=gnu", "-Wl,--build-id"),
)


@functools.cache
def compiled(source: str, *flags: str, text: str = "") -> Path:
    """Compile a C file of this folder, or `text`, and return the program's path."""
    words = ["gcc", "-O1", "-g", source, *flags, "-pthread"]
    program = Path(source).stem
    return made({source: text or SUPPORT / source}, [*words, "-o", program]) / program


def mini_agent(*flags: str) -> Path:
    """Return the path of the agent that only answers."""
    return compiled("mini_agent.c", *AGENT_FLAGS, *flags)


def launched(*flags: str) -> Path:
    """Return the path of the program that tells how it was started."""
    return compiled("launched.c", *flags)


class Outcome:
    """How a launched command went: what a shell sees, and the launcher's report."""

    def __init__(self, returncode: int, stdout: str, stderr: str, report: dict[str, Any]) -> None:
        self.returncode = returncode
        self.stdout = stdout
        self.stderr = stderr
        self.report = report

    @property
    def programs(self) -> list[dict[str, Any]]:
        """The programs under observation."""
        found: list[dict[str, Any]] = self.report["programs"]
        return found

    @property
    def reason(self) -> str | None:
        """Why the first program has no agent."""
        found: str | None = self.programs[0]["reason"]
        return found

    def events(self, kind: str) -> list[list[Any]]:
        """The events of one kind, without that word."""
        return [event[1:] for event in self.report["events"] if event[0] == kind]


def words(
    report: Path, command: Sequence[str | os.PathLike[str]], mode: str, agent: Path | str | None
) -> list[str]:
    """Return the words that run `command` through the launcher."""
    agent = mini_agent() if agent is None else agent
    launcher = [sys.executable, "-m", "tests.support.processes.launcher"]
    words = [*launcher, str(report), str(agent), mode, "--"]
    return [*words, *(os.fspath(word) for word in command)]


def python_path() -> str:
    """Return PYTHONPATH with the tests in front; soscope is the one that is tested here."""
    return ":".join([str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])])


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this environment, with the tests' packages and `extra` in it."""
    return {**os.environ, "PYTHONPATH": python_path(), **(extra or {})}


def launch(
    *command: str | os.PathLike[str],
    mode: str = "plain",
    agent: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    prefix: Sequence[str] = (),
    timeout: float | None = None,
) -> Outcome:
    """Run `command` through the launcher; `prefix` is a program that runs the launcher."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        report = Path(folder, "report.json")
        argv = [*prefix, *words(report, command, mode, agent)]
        done = running.run(argv, env=environment(env), cwd=cwd, timeout=timeout)
        data = json.loads(report.read_text()) if report.exists() else {}
        return Outcome(done.returncode, done.stdout, done.stderr, data)


def plain(
    *command: str | os.PathLike[str],
    env: Mapping[str, str] | None = None,
    prefix: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Run `command` without anything, in the same environment."""
    return running.run([*prefix, *(os.fspath(word) for word in command)], env=environment(env))


def wait_for(path: Path) -> str:
    """Wait until a file has content; return it."""
    return until(lambda: path.read_text() if path.exists() else "", f"something in {path}")


def state(pid: int) -> str:
    """Return the state letter of a process, "" where it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def wait_state(pid: int, letters: str) -> str:
    """Wait until a process has one of the states; return that."""

    def found() -> str:
        letter = state(pid)
        return letter if letter in letters else ""

    return until(found, f"process {pid} has one of the states {letters}")
