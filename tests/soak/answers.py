# SPDX-License-Identifier: Apache-2.0
"""Whose addresses are right: soscope, gdb, drgn and the usual formula, asked side by side.

    python -m tests.soak.answers [--drgn-python PYTHON] [-o FILE]

The questions are those of the tests: every one whose truth the process itself has told, by
dlsym and `&symbol`, is also put to the others, in the same moment. It takes some minutes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.truth import asking, peers
from tests.support.truth.peers import CANNOT, Question, Said

HERE = Path(__file__).resolve().parents[1]
FILES = ("test_resolve*.py", "test_names.py", "test_jit.py")
_MOST = 24  # questions of a case: some change every field of a symbol
RIGHT, WRONG, GUESSED, REFUSED = "right", "wrong", "guessed", "refused"

_HEAD = """\
<!-- Written by tests/soak/answers.py. -->
# Whose addresses are right

Every question of the tests whose true answer the process has told itself (by `dlsym`, `dlvsym`
or `&symbol`), put to others in the same moment; of each case no more than {most}:

    {command}

- *right*: the address, or none where there is none.
- *wrong*: another address.
- *guessed*: one address where there is not one: a name that is hidden, ambiguous, closed, or not
  allocated in this thread.
- *refused*: nothing, though there is an address.
- *cannot be asked*: no way to name a version, a thread, a namespace or one of several images.

*The formula* is what profilers use: where the first mapping of a file begins, less its first
`p_vaddr`, plus the `st_value` that nm prints, of the first file in `/proc/PID/maps` that has the
name.

Besides, `tests/integration/test_resolve_every_name.py` asks soscope for every name, with every
version, that five C libraries export, some 25,000: none is wrong, and those that have no answer
are functions that are chosen at run time (IFUNC) and that nobody has called yet.
"""


def judge(truth: int, said: Said) -> str:
    """Compare an answer with the truth, 0 for none."""
    if isinstance(said, str):
        return CANNOT
    if truth:
        return RIGHT if said == truth else WRONG if said else REFUSED
    return GUESSED if said else RIGHT


class Table:
    """A pytest plug-in that asks others what the tests ask soscope."""

    def __init__(self, others: dict[str, Callable[[Question], Said]]) -> None:
        self.others = others
        self.cases: dict[str, dict[str, Counter[str]]] = {}
        self.harmed: dict[str, list[str]] = {}
        self.failed: list[str] = []
        self._case = ""
        self._known: set[str] = set()

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Note which case is next."""
        name = getattr(item, "originalname", item.name)
        self._case = name.removeprefix("test_").replace("_", " ")
        self._known = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what did not hold while others looked on."""
        if report.failed:
            self.failed.append(report.nodeid)

    def listen(self, pid: int, query: str, how: dict[str, object], truth: int, said: int) -> None:
        """Put one question to everybody."""
        how = {word: value for word, value in how.items() if word != "lists"}
        key = repr((query, sorted(how.items()), truth, pid))
        if key in self._known:
            return
        self._known.add(key)
        rows = self.cases.setdefault(self._case, {})
        if rows and rows["soscope"].total() >= _MOST and judge(truth, said) == RIGHT:
            return
        rows.setdefault("soscope", Counter())[judge(truth, said)] += 1
        question = Question(pid, query, how)
        for name, ask in self.others.items():
            before = _state(pid)
            rows.setdefault(name, Counter())[judge(truth, ask(question))] += 1
            if _state(pid) in "ZX?" and before not in "ZX?":
                self.harmed.setdefault(name, []).append(self._case)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "?"


def _cell(of: Counter[str]) -> str:
    words = [f"{of[RIGHT]} right"] if of[RIGHT] else []
    words += [f"**{of[one]} {one}**" for one in (WRONG, GUESSED) if of[one]]
    words += [f"{of[REFUSED]} refused"] if of[REFUSED] else []
    return ", ".join(words) or "-"


def _page(table: Table, command: str, drgn_python: str) -> str:
    names = ["soscope", *table.others]
    totals = {name: Counter[str]() for name in names}
    for rows in table.cases.values():
        for name, row in rows.items():
            totals[name].update(row)
    lines = [_HEAD.format(command=command, most=_MOST)]
    lines += ["| | right | wrong | guessed | refused | cannot be asked |", "| --- |" + " --- |" * 5]
    for name, total in totals.items():
        counts = (total[one] for one in (RIGHT, WRONG, GUESSED, REFUSED, CANNOT))
        lines.append(f"| {name} | " + " | ".join(map(str, counts)) + " |")
    for name, where in table.harmed.items():
        lines.append(f"\n{name} ended the process that it looked at: {', '.join(where)}.")
    lines += ["", "## By case", "", "| case | " + " | ".join(names) + " |"]
    lines.append("| --- |" + " --- |" * len(names))
    for case, rows in table.cases.items():
        cells = [_cell(rows.get(name, Counter())) for name in names]
        lines.append(f"| {case} | " + " | ".join(cells) + " |")
    lines += ["", "## Asked", "", *_versions(table, drgn_python)]
    return "\n".join(lines) + "\n"


def _versions(table: Table, drgn_python: str) -> list[str]:
    found = [f"- the system's C library: {_first('ldd', '--version')}"]
    if "gdb" in table.others:
        found.append(f"- {_first('gdb', '--version')}")
    if "drgn" in table.others:
        code = "import drgn; print('drgn', drgn.__version__)"
        found.append(f"- {_first(drgn_python, '-c', code)}")
    return found


def _first(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return (done.stdout.splitlines() or ["?"])[0]


def main() -> int:
    """Ask everybody; write the page; return 1 where soscope was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.answers")
    parser.add_argument("--drgn-python", default=sys.executable, help="a Python that has drgn")
    parser.add_argument("--tests", default="", help="only tests that match (pytest's -k)")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    table = Table(peers.found(options.drgn_python))
    asking.listeners.append(table.listen)
    files = [str(path) for one in FILES for path in sorted((HERE / "integration").glob(one))]
    words = ["-q", "-p", "no:cacheprovider", "-k", options.tests, *files]
    pytest.main(words, plugins=[table])
    page = _page(table, "python -m tests.soak.answers", options.drgn_python)
    if options.output is not None:
        options.output.write_text(page)
    print(page)
    print(*(f"did not hold meanwhile: {one}" for one in table.failed), sep="\n", file=sys.stderr)
    wrong = sum(row["soscope"][one] for row in table.cases.values() for one in (WRONG, GUESSED))
    return 1 if wrong or not table.cases else 0


if __name__ == "__main__":
    os.chdir(HERE.parent)
    sys.exit(main())
