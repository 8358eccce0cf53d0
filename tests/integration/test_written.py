# SPDX-License-Identifier: Apache-2.0
"""An OUT argument is shown as far as the call has written it, by the program's own account."""

from __future__ import annotations

import errno
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.run import run
from tests.support.processes.tracing import SOSCOPE
from tests.support.targets import build, written
from tests.support.time.patience import limit

# What the buffers hold before each call, in every way that it could be shown: as a string,
# as numbers of four and eight bytes (-s 64 shows all that is kept).
STALE = re.compile(r"SSS|ZZZ|0x5353|0x5a5a|1397969747|1515870810|6004\d{15}|6510\d{15}")
IN_OUT = re.compile(r"\[\w+\]( => )?")  # what was there before a call
TESTED = [*written.CALLS, *dict.fromkeys(name for name, _, _ in written.REASONS)]
CHOSEN = ",".join(f"{name}@MAIN" for name in TESTED)

Calls = dict[str, list[list[written.Told]]]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written.built(tmp_path_factory.mktemp("written"))


def traced(program: Path, *options: str) -> tuple[Calls, str]:
    """Run the program under soscope; return its own account and soscope's output."""
    told, output = program.parent / "account", program.parent / "output"
    command = [*SOSCOPE, "-q", "-o", str(output), "-e", CHOSEN, *options]
    done = run([*command, "--", str(program), str(told)], timeout=limit(240))
    assert done.returncode == 0, done.stderr
    calls: dict[int, list[written.Told]] = defaultdict(list)
    for line in written.account(told):
        calls[line.call].append(line)
    by_name: Calls = defaultdict(list)
    for lines in calls.values():
        by_name[lines[0].name].append(lines)
    return by_name, output.read_text()


def both(account: Calls, calls: list[Any], name_of: Any) -> Iterator[tuple[written.Told, Any]]:
    """Yield each line of the account with the call that it is about."""
    seen = Counter(map(name_of, calls))
    assert seen == {name: len(lines) for name, lines in account.items()}
    at: Counter[str] = Counter()
    for call in calls:
        name = name_of(call)
        for told in account[name][at[name]]:
            yield told, call
        at[name] += 1


def test_every_out_argument_has_a_call_or_a_reason_why_not() -> None:
    known = [*written.CALLS, *(name for names in written.CANNOT.values() for name in names)]
    assert Counter(known) == Counter(list(written.outs()))


def test_json_shows_what_was_written_and_why_a_call_failed(program: Path) -> None:
    account, output = traced(program, "--json", "-s", "64")
    calls = [line for line in map(json.loads, output.splitlines()) if line["type"] == "call"]
    problems = []
    for told, call in both(account, calls, lambda call: call["symbol"]):
        reason = errno.errorcode.get(told.errno)
        if told.item >= 0:
            argument = call["args"][told.item]
            text = argument.get("out", argument)["text"]
            in_outs = written.in_outs()[call["symbol"]]
            is_shown_before = told.item in in_outs and "out" not in argument
            nothing = (told.address, '""', 'L""')
            if told.written == 0 and text not in nothing and not is_shown_before:
                problems.append(f"{told}: {text}")
            if STALE.search(text) and not is_shown_before:
                problems.append(f"{told}: {text} was there before")
            # Some functions return it.
            reasons = {None, reason, errno.errorcode.get((call["result"] or {})["value"])}
        else:
            reasons = {reason if told.failed else None}
        if call["errno"] not in reasons:
            problems.append(f"{told}: {call['errno']}")
    assert not problems, "\n".join(problems)


def test_lines_show_what_was_written(program: Path) -> None:
    account, output = traced(program, "-s", "64")
    calls: list[str] = []
    for line in output.splitlines():
        if "->" in line:
            calls.append(line)
        elif "resumed>" in line:  # posix_spawn, when its child has been
            calls[-1] += line

    def name_of(line: str) -> str:
        return line.partition("->")[2].partition("(")[0]

    problems = []
    for told, whole in both(account, calls, name_of):
        in_outs = written.in_outs().get(told.name, ())
        line = IN_OUT.sub("", whole) if in_outs else whole
        if told.item in in_outs:
            # An unwritten one is what it was at the call, as is one that has not changed.
            if not told.written and "=>" in whole:
                problems.append(f"{told}: {whole}")
            continue
        if STALE.search(line):
            problems.append(f"{told}: {line}")
        if told.item >= 0 and not told.written and told.address not in line and '""' not in line:
            problems.append(f"{told}: {line}")
        shown = re.search(r"\b(E[A-Z0-9]+) \(", line)
        if told.item < 0 and (shown and shown[1]) != errno.errorcode.get(told.errno):
            problems.append(f"{told}: {line}")
    assert not problems, "\n".join(problems)


def test_errors_are_counted_where_the_program_has_met_some(program: Path) -> None:
    account, output = traced(program, "-c", "--json")
    counted = {row["symbol"]: row["errors"] or 0 for row in json.loads(output)["rows"]}
    for name in dict.fromkeys(name for name, _, _ in written.REASONS):
        failed = sum(told.failed for lines in account[name] for told in lines)
        assert counted[name] == failed, name


def test_a_string_is_shown_as_far_as_its_precision_has_it_read(tmp_path: Path) -> None:
    output = tmp_path / "output"
    program = str(build.program("precision"))
    run([*SOSCOPE, "-q", "--json", "-o", str(output), "-e", "snprintf@MAIN", "--", program])
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    calls = [line["args"] for line in lines if line["type"] == "call"]
    assert len(calls) == 6
    for arguments in calls:
        printed = arguments[0]["out"]["value"]  # a digit, and the string behind spaces
        assert arguments[-1]["text"] == f'"{printed[1:].strip()}"', arguments
