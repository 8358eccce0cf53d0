# SPDX-License-Identifier: Apache-2.0
"""A process that says itself where its symbols are, to compare with what soscope says."""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from soscope.live.lookup.answer import Answer
from soscope.live.process import Process
from tests.support.targets import build
from tests.support.time.patience import limit
from tests.support.truth.asking import asked

SOURCES = Path(__file__).parents[2] / "targets" / "resolve"
LIBRARY = ("-shared", "-fPIC")


def made(
    name: str,
    text: str,
    *flags: str,
    compiler: str = "gcc",
    links: Sequence[Path] = (),
    files: Mapping[str, str] | None = None,
) -> Path:
    """Compile C `text` into a file called `name`, in a folder of its own; return its path.

    `links` are libraries to link with, found again through their folder; `files` (name -> text)
    lie beside the source.
    """
    source = f"{Path(name).stem}{'.cc' if compiler.endswith('++') else '.c'}"
    linked = [word for one in links for word in (str(one), f"-Wl,-rpath,{one.parent}")]
    command = [compiler, "-O1", "-g", source, *flags, *linked, "-o", name]
    return build.made({source: text, **(files or {})}, command) / name


def teller(*flags: str, compiler: str = "gcc", more: str = "", links: Sequence[Path] = ()) -> Path:
    """Return a program that answers; `more` is C with a function `own_more`."""
    text = (SOURCES / "teller.c").read_text()
    files = {"own.h": more} if more else {}
    words = [*flags, "-pthread", *(['-DOWN="own.h"'] if more else [])]
    return made("teller", text, *words, compiler=compiler, links=links, files=files)


class Teller:
    """A running teller: `tell` is its own account, `process` what soscope has of it."""

    def __init__(
        self,
        *command: str | os.PathLike[str],
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        executable: str | None = None,
    ) -> None:
        self.child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            executable=executable,
            errors="surrogateescape",
        )
        self.pid = self.child.pid  # of a program in a container: to be set by the test
        self._process: Process | None = None
        try:
            self.wait_ready()
        except BaseException:
            self.close()  # a child that is left behind fails whichever test comes next
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the program."""
        if self._process is not None:
            self._process.close()
        self.child.kill()
        self.child.wait()
        for stream in (self.child.stdin, self.child.stdout):
            assert stream is not None
            stream.close()

    @property
    def process(self) -> Process:
        """The process, opened once: it has to notice what changes."""
        if self._process is None:
            self._process = Process(self.pid)
        return self._process

    def _line(self) -> str:
        assert self.child.stdout is not None
        ready, _, _ = select.select([self.child.stdout], [], [], limit())
        assert ready, "the teller says nothing"
        return self.child.stdout.readline().rstrip("\n")

    def wait_ready(self) -> None:
        """Wait until it says that it has begun, which it does after an exec, too."""
        assert self._line() == "ready"

    def say(self, *words: str | os.PathLike[str]) -> str:
        """Give a command; return what it answers."""
        self.give(*words)
        return self._line()

    def give(self, *words: str | os.PathLike[str]) -> None:
        """Give a command that has no answer."""
        assert self.child.stdin is not None
        text = "\t".join(os.fspath(word) for word in words).replace("\n", "\a")
        self.child.stdin.write(text + "\n")
        self.child.stdin.flush()

    def tell(self, *words: str | os.PathLike[str]) -> int:
        """Give a command; return the address that it answers with, 0 for none."""
        text = self.say(*words)
        return 0 if text in ("(nil)", "0") else int(text, 16)

    def open(self, path: Path | str, flags: str = "now") -> str:
        """Load a library; return the number of its handle."""
        number = self.say("open", flags, path)
        assert number.isdecimal(), number
        return number

    def in_thread(self, *words: str) -> tuple[int, int]:
        """Give a command that a new thread carries out; return its id and the address."""
        tid, addr = self.say(*words).split("\t")
        return int(tid), 0 if addr in ("(nil)", "0") else int(addr, 16)

    def check(self, query: str, truth: int, **how: object) -> Answer:
        """Ask soscope, once anew and once of the open process; both must say the truth.

        A `truth` of 0 is a name that is not there.
        """
        options = dict(how)
        with Process(self.pid) as fresh:
            first = fresh.answer(query, **options)  # type: ignore[arg-type]  # as answer() takes them
        answer = self.process.answer(query, **options)  # type: ignore[arg-type]  # as above
        asked(self.pid, query, truth, answer.addr, **options)
        for one in (first, answer):
            said = one.addr or 0
            assert said == truth, f"{query}: {said:#x}, truth {truth:#x}: {one} {one.why}"
        return answer
