# SPDX-License-Identifier: Apache-2.0
"""What the server of interpreters runs is what an interpreter of its own would be."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import forked
from tests.support.processes.run import run
from tests.support.time.patience import limit

SOSCOPE = [sys.executable, "-m", "soscope"]
# What a run says of the process that it is in.
TOLD = """
import json, os, signal, sys
print(json.dumps([
    sys.argv[1:], os.getcwd(), sorted(os.environ.items()), os.getsid(0) == os.getpid(), sys.path[0],
    sorted(map(int, os.listdir("/proc/self/fd")))[:4], os.read(0, 1).decode(),
    sys.stdout.encoding, [int(signal.getsignal(each) or 0) for each in (1, 2, 13, 15, 17)
                          if not callable(signal.getsignal(each))],
    sorted(name for name in sys.modules if name.startswith("soscope")),
]))
print("error", file=sys.stderr)
sys.stdout.flush()
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a folder for runs of a soscope that does what a test writes beside it."""
    (tmp_path / "soscope").mkdir()
    (tmp_path / "soscope" / "__init__.py").touch()
    (tmp_path / "here").mkdir()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    begun, forked.server = forked.server, forked.Server()
    yield tmp_path / "here"
    forked.end()
    forked.server = begun


def write(fake: Path, text: str) -> None:
    (fake.parent / "soscope" / "__main__.py").write_text(text)


def test_a_run_is_as_in_an_interpreter_of_its_own(fake: Path) -> None:
    write(fake, TOLD)
    words = [*SOSCOPE, "report", "a b", "\udcff", ""]
    env = {"SOSC_\udcfe": "\udcfd", "NO_COLOR": "1"}
    here = forked.read(words, {**os.environ, **env}, fake, limit())
    assert here is not None
    there = subprocess.run(
        words,
        cwd=fake,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        start_new_session=True,
        check=False,
    )
    assert (here.stdout, here.stderr) == (there.stdout, there.stderr)
    assert here.returncode == there.returncode == 0
    assert '"report"' in here.stdout


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("raise SystemExit(3)", 3),
        ("import os; os._exit(7)", 7),
        ("raise KeyError", 1),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL),
    ],
)
def test_a_run_ends_as_it_ends(fake: Path, text: str, status: int) -> None:
    write(fake, text)
    done = run([*SOSCOPE, "report"], cwd=fake)
    assert done.returncode == status
    assert ("KeyError" in done.stderr) is (status == 1)


def test_a_run_leaves_nothing_for_the_next(fake: Path) -> None:
    write(fake, "import sys, os; print(hasattr(sys, 'was')); sys.was = 1; os.environ['WAS'] = '1'")
    assert [run([*SOSCOPE, "check"], cwd=fake).stdout for _ in range(2)] == ["False\n"] * 2


def test_a_run_finds_imported_what_another_has_imported(fake: Path) -> None:
    (fake.parent / "soscope" / "part.py").write_text("print('imported')")
    write(fake, "import sys; before = 'soscope.part' in sys.modules\n"
          "import soscope.part; print(before, flush=True)")  # fmt: skip
    first, second = (run([*SOSCOPE, "report"], cwd=fake) for _ in range(2))
    assert (first.stdout, second.stdout) == ("imported\nFalse\n", "True\n")


def test_a_run_that_forks_or_makes_modules_tells_its_own_imports_alone(fake: Path) -> None:
    write(fake, "import os, sys, types\nsys.modules['made'] = types.ModuleType('made')\n"
          "if not os.fork():\n    import colorsys\n    os._exit(0)\n"
          "os.wait()\nprint('colorsys' in sys.modules)")  # fmt: skip
    assert [run([*SOSCOPE, "report"], cwd=fake).stdout for _ in range(3)] == ["False\n"] * 3


def test_much_output_of_both_kinds(fake: Path) -> None:
    write(fake, "import sys\nfor _ in range(200):\n sys.stdout.write('o' * 999 + '\\r\\n')\n"
          " sys.stderr.write('e' * 999 + '\\n')\n")  # fmt: skip
    done = run([*SOSCOPE, "map"], cwd=fake)
    assert done.stdout == ("o" * 999 + "\n") * 200
    assert done.stderr == ("e" * 999 + "\n") * 200


def test_a_run_that_hangs_is_killed(fake: Path) -> None:
    write(fake, "import sys, os, signal\nprint(os.getpid(), flush=True)\nsignal.pause()\n")
    with pytest.raises(subprocess.TimeoutExpired) as ran_out:
        run([*SOSCOPE, "check"], cwd=fake, timeout=2)
    assert not os.path.exists(f"/proc/{int(ran_out.value.output)}")
    write(fake, "print('next')")
    assert run([*SOSCOPE, "check"], cwd=fake).stdout == "next\n"


def test_what_an_interpreter_reads_when_it_starts_wants_one(fake: Path) -> None:
    assert forked.read([*SOSCOPE, "report"], {**os.environ, "PYTHONUTF8": "0"}, fake, 9) is None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    assert forked.read([*SOSCOPE, "report"], os.environ, fake, 9) is None
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_folder_with_modules_wants_an_interpreter(fake: Path) -> None:
    (fake / "json.py").touch()
    assert forked.read([*SOSCOPE, "report"], os.environ, fake, 9) is None


@pytest.mark.parametrize("words", ["trace -c true", "mem run true", "doctor", "--debug trace true"])
def test_verbs_that_do_more_than_read_have_an_interpreter(fake: Path, words: str) -> None:
    assert forked.read([*SOSCOPE, *words.split()], os.environ, fake, 9) is None
