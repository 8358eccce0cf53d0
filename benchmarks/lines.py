# SPDX-License-Identifier: Apache-2.0
"""Whose line is right: calls as the program itself tells them, beside what tracers print.

python3 benchmarks/lines.py [TABLE...]

Prints a row of a table for each tracer: of so many calls, how many lines show every argument and
the result as the program tells them, how many do in part, how many are not there. Each tracer
gets a program that it can trace: lazily bound, of a fixed address, without IBT.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

if __package__ in (None, ""):
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from benchmarks.measure import Failed, run
from benchmarks.tools import Tools
from tests.support.targets import accounted

_FLAGS = ("-no-pie", "-Wl,-z,lazy", "-fcf-protection=none")
_SECONDS = 60
_CALL = re.compile(r"(?:^|\s|->)([A-Za-z_]\w*)\(")
_CLOSING = {"(": ")", "{": "}", "[": "]"}

Shown = dict[str, list[tuple[list[str], str]]]  # by function: arguments and result of each line


class Score:
    """How many calls a tracer has shown in full, in part, and not at all."""

    def __init__(self) -> None:
        self.calls = 0
        self.right = 0
        self.part = 0
        self.wrong = 0

    def row(self, name: str) -> str:
        """Return the row of the table."""
        missing = self.calls - self.right - self.part - self.wrong
        return f"| {name} | {self.calls} | {self.right} | {self.part} | {self.wrong} | {missing} |"


def split(line: str) -> tuple[str, list[str], str] | None:
    """Return function, arguments and result of a line, None where it shows no call."""
    match = _CALL.search(line)
    if match is None:
        return None
    words, word, open_, at = [], "", [], match.end()
    quote = ""
    while at < len(line):
        letter = line[at]
        if quote:
            word += letter
            if letter == "\\":
                at += 1
                word += line[at : at + 1]
            elif letter == quote:
                quote = ""
        elif letter in "\"'":
            quote = letter
            word += letter
        elif not open_ and letter in ",)":
            if word.strip():
                words.append(word.strip())
            word = ""
            if letter == ")":
                break
        else:
            if letter in _CLOSING:
                open_.append(_CLOSING[letter])
            elif open_ and letter == open_[-1]:
                open_.pop()
            word += letter
        at += 1
    result = line[at + 1 :].strip().removeprefix("=").strip().removesuffix(";")
    return match.group(1), words, result


def shown(text: str) -> Shown:
    """Return the calls that a tracer's output shows."""
    found: Shown = defaultdict(list)
    for line in text.splitlines():
        parts = split(line)
        if parts is not None and "<unfinished" not in line:
            found[parts[0]].append(parts[1:])
    return found


def _agrees(kind: str, value: object, text: str) -> bool:
    try:
        return accounted.agrees(kind, value, re.sub(r" [A-Z]\w+ \(.*\)$", "", text))
    except (ValueError, KeyError, IndexError):
        return False


def by_name(lines: Shown) -> Shown:
    """Return lines of functions of C++, by their names without what they take."""
    named: Shown = defaultdict(list)
    for symbol, name in zip(lines, accounted.plain(list(lines)), strict=True):
        named[name] += lines[symbol]
    return named


def count(told: list[accounted.Told], lines: Shown, score: Score) -> None:
    """Compare what a program tells with what a tracer shows of it."""
    taken: dict[str, int] = defaultdict(int)
    for function, arguments, result, _ in told:
        score.calls += 1
        at = taken[function]
        taken[function] += 1
        if at >= len(lines.get(function, ())):
            continue
        texts, end = lines[function][at]
        points = [
            number < len(texts) and _agrees(kind, value, texts[number])
            for number, (kind, value) in enumerate(arguments)
        ]
        points.append(result[0] in ("v", "_") or _agrees(*result, end))
        if all(points) and len(texts) == len(arguments):
            score.right += 1
        elif any(points):
            score.part += 1
        else:
            score.wrong += 1


def _outputs(
    tools: Tools, program: Path, names: list[str], told: Path
) -> dict[str, tuple[str, list[accounted.Told]]]:
    """Return what each tracer prints of the program's calls, and what the program tells then.

    Addresses are others in each run.
    """
    work = Path(tools.work)
    file, data = work / "lines", work / "uftrace.data"
    words = [str(program), str(told)]
    found = {}
    own = ["trace", "-q", "-s", "4096", "--from", "MAIN", "--no-demangle", "-o", str(file)]
    own += ["-e", "+".join(names)]
    run([*tools.soscope, *own, "--", *words], timeout=_SECONDS)
    found["soscope"] = file.read_text(errors="replace"), accounted.account(told)
    if shutil.which("ltrace"):
        chosen = "+".join(f"{name}@MAIN" for name in names)
        run(["ltrace", "-s", "4096", "-e", chosen, "-o", str(file), *words], timeout=_SECONDS)
        found["ltrace"] = file.read_text(errors="replace"), accounted.account(told)
    if shutil.which("uftrace"):
        record = ["uftrace", "record", "--force", "-a", "-d", str(data), "--demangle=no", *words]
        # its status says nothing of the program's
        subprocess.run(record, capture_output=True, timeout=_SECONDS, check=False)
        replay = ["uftrace", "replay", "--no-pager", "-f", "none", "-d", str(data), "--demangle=no"]
        try:
            text = run(replay, timeout=_SECONDS).output
        except Failed:
            text = ""
        found["uftrace"] = text, accounted.account(told)
        shutil.rmtree(data, ignore_errors=True)
    return found


def main() -> int:
    """Print the table; return the exit status."""
    scores: dict[str, Score] = {}
    functions = set()
    with tempfile.TemporaryDirectory(prefix="soscope-lines-") as work:
        tools = Tools(work, [], sys.executable, sys.executable)
        for table in sys.argv[1:] or accounted.tables():
            lines, _, _ = accounted.read(table)
            names = sorted({line.name for line in lines})
            functions |= {(table, name) for name in names}
            program = accounted.build(table, Path(work), *_FLAGS)
            if accounted.is_cxx(table):
                names = accounted.defined(Path(work) / f"lib{table}.so")
            told = Path(work) / "told"
            for tracer, (text, account) in _outputs(tools, program, names, told).items():
                lines_of = by_name(shown(text)) if accounted.is_cxx(table) else shown(text)
                count(account, lines_of, scores.setdefault(tracer, Score()))
    print("| tracer | calls | right | in part | nothing right | not printed |")
    print("| --- | --- | --- | --- | --- | --- |")
    for tracer, score in scores.items():
        print(score.row(tracer))
    print(f"\n{len(functions)} functions.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
