# SPDX-License-Identifier: Apache-2.0
"""How many faults the tests catch: change one place of soscope, run the tests that reach it.

    python -m tests.mutants draw                              # print the list of changes
    python -m tests.mutants draw --json > drawn.json          # the same, with places
    python -m tests.mutants run --tree /tmp/mutants --drawn drawn.json --reach reach.json -o out.md
    python -m tests.mutants apply 7 --tree /tmp/mutants       # to look at one of them by hand
    python -m tests.mutants undo --tree /tmp/mutants
    python -m tests.mutants revert 8754a7a8 5a5b034c --tree /tmp/mutants -o reverted.md

`draw` takes lines of code at random, all with the same chance, and changes one thing in each: a
comparison, an operator, a number, a condition, a returned value, or a statement that it deletes.
The same seed and the same sources give the same list. Left out are tables, texts, annotations,
asserts and assembly. A change that does not compile is drawn again, and so is a change of the
agent that leaves the compiler's output as it was. Some changes mean the same as what they
replace: no test can catch those, and the list has to be read with that in mind.

`run` works in a clone that it makes once, with soscope installed in an environment of its own; the
checkout stays as it is. It gives each change two minutes of tests, the nearest tests first. The
first test that fails with the change and passes without it has caught it. The table has one row
for each change; a row that is there already is not made again, so a run can go on later:

    | 7 | native/agent/ring/ring.c:88 | `if (a < b) -> if (a <= b)` | caught by tests/... in 9 s |

`revert` does the same with fixes: it takes back what a commit has changed in src/ and native/, and
runs the test files that the commit has changed. A commit that later ones have built upon may not
be taken back: the table says so.

`--reach` names the tests that reach each change, as `{"7": ["tests/unit/...", ...]}`. Without it
tests are near where the names of their files are like that of the changed file. tests/test_project
is left out: it looks at the text of the sources, not at what they do. A wait that runs out is a
failure here, and a test may take a minute. A changed soscope may do anything to processes and
files: run this where nothing can be lost.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import functools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from tests.support.mutations.drawing import Mutation, changed, draw

REPOSITORY = Path(__file__).parents[1]
SEED, SECONDS = 20261129, 120
_TESTS_FIRST = 30  # tests of the first pytest for a change; each further one has four times as many
_ONE_TEST = 60  # seconds
_PACKAGES = f".venv/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
_SOURCES = ("src", "native")
_NOT_RUN = "tests/test_project.py"
_NOT_BEGUN = "pytest, before the first test,"
_PR_SET_CHILD_SUBREAPER = 36

# ---- which tests, in which order -------------------------------------------------


def nearest_first(file: str, tests: Iterable[str]) -> list[str]:
    """Sort tests: those of the changed file's own, of its folder, of the most like names."""
    inner = PurePosixPath(file.removeprefix("src/soscope/").removeprefix("native/agent/"))
    folder = f"tests/unit/{inner.parent}/"
    own = f"{folder}test_{inner.stem}"

    def distance(test: str) -> tuple[bool, bool, int]:
        path = PurePosixPath(test.partition("::")[0])
        words = path.stem.split("_")[1:]
        alike = sum(len(word) > 2 and word in str(inner) for word in words)
        return not str(path).startswith(own), not str(path).startswith(folder), -alike

    return sorted(tests, key=distance)


def by_name(file: str, tests: list[str], seed: int) -> list[str]:
    """Return the tests that may reach a file, where nobody knows: the nearest first."""
    if file.startswith("native/"):
        tests = [test for test in tests if test.startswith(("tests/agent/", "tests/integration/"))]
    paths = sorted({test.partition("::")[0] for test in tests})
    random.Random(seed).shuffle(paths)
    rank = {path: number for number, path in enumerate(paths)}
    return nearest_first(file, sorted(tests, key=lambda test: rank[test.partition("::")[0]]))


def numbers(text: str) -> set[int]:
    """Read "1-3,7"."""
    ends = [part.partition("-")[::2] for part in text.split(",")]
    return {number for first, last in ends for number in range(int(first), int(last or first) + 1)}


# ---- a tree with soscope installed -----------------------------------------------


def _do(*words: str | Path, folder: Path | None = None) -> str:
    """Run a command that has to end well; return what it printed."""
    done = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


class DoesNotBuildError(Exception):
    """What has been changed cannot be installed."""


class DoesNotApplyError(Exception):
    """What a commit has changed has been changed again since."""


