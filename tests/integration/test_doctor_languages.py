# SPDX-License-Identifier: Apache-2.0
"""Which interpreter a program is, and which version: as it says itself when it is run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.machines.tools import need
from tests.support.processes.run import run
from tests.support.targets.build import made_in
from tests.support.time.patience import until

DOCTOR = [sys.executable, "-m", "soscope", "doctor", "--json"]


class Case(NamedTuple):
    """An interpreter: how to have it print its version, and how to have it wait for a line."""

    name: str
    command: str
    version: tuple[str, ...]
    wait: tuple[str, ...]


CASES = [
    Case(
        "Python",
        sys.executable,
        ("-c", "import platform; print(platform.python_version())"),
        ("-c", "print('ready', flush=True); input()"),
    ),
    Case(
        "Python",
        "/usr/bin/python3",
        ("-c", "import platform; print(platform.python_version())"),
        ("-c", "print('ready', flush=True); input()"),
    ),
    Case(
        "PyPy",
        "pypy3",
        ("-c", "import sys; print('%d.%d.%d' % sys.pypy_version_info[:3])"),
        ("-c", "print('ready', flush=True); input()"),
    ),
    Case(
        "Ruby", "ruby", ("-e", "puts RUBY_VERSION"), ("-e", "$stdout.sync = 1; puts 'ready'; gets")
    ),
    Case("Perl", "perl", ("-e", "printf '%vd', $^V"), ("-e", "$| = 1; print qq(ready\\n); <>")),
    Case(
        "Node.js",
        "node",
        ("-p", "process.versions.node"),
        ("-e", "console.log('ready'); process.stdin.resume()"),
    ),
    Case(
        "PHP",
        "php",
        ("-r", "echo PHP_VERSION;"),
        ("-r", 'echo "ready\\n"; fgets(STDIN);'),
    ),
    Case(
        "Lua",
        "lua5.4",
        ("-e", "print(_VERSION)"),
        ("-e", "print('ready'); io.stdout:flush(); io.read()"),
    ),
    Case(
        "LuaJIT",
        "luajit",
        ("-e", "print((jit.version:gsub('LuaJIT ', '')))"),
        ("-e", "print('ready'); io.stdout:flush(); io.read()"),
    ),
    Case("Tcl", "tclsh", ("script.tcl",), ("waiting.tcl",)),
    Case(
        "Guile",
        "guile",
        ("-c", "(display (version))"),
        ("-c", '(display "ready\\n") (force-output) (read-char)'),
    ),
]
TCL = {
    "script.tcl": "puts [info patchlevel]\n",
    "waiting.tcl": "puts ready; flush stdout; gets stdin\n",
}


def asked(*words: str) -> list[dict[str, Any]]:
    done = run([*DOCTOR, *words])
    assert "Traceback" not in done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["subject"]["interpreters"]
    return found


def spelled(words: tuple[str, ...], folder: Path) -> list[str]:
    for name, text in TCL.items():
        (folder / name).write_text(text)
    return [str(folder / word) if word in TCL else word for word in words]


@pytest.mark.every(11)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}-{Path(case.command).name}")
def test_the_version_is_what_the_interpreter_says(case: Case, tmp_path: Path) -> None:
    command = need(case.command)
    done = run([command, *spelled(case.version, tmp_path)])
    truth = done.stdout.strip().removeprefix("Lua ")
    assert truth[0].isdigit(), done
    process = subprocess.Popen(
        [command, *spelled(case.wait, tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        live = asked("-p", str(process.pid))
    finally:
        process.kill()
        process.communicate()
    for found in (asked(command), live):
        (one,) = [one for one in found if one["is_main"]]
        assert one["name"] == case.name
        version = one["version"]
        if case.name == "Lua":  # it prints two of the three numbers
            version = version.rpartition(".")[0]
        assert version == truth


def test_java_and_its_machine(tmp_path: Path) -> None:
    java = str(Path(need("java")).resolve())
    said = run([java, "-version"]).stderr
    machine = Path(java).parents[1] / "lib/server/libjvm.so"
    words = [java, "-XX:+UnlockDiagnosticVMOptions", "-XX:+PauseAtStartup", "-version"]
    process = subprocess.Popen(
        words, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until((tmp_path / f"vm.paused.{process.pid}").exists, "java has begun", running=process)
        live = asked("-p", str(process.pid))
    finally:
        process.kill()
        process.wait()
    for found, image in (
        (asked(java), "libjli.so"),
        (asked(str(machine)), "libjvm.so"),
        (live, "libjvm.so"),
    ):
        (one,) = found
        assert (one["name"], one["image"], one["is_main"]) == ("Java", image, True)
        assert f"(build {one['version']}" in said


def test_erlang() -> None:
    erl = need("erl")
    root = run([erl, "-noshell", "-eval", "io:put_chars(code:root_dir()), halt()."]).stdout
    release = "io:put_chars(erlang:system_info(otp_release)), halt()."
    truth = run([erl, "-noshell", "-eval", release]).stdout
    (beam,) = Path(root).glob("erts-*/bin/beam.smp")
    (one,) = asked(str(beam))
    assert (one["name"], one["version"], one["is_main"]) == ("Erlang", truth, True)


def test_a_version_that_is_not_told_is_unknown(tmp_path: Path) -> None:
    """A program that defines the function of an interpreter, and says nothing else."""
    source = tmp_path / "php.c"
    source.write_text("int php_module_startup(void) { return 0; } int main(void) { return 0; }")
    program = tmp_path / "php"
    made_in(tmp_path, "gcc", "-rdynamic", source, "-o", program)
    (one,) = asked(str(program))
    assert (one["name"], one["version"]) == ("PHP", "")
    assert "it is PHP, version unknown (in php)" in run([*DOCTOR[:-1], str(program)]).stdout


def test_two_versions_are_none(tmp_path: Path) -> None:
    source = tmp_path / "php.c"
    source.write_text(
        """const char a[] = "X-Powered-By: PHP/8.1.0", b[] = "X-Powered-By: PHP/8.2.0";
        int php_module_startup(void) { return 0; } int main(void) { return 0; }"""
    )
    program = tmp_path / "php"
    made_in(tmp_path, "gcc", "-rdynamic", source, "-o", program)
    (one,) = asked(str(program))
    assert one["version"] == ""
