# SPDX-License-Identifier: Apache-2.0
"""Every verb that takes -p says the same of a process, and ends with the same status."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from soscope.verbs.main import VERBS as ALL
from soscope.verbs.main import main, module_name
from tests.support.processes import attached
from tests.support.processes.launching import environment, wait_state
from tests.support.time.patience import limit

NEEDS_PID = {
    "resolve": ["malloc"],
    "explain": ["malloc"],
    "detach": [],
    "mem where": [],
    "mem trim": [],
}
VERBS = {**NEEDS_PID, "map": [], "doctor": [], "trace": []}
EXPLAIN = "trace --explain malloc"


@pytest.mark.parametrize("verb", NEEDS_PID)
def test_a_process_must_be_named(verb: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*verb.split(), *NEEDS_PID[verb]]) == 2
    first, hint = capfd.readouterr().err.splitlines()
    assert first.startswith("soscope: error: no process: -p PID is missing")
    assert hint.startswith(f"  hint: usage: soscope {verb} [options] ")
    assert "[options] -p PID" in hint


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("0", "--pid: 0 is no process id"),
        ("2147483648", "--pid: 2147483648 is no process id"),
        ("-5", "--pid: '-5' is not a number"),
        ("", "--pid: '' is not a number"),
    ],
)
def test_what_is_no_process_id(
    verb: str, word: str, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([*verb.split(), "-p", word, *VERBS[verb]]) == 2
    assert capfd.readouterr().err == f"soscope: error: {said}\n"


@pytest.mark.parametrize("verb", VERBS)
def test_a_name_that_nobody_has(verb: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Only trace takes names."""
    status, said = (4, "no process is called 'a b'") if verb == "trace" else (2, None)
    assert main([*verb.split(), "-p", "a b", *VERBS[verb]]) == status
    said = said or "--pid: 'a b' is not a number"
    assert capfd.readouterr().err == f"soscope: error: {said}\n"


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "trace"])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-p", "1,2"], "--pid: '1,2': one process at a time"),
        (["-p", "1", "-p", "2"], "--pid: it is given twice"),
    ],
)
def test_several_processes_are_refused(
    verb: str, words: list[str], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([*verb.split(), *words, *VERBS[verb]]) == 2
    assert capfd.readouterr().err == f"soscope: error: {said}\n"


@pytest.mark.parametrize("verb", VERBS)
def test_wrong_words_about_a_process(verb: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*verb.split(), "-p", str(os.getpid()), "--bogus", *VERBS[verb]]) == 2
    captured = capfd.readouterr()
    assert (captured.out, captured.err[:16]) == ("", "soscope: error: ")


@pytest.mark.parametrize("verb", [*VERBS, EXPLAIN])
def test_nobody_has_this_number(verb: str, capfd: pytest.CaptureFixture[str]) -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    assert main([*verb.split(), "-p", str(child.pid), *VERBS.get(verb, [])]) == 4
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", f"soscope: error: no process {child.pid}\n")


@pytest.mark.parametrize("verb", [*VERBS, EXPLAIN])
def test_a_zombie(verb: str, capfd: pytest.CaptureFixture[str]) -> None:
    child = os.fork()
    if not child:
        os._exit(0)
    try:
        wait_state(child, "Z")
        status = main([*verb.split(), "-p", str(child), *VERBS.get(verb, [])])
    finally:
        os.waitpid(child, 0)
    captured = capfd.readouterr()
    said = f"process {child} has ended (a zombie)"
    if verb == "doctor":  # it has more to say
        assert status == 1
        assert f"{said}: its parent has not waited for it yet" in captured.out
        return
    assert (status, captured.out) == (4, "")
    hint = "its parent has not waited for it yet"
    assert captured.err == f"soscope: error: {said}\n  hint: {hint}\n"


@pytest.mark.parametrize("verb", ["resolve", "map", "explain", "doctor", "mem where"])
def test_a_full_disk_is_said(verb: str) -> None:
    # a small process: that of the tests has hundreds of libraries
    ready = attached.running(["sh", "-c", "echo ready; read line"])
    with ready as child, Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "soscope", *verb.split(), "-p", str(child.pid), *VERBS[verb]],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=limit(),
            env=environment(),
        )
    assert done.returncode == 1, done.stderr
    assert "cannot write standard output: no space left on device" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["explain", "malloc", "-p", "{pid}", "--json"],
        ["explain", "--json", "malloc", "-p{pid}"],
        ["resolve", "malloc", "--json", "--pid={pid}"],
        ["resolve", "-p", "{pid}", "--json", "--", "malloc"],
        ["map", "-p", "{pid}", "-e", "-malloc", "--json"],
    ],
)
def test_options_may_stand_anywhere(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    with attached.running(["sh", "-c", "echo ready; read line"]) as child:
        assert main([word.format(pid=child.pid) for word in words]) == 0
    assert f'"pid": {child.pid}' in capfd.readouterr().out


@pytest.mark.parametrize(
    "words",
    [["map"], ["check"], ["explain", "malloc"], ["doctor"], ["prof", "check"]],
    ids=" ".join,
)
def test_a_bare_name_is_found_in_path(
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A file that is called so here comes first."""
    monkeypatch.chdir(tmp_path)
    verb = words[: 2 if words[0] == "prof" else 1]
    rest = words[len(verb) :]
    main([*verb, "env", *rest, "--json"])
    assert f'"{shutil.which("env")}"' in capfd.readouterr().out
    (tmp_path / "env").write_text("no program")
    main([*verb, "env", *rest])
    captured = capfd.readouterr()
    assert str(shutil.which("env")) not in captured.out
    assert "env" in captured.err


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["git", "log", "-1"], "-- git log -1"),
        (["--never", "env", "-p", "x y"], "--never -- env -p 'x y'"),
        (["env", "--help"], "-- env --help"),
        (["libz.so.1", "--never"], "-- libz.so.1 --never"),
    ],
)
def test_a_hint_repeats_a_command_in_its_own_order(
    words: list[str],
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    git = tmp_path / "git"
    git.write_text("#!/bin/sh\n")
    git.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert main(["called", *words]) == 2
    assert capfd.readouterr().err.splitlines()[1].endswith(f": soscope called {line}")


def test_quiet_leaves_out_notes_and_no_errors(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for verb in ("check", "map"):
        for flags in ([], ["-v"], ["-q"], []):
            assert main([verb, str(tmp_path), *flags]) == 1
            noted = "no ELF or Mach-O file there" in capfd.readouterr().err
            assert noted == (flags != ["-q"])
    for words in (["explain", "/nowhere/at/all", "malloc"], ["check", "/nowhere"], ["map", "/no"]):
        assert main([*words, "-q"]) == 1
        assert "no such file" in capfd.readouterr().err


@pytest.mark.parametrize("verb", ALL)
def test_every_verb_knows_quiet_and_verbose(verb: str) -> None:
    options = import_module(f"soscope.verbs.{module_name(verb)}").VERB.options
    flags = [flag for option in options for flag in option.spellings]
    assert {"-q", "--quiet", "-v", "--verbose", "--debug"} <= set(flags)
    assert len(flags) == len(set(flags))