class Tree:
    """A clone of the repository, and an environment that has soscope as the clone has it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.python = self.folder / ".venv" / "bin" / "python"
        self._build = self.folder / "build"
        self._packages = self.folder / _PACKAGES
        if not (mark := self._build / "mutants").exists():
            if self.folder.exists():
                sys.exit(f"{folder} is there already, and nothing that this tool has made")
            self._make()
            mark.touch()

    def _make(self) -> None:
        _do("git", "clone", "--quiet", REPOSITORY, self.folder)
        venv.create(self.folder / ".venv", symlinks=True)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
        wheels = self._build / "wheel"
        alone = ["--quiet", "--no-deps"]
        _do(*pip, "wheel", *alone, "--no-build-isolation", "-w", wheels, self.folder)
        _do(*pip, "--python", self.python, "install", *alone, *wheels.glob("*.whl"))
        # all other packages are those of the interpreter that runs this
        (self._packages / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
        self._build_agent()

    def apply(self, mutation: Mutation) -> None:
        """Put a mutation into the clone, and install what comes of it."""
        path = self.folder / mutation.file
        source = path.read_text()
        if source[mutation.start : mutation.end] != mutation.before:
            sys.exit(f"{mutation.file} is not the file that was drawn from")
        path.write_text(changed(source, mutation.start, mutation.end, mutation.after))
        self._install(mutation.file)

    def revert(self, commit: str) -> None:
        """Take back what a commit has changed in soscope, and install what is left."""
        patch = self._git("diff", "--binary", f"{commit}^", commit, "--", *_SOURCES)
        words = ["git", "apply", "--reverse", "--3way", "-"]
        if subprocess.run(words, cwd=self.folder, input=patch, text=True, check=False).returncode:
            self._git("reset", "--quiet", "--hard")
            raise DoesNotApplyError
        self._install(*self._changed())

    def undo(self) -> None:
        """Take the change out again."""
        if files := self._changed():
            self._git("reset", "--quiet", "--hard")
            self._install(*files)

    def tests_of(self, commit: str) -> list[str]:
        """Return the paths of the tests that a commit has changed."""
        return self._git("show", "--format=", "--name-only", commit, "--", "tests").splitlines()

    def subject(self, commit: str) -> str:
        """Return the first line of what a commit says."""
        return self._git("show", "--no-patch", "--format=%s", commit).strip()

    def _git(self, *words: str) -> str:
        return _do("git", *words, folder=self.folder)

    def _changed(self) -> list[str]:
        return self._git("diff", "HEAD", "--name-only", "--no-renames").splitlines()

    def _install(self, *files: str) -> None:
        try:
            if any(file.startswith("native/") for file in files):
                self._build_agent()
            for file in files:
                if file.startswith("src/"):
                    self._copy(file)
        except subprocess.CalledProcessError as error:
            raise DoesNotBuildError from error

    def _copy(self, file: str) -> None:
        path = self._packages / Path(file).relative_to("src")
        if (source := self.folder / file).exists():
            path.parent.mkdir(exist_ok=True)
            shutil.copyfile(source, path)
        else:
            path.unlink()
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
            compiled.unlink()  # it may be as old and as long
        if path.parent.name == "prototypes":  # its modules compile the declarations of the wheel
            words = ["-m", "soscope.prototypes.build", "prototypes"]
            to = self._packages / "soscope" / "_agent" / "prototypes.bin"
            _do(self.python, *words, to, folder=self.folder)

    def _build_agent(self) -> None:
        to = self._build / "agent"
        if not to.exists():
            _do("cmake", "-S", self.folder / "native", "-B", to, "-DCMAKE_BUILD_TYPE=Release")
        _do("cmake", "--build", to, "--parallel", "2")
        name = "libsoscope-agent.so"
        shutil.copyfile(to / name, self._packages / "soscope" / "_agent" / name)


# ---- running tests ---------------------------------------------------------------

_TOLD = re.compile(r"\[gw\d+\] \[ *\d+%\] ([A-Z]+) (.+)")  # pytest -v, with workers


class Told(NamedTuple):
    """What pytest said of some tests."""

    tests: list[str]  # that have run, and did not fail
    failed: str | None  # the first one that did; "": pytest failed before the first
    seconds: float
    is_late: bool


def read_log(text: str) -> tuple[list[str], list[str]]:
    """Return the tests that passed (or were skipped), and those that failed."""
    passed: list[str] = []
    failed: list[str] = []
    for word, test in _TOLD.findall(text):
        group = test.partition("::")[0]  # xdist adds it where one worker has all of a file
        test_id = test.rstrip().removesuffix(f"@{group}")
        (failed if word in {"FAILED", "ERROR"} else passed).append(test_id)
    return passed, failed


def run_tests(tree: Tree, tests: list[str], seconds: float) -> Told:
    """Run tests up to the first failure, or until the time is over."""
    begin = time.monotonic()
    listed, log = tree.folder / "build" / "tests.txt", tree.folder / "build" / "tests.log"
    listed.write_text("".join(f"{test}\n" for test in tests))
    words = "-x -v --tb=short --color=no -p no:cacheprovider -n 2 --dist loadgroup".split()
    words += ["--no-loadscope-reorder", f"--timeout={_ONE_TEST}", f"@{listed}"]
    with log.open("w") as out:
        # a wait that ran out is a failure, and not to be tried again
        process = subprocess.Popen(
            [tree.python, "-m", "pytest", *words],
            cwd=tree.folder,
            env={**os.environ, "SOSCOPE_TEST_AGAIN": "1"},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(max(seconds, 1))
        except subprocess.TimeoutExpired:
            status = None  # out of time, which the table says
        finally:
            with contextlib.suppress(ProcessLookupError):  # all have ended
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            _end_strays()
    passed, failed = read_log(log.read_text(errors="replace"))
    if not failed and status not in {0, 5, None}:
        failed = [""]
    return Told(passed, failed[0] if failed else None, time.monotonic() - begin, status is None)


def _end_strays() -> None:
    """End what tests have left behind: they are children of this process by now."""
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    while pids := children.read_text().split():
        for pid in map(int, pids):
            with contextlib.suppress(ProcessLookupError):  # it has ended
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def judge(tree: Tree, change: Callable[[], None], tests: list[str], seconds: float) -> str:
    """Say which test catches what `change` does to the tree, if one does."""
    left, count, size = seconds, 0, _TESTS_FIRST
    try:
        change()
        while tests:
            told = run_tests(tree, tests[:size], left)
            left -= told.seconds
            count += len(told.tests)
            if told.failed is not None:
                tree.undo()
                again = [told.failed] if told.failed else tests[:size]
                without = run_tests(tree, again, 3 * _ONE_TEST)
                if without.tests and without.failed is None:
                    name = told.failed or _NOT_BEGUN
                    return f"caught by {name} in {seconds - left:.0f} s"
                change()
            if told.is_late or left <= 0:
                return f"out of time after {count} tests"
            done = {*told.tests, told.failed} if told.failed else {*tests[:size]}
            tests = [test for test in tests if test not in done]
            size *= 1 if told.failed else 4
    except DoesNotBuildError:
        return "caught by the build"
    except DoesNotApplyError:
        return "cannot be taken back"
    finally:
        tree.undo()
    return f"survived {count} tests"


# ---- the command -----------------------------------------------------------------


def _run(asked: argparse.Namespace, tree: Tree, drawn: list[Mutation]) -> None:
    """Judge mutations, and write the table."""
    reach = json.loads(asked.reach.read_text()) if asked.reach else None
    known = _known(asked, tree)
    table = Table(asked.output, "number", "place", "change")
    chosen = numbers(asked.numbers) if asked.numbers else {mutation.number for mutation in drawn}
    for mutation in drawn:
        number, file = mutation.number, mutation.file
        if str(number) in table.judged or number not in chosen:
            continue
        if reach is None:
            tests = by_name(file, known, asked.seed)
        else:
            there = set(known)
            tests = nearest_first(file, filter(there.__contains__, reach.get(str(number), [])))
        outcome = judge(tree, functools.partial(tree.apply, mutation), tests, asked.seconds)
        table.add(str(number), f"{file}:{mutation.line}", f"`{mutation.change}`", outcome)
    table.sum_up()


def _revert(asked: argparse.Namespace, tree: Tree) -> None:
    """Judge fixes that are taken back, and write the table."""
    known = _known(asked, tree)
    table = Table(asked.output, "commit", "subject")
    for commit in asked.commits:
        if commit in table.judged:
            continue
        files = set(tree.tests_of(commit))
        tests = [test for test in known if test.partition("::")[0] in files]
        outcome = judge(tree, functools.partial(tree.revert, commit), tests, asked.seconds)
        if _NOT_BEGUN in outcome:  # they import what the commit has brought
            outcome = "cannot be judged: its tests do not begin without it"
        table.add(commit, tree.subject(commit), outcome)
    table.sum_up()


def _check_commits(commits: Iterable[str]) -> None:
    """End with a message if one of them is no commit that has a parent."""
    for commit in commits:
        words = ["git", "rev-parse", "--quiet", "--verify", f"{commit}^"]
        if subprocess.run(words, cwd=REPOSITORY, stdout=subprocess.DEVNULL, check=False).returncode:
            sys.exit(f"{commit} is no commit of this repository, or its first one")


def _known(asked: argparse.Namespace, tree: Tree) -> list[str]:
    listed = asked.tests.read_text() if asked.tests else _collect(tree)
    return [line for line in listed.splitlines() if "::" in line and _NOT_RUN not in line]


class Table:
    """The table in Markdown. It grows row by row, so that a run can go on later."""

    def __init__(self, path: Path, *columns: str) -> None:
        self._path = path
        if not path.exists():
            head = "".join(f"| {column} " for column in (*columns, "outcome"))
            path.write_text(f"{head}|\n{'| --- ' * (len(columns) + 1)}|\n")
        self.judged = {row.split()[1] for row in self._rows()}

    def add(self, *cells: str) -> None:
        """Write a row, and print it."""
        row = "".join("| " + cell.replace("|", r"\|") + " " for cell in cells) + "|\n"
        print(row, end="", flush=True)
        with self._path.open("a") as out:
            out.write(row)

    def sum_up(self) -> None:
        """Print how many were caught."""
        rows = self._rows()
        print(f"{sum('| caught by ' in row for row in rows)} of {len(rows)} are caught")

    def _rows(self) -> list[str]:
        return self._path.read_text().splitlines()[2:]


def _collect(tree: Tree) -> str:
    words = ["-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    return _do(tree.python, *words, "tests", folder=tree.folder)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    drawing, tree = (argparse.ArgumentParser(add_help=False) for _ in range(2))
    drawing.add_argument("--seed", type=int, default=SEED, help="of what is drawn (%(default)s)")
    drawing.add_argument("--agent", type=int, default=20, help="how many in C (%(default)s)")
    drawing.add_argument("--python", type=int, default=40, help="how many in Python (%(default)s)")
    tree.add_argument("--tree", type=Path, required=True, help="a clone, made if it is not there")
    running = argparse.ArgumentParser(add_help=False)
    running.add_argument("-o", "--output", type=Path, required=True, help="the table, in Markdown")
    running.add_argument("--tests", type=Path, help="ids of tests, one a line (all)")
    running.add_argument(
        "--seconds", type=float, default=SECONDS, help="for each change (%(default)s)"
    )
    again = argparse.ArgumentParser(add_help=False, parents=[drawing, tree])
    again.add_argument("--drawn", type=Path, help="what draw --json printed; else it is drawn anew")
    draw_verb = verbs.add_parser("draw", parents=[drawing], help="print the list")
    draw_verb.add_argument("--json", action="store_true", help="for a program")
    apply_verb = verbs.add_parser("apply", parents=[again], help="put one into a tree")
    apply_verb.add_argument("number", type=int)
    verbs.add_parser("undo", parents=[tree], help="take it out again")
    run_verb = verbs.add_parser("run", parents=[again, running], help="see which tests catch them")
    run_verb.add_argument("--numbers", help="which, as 1-20,33 (all)")
    run_verb.add_argument("--reach", type=Path, help="JSON: number -> ids of tests that reach it")
    revert_verb = verbs.add_parser("revert", parents=[tree, running], help="take fixes back")
    revert_verb.add_argument("commits", nargs="+", metavar="COMMIT")
    return parser.parse_args()


def main() -> None:
    """Do what the command line asks for."""
    asked = _asked()
    if asked.verb == "draw":
        drawn = draw(REPOSITORY, asked.seed, asked.agent, asked.python)
        if asked.json:
            print(json.dumps([mutation._asdict() for mutation in drawn], indent=1))
        else:
            print(*map(_line, drawn), sep="\n")
        return
    if asked.verb == "revert":
        _check_commits(asked.commits)
    tree = Tree(asked.tree)
    tree.undo()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a script's `&` has it ignored
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    if asked.verb == "undo":
        return
    if asked.verb == "revert":
        _revert(asked, tree)
        return
    if asked.drawn:
        drawn = [Mutation(**row) for row in json.loads(asked.drawn.read_text())]
    else:
        drawn = draw(tree.folder, asked.seed, asked.agent, asked.python)
    if asked.verb == "apply":
        tree.apply(next(mutation for mutation in drawn if mutation.number == asked.number))
    else:
        _run(asked, tree, drawn)


def _line(mutation: Mutation) -> str:
    place = f"{mutation.file}:{mutation.line} {mutation.function}"
    return f"{mutation.number:2} {place}\n   {mutation.change}"


if __name__ == "__main__":
    main()
