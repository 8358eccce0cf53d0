# SPDX-License-Identifier: Apache-2.0
"""Run a program in a test: always with an end in sight, never leaving children behind."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO

from tests.support.processes import forked
from tests.support.time.patience import limit

# What soscope says of the cost of an observation (control/outcome.py), where it names a
# recording, too.
_COST = re.compile(
    r"(soscope: )?('.*': )?([\w-]+ cost the program |(threads of )?the program (has )?waited |"
    r"the host took )"
)


def run(
    argv: Sequence[str | os.PathLike[str]],
    *,
    timeout: float | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    stdin: int | IO[str] | None = subprocess.DEVNULL,
    stdout: int | IO[str] = subprocess.PIPE,
    stderr: int | IO[str] = subprocess.PIPE,
    input: str | None = None,  # noqa: A002  the name that subprocess.run gave it
    pass_fds: Sequence[int] = (),
) -> subprocess.CompletedProcess[str]:
    """Run `argv` in a session of its own and return what it printed and how it ended.

    `env` is added to this process's environment. After `timeout` seconds, else `limit()`, the whole
    session is killed and subprocess.TimeoutExpired raised, with what was printed until then.
    Undecodable bytes survive as surrogates. A verb of soscope that only reads has an interpreter
    whose libraries are there already (forked.py).
    """
    seconds = limit() if timeout is None else timeout
    environment = {**os.environ, **(env or {})}
    is_usual = stdin == subprocess.DEVNULL and stdout == stderr == subprocess.PIPE
    if is_usual and input is None and not pass_fds:
        done = forked.read(argv, environment, cwd, seconds)
        if done is not None:
            return done
    process = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE if input is not None else stdin,
        stdout=stdout,
        stderr=stderr,
        cwd=cwd,
        env=environment,
        pass_fds=pass_fds,
        text=True,
        errors="surrogateescape",
        start_new_session=True,
    )
    try:
        out, err = process.communicate(input, timeout=seconds)
    except BaseException:
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    return subprocess.CompletedProcess(argv, process.returncode, out or "", err or "")


def besides_cost(said: str) -> str:
    """Return what was said besides the notes on what soscope has cost the program.

    Whether there are any depends on the machine: a program waits for soscope, which waits for a
    processor. `said` is what soscope printed, or a note of a document. Example:
    `assert (done.returncode, besides_cost(done.stderr)) == (0, "")`.
    """
    lines = said.splitlines(keepends=True)
    return "".join(line for line in lines if not _COST.match(line))


def kill(process: subprocess.Popen[str], *others: int | None) -> None:
    """Kill `process` and the processes of `others` that still run; wait for `process`."""
    for pid in (*others, process.pid):
        if pid:
            with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=limit(30))


def imported(code: str) -> set[str]:
    """Return the modules that `code` imports, in an interpreter without site packages' hooks."""
    start = f"import sys; sys.path[:0] = {sys.path!r}; before = set(sys.modules); "
    end = "\nprint(*(set(sys.modules) - before), file=sys.stderr)"
    done = run([sys.executable, "-I", "-S", "-c", start + code + end])
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines()[-1].split())


def soscope(
    *argv: str | os.PathLike[str],
    timeout: float | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    input: str | None = None,  # noqa: A002  as above
) -> subprocess.CompletedProcess[str]:
    """Run `soscope argv…` with the interpreter of the tests."""
    words = [sys.executable, "-m", "soscope", *argv]
    return run(words, timeout=timeout, env=env, cwd=cwd, input=input)
