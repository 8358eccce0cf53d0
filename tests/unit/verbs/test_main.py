# SPDX-License-Identifier: Apache-2.0
"""The way in: verbs, help, errors and exit statuses."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import soscope
from soscope.errors import AgentError, SoscopeError
from soscope.verbs.main import FAMILIES, FORMER, VERBS, main
from tests.support.processes.run import imported

ROOT = Path(__file__).parents[3]


def test_help_lists_every_verb(capfd: pytest.CaptureFixture[str]) -> None:
    for words in (["--help"], ["-h"], ["help"]):
        assert main(words) == 0
        out = capfd.readouterr().out
        single = [verb for verb in VERBS if " " not in verb]
        assert all(f"  {verb} " in out for verb in [*single, *FAMILIES])


@pytest.mark.parametrize("family", FAMILIES)
def test_help_of_a_family_lists_its_verbs(family: str, capfd: pytest.CaptureFixture[str]) -> None:
    for words in ([family, "--help"], [family, "-h"], ["help", family]):
        assert main(words) == 0
        out = capfd.readouterr().out
        assert all(f"soscope {verb} " in out for verb in VERBS if verb.startswith(f"{family} "))


def test_help_of_a_verb_is_its_help(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "report"]) == 0
    assert capfd.readouterr().out.startswith("usage: soscope report")


def test_version_is_that_of_the_package(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capfd.readouterr().out.startswith(f"soscope {soscope.__version__}\n")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == soscope.__version__


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ([], 2, "no verb"),
        (["trase"], 2, "did you mean soscope trace?"),
        (["ls"], 2, "soscope trace ls"),
        (["--bogus"], 2, "not a verb"),
        (["mem"], 2, "needs a verb"),
        (["mem", "bogus"], 2, "soscope mem run"),
        (["mem", "zzzzzzzz"], 2, "soscope mem --help"),
        (["report"], 2, "FILE"),
        (["report", "--bogus", "x"], 2, "--bogus"),
        (["trace"], 125, "no command"),
        (["trace", "--bogus", "ls"], 125, "--bogus"),
        (["trace", "--", "-p"], 127, "-p"),
        (["trace", "-p", "1", "ls"], 2, "cannot be combined"),
        (["trace", "-p", "1", "--", "ls"], 2, "cannot be combined"),
        (["trace", "-cp", "-x"], 2, "--pid"),
        (["trace", "--pid=0"], 2, "no process id"),
        (["trace", "-p"], 2, "-p"),
        (["trace", "-p", "1", "--bogus"], 2, "--bogus"),
        (["trace", "-p", "1", "-e", ""], 2, "filter expression"),
    ],
)
def test_a_usage_error_is_one_message_and_a_status(
    words: list[str], status: int, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == status
    captured = capfd.readouterr()
    assert captured.err.startswith("soscope: error: ")
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    ("words", "status", "line"),
    [
        (["mem", "peak", "--limit", "3", "my rec"], 2, "mem report --peak --limit 3 'my rec'"),
        (["mem", "temporary", "r"], 2, "mem report --temporary r"),
        (["mem", "detach", "-p", "7"], 2, "detach -p 7"),
        (["prof", "detach", "-qp7"], 2, "detach -qp7"),
        (["prof", "ldprofile", "f", "-o", "out"], 2, "prof report f -o out"),
        (["run", "--replace", "a=b:c", "-f", "ls", "-q"], 125, "patch --replace a=b:c -f -- ls -q"),
        (["run", "--replace=a=b:c", "--", "ls"], 125, "patch --replace=a=b:c -- ls"),
        (["run", "--help"], 125, "patch --help"),
        (["help", "run"], 125, "patch --help"),
        (["run"], 125, "patch"),
    ],
)
def test_a_former_verb_ends_with_the_line_to_type(
    words: list[str], status: int, line: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == status
    captured = capfd.readouterr()
    assert captured.out == ""
    assert " now" in captured.err
    assert captured.err.endswith(f" type: soscope {line}\n")


def test_no_former_verb_is_a_verb() -> None:
    assert len(VERBS) <= 30
    assert not set(FORMER) & set(VERBS)
    assert all(" ".join(new.split(" --")[0].split()) in VERBS for new in FORMER.values())


def test_without_a_command_no_status_is_kept_for_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A missing agent is 125 where a command was to run, 1 where a process was to be traced."""

    def fails(*_: object) -> None:
        raise AgentError("no agent")

    monkeypatch.setattr("soscope.instruments.trace.instrument.run_trace", fails)
    assert main(["trace", "ls"]) == 125
    assert main(["trace", "-p", "1"]) == 1
    assert capfd.readouterr().err.count("no agent") == 2


def test_debug_shows_where(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--debug", "report", "--bogus", "x"]) == 2
    assert "Traceback" in capfd.readouterr().err


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """Run soscope as a program."""
    return subprocess.run(
        [sys.executable, "-m", "soscope", *words],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT / "src")},
    )


def test_help_imports_no_heavy_module() -> None:
    found = imported("from soscope.verbs.main import main; main(['--help'])")
    parts = {name.split(".")[1] for name in found if name.startswith("soscope.")}
    assert parts <= {"errors", "instruments", "recording", "report", "verbs"}
    assert not found & {"argparse", "json", "logging", "numpy", "re", "rich", "typing"}


def test_a_closed_standard_error_is_no_crash() -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f"exec '{sys.executable}' -m soscope nosuch 2>&-"],
        capture_output=True,
        check=False,
        env={"PYTHONPATH": str(ROOT / "src")},
    )
    assert (done.returncode, done.stdout) == (2, b"")


def test_a_reader_that_has_enough_ends_us_quietly() -> None:
    done = run("--help")
    assert done.returncode == 0
    shell = f"'{sys.executable}' -m soscope trace --help | head -c 1 >/dev/null"
    done = subprocess.run(
        ["/bin/sh", "-c", shell],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT / "src")},
    )
    assert done.stderr == ""


def test_lazy_names_are_listed_and_loaded() -> None:
    assert {"trace", "SoscopeError", "__version__"} <= set(dir(soscope))
    assert soscope.SoscopeError is SoscopeError
    with pytest.raises(AttributeError, match="nosuch"):
        _ = soscope.nosuch
