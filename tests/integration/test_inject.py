# SPDX-License-Identifier: Apache-2.0
"""`soscope inject`: what a program says of its calls is what the rules say, and nothing else."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from soscope.instruments.inject.instrument import parse_rule, seed_of
from tests.support.machines.tools import need
from tests.support.processes import attached
from tests.support.processes.launching import compiled, environment
from tests.support.processes.run import run
from tests.support.targets import build
from tests.support.targets.build import made_in
from tests.support.time.patience import limit, until
from tests.support.time.progress import has_switched, waits_in

NAMES = ("calloc", "open", "posix_memalign")
ERRORS = {"calloc": "ENOMEM", "open": "EACCES", "posix_memalign": "ENOMEM"}
MARK = " (INJECTED)"
_FUTEX = 202  # on x86-64: in it a call waits that is delayed


def words(*options: str) -> list[str]:
    return [sys.executable, "-m", "soscope", "--debug", "inject", *options]


def inject(*options: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return run(words(*options), env={**environment(), **(env or {})}, timeout=limit())


@contextmanager
def injecting(pid: int, said: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Go into a process until the end of the block; what soscope says is in the file `said`."""
    with said.open("w") as file:
        injector = subprocess.Popen(
            words(*options, "-p", str(pid)), env=environment(), stderr=file, text=True
        )
    try:
        yield injector
    finally:
        injector.kill()
        injector.wait()


def end(injector: subprocess.Popen[str]) -> None:
    """End it as its user does."""
    injector.send_signal(signal.SIGINT)
    assert injector.wait(limit()) == 0


def program() -> str:
    return str(compiled("injected.c"))


def rules(options: str, *, more: str = ":from=MAIN") -> list[str]:
    """Return a rule for each function of the program: its own error, and some options."""
    return [
        word
        for name in NAMES
        for word in ("-e", f"inject={name}:error={ERRORS[name]}{options}{more}")
    ]


def accounts(text: str) -> list[tuple[str, str, str]]:
    return [(who, name, calls) for who, name, calls in map(str.split, text.splitlines())]


def expected(options: str, seed: int = 0, number: int = 0) -> str:
    """Return the program's account of 40 calls; the rule is `number` of its command."""
    rule = parse_rule(f"inject=calloc:error=ENOMEM{options}")
    own = seed_of(seed, number)
    return "".join("F" if rule.chooses(n, own) else "." for n in range(1, 41))


@pytest.mark.parametrize(
    "when", ["", ":when=3", ":when=3..", ":when=3+", ":when=3..7", ":when=2+5", ":when=2..30+7"]
)
def test_the_calls_fail_that_a_rule_chooses(when: str) -> None:
    done = inject(*rules(when), "--", program(), "rounds")
    assert done.returncode == 5
    assert accounts(done.stdout) == [("main", name, expected(when)) for name in NAMES]
    lines = [line for line in done.stderr.splitlines() if line.endswith(MARK)]
    assert len(lines) == 3 * expected(when).count("F")
    assert all(re.match(r"injected->(calloc|open|posix_memalign)\(", line) for line in lines)


def test_lines_are_those_of_a_trace() -> None:
    done = inject(*rules(":when=1"), "--", program(), "rounds")
    lines = [re.sub(r" +", " ", line) for line in done.stderr.splitlines()]
    assert lines[:4] == [
        "injected->calloc(3, 5) = nil ENOMEM (Cannot allocate memory) (INJECTED)",
        'injected->open("/dev/null", O_RDONLY) = -1 EACCES (Permission denied) (INJECTED)',
        lines[2],
        "+++ exited (status 5) +++",
    ]
    assert re.fullmatch(
        r"injected->posix_memalign\(0x[0-9a-f]+, 64, 100\) = 12 ENOMEM \(Cannot allocate memory\)"
        r" \(INJECTED\)",
        lines[2],
    )
    assert "soscope: inject=open:error=EACCES:when=1:from=MAIN: 1 of 40 calls injected" in lines


def test_chance_is_the_same_for_the_same_seed() -> None:
    options = ":when=5..:probability=25%"
    for seed in (0, 7, 7):
        done = inject(*rules(options), "--seed", str(seed), "--", program(), "rounds")
        assert accounts(done.stdout) == [
            ("main", name, expected(options, seed, number)) for number, name in enumerate(NAMES)
        ]
    assert "soscope: --seed 7 chooses the same calls again\n" in done.stderr


@pytest.mark.parametrize("follow", [True, False])
def test_children_count_from_one_on(follow: bool) -> None:
    done = inject(*rules(":when=2+9"), *(["-f"] if follow else []), "--", program(), "rounds", "3")
    mine, children = expected(":when=2+9"), expected(":when=2+9" if follow else ":when=100")
    wanted = [("main", name, mine) for name in NAMES]
    wanted += [("child", name, children) for name in NAMES] * 3
    assert accounts(done.stdout) == wanted
    seen = 4 if follow else 1
    assert done.stderr.count(MARK) == 3 * seen * mine.count("F")
    for name in NAMES:
        assert re.search(rf"{name}:\S+: {seen * mine.count('F')} of {seen * 40} calls", done.stderr)


def test_threads_count_together() -> None:
    rule = "inject=calloc:error=ENOMEM:from=MAIN:when=100..7000+3"
    done = inject("-e", rule, "--", program(), "threads", "4", "2000")
    assert done.stdout == f"{len(range(100, 7001, 3))} 0\n"
    assert f"soscope: {rule}: 2,301 of 8,000 calls injected\n" in done.stderr
    assert done.stderr.count(MARK) == 2301


def test_the_first_rule_that_chooses_decides_and_all_count() -> None:
    options = ["-e", "inject=calloc:retval=0:errno=EIO:when=2:from=MAIN"]
    options += ["-e", "inject=calloc:error=ENOMEM:when=2+2:from=MAIN", "--json"]
    done = inject(*options, "--", program(), "rounds")
    assert accounts(done.stdout)[0][2] == ".W" + ".F" * 19
    (last,) = [
        json.loads(line)
        for line in done.stderr.splitlines()
        if line.startswith('{"type": "inject"')
    ]
    assert [(row["calls"], row["injected"]) for row in last["rules"]] == [(40, 1), (40, 19)]
    calls = [json.loads(line) for line in done.stderr.splitlines() if '"type":"call"' in line]
    assert len(calls) == 20
    assert all(call["injected"] is True for call in calls)
    assert [call["errno"] for call in calls[:2]] == ["EIO", "ENOMEM"]


def test_callers_and_sites_are_told_apart() -> None:
    text = run([need("objdump"), "-d", program()], timeout=limit()).stdout
    (site,) = re.findall(r"call .*<calloc@plt>\n +([0-9a-f]+):", text)
    for where, count in (
        (f":site=injected+0x{site}", 1),
        (f":site=MAIN+0x{site}:from=injected", 1),
        (":site=injected+0x10", 0),
        (f":site=libc.so.6+0x{site}", 0),
        (":from=MAIN:from=nobody.so", 1),
        (":from=libc.so.6", 0),
        (f":from={program()}", 1),
    ):
        rule = f"inject=calloc:error=ENOMEM:when=4{where}"
        done = inject("-e", rule, "--", program(), "rounds")
        account = accounts(done.stdout)[0][2]
        assert (account.count("F"), account.count("W"), account[3]) == (
            count,
            0,
            "F" if count else ".",
        )


def test_calls_wait() -> None:
    rule = "inject=calloc:delay_enter=30ms:delay_exit=40000:when=2:from=MAIN"
    done = inject("-T", "-e", rule, "--json", "--", program(), "rounds")
    assert accounts(done.stdout)[0][2] == "." * 40
    (call,) = [json.loads(line) for line in done.stderr.splitlines() if '"type":"call"' in line]
    assert call["duration_ns"] >= 70_000_000
    assert call["delayed"] is True
    done = inject("-e", rule, "--", program(), "rounds")
    (line,) = [line for line in done.stderr.splitlines() if "calloc(" in line]
    assert line.endswith(" (DELAYED)")


def test_a_recording_says_the_same(tmp_path: Path) -> None:
    record, output = tmp_path / "run.sosr", tmp_path / "text"
    options = [*rules(":when=3..5"), "--record", str(record), "-o", str(output), "--seed", "4"]
    done = inject(*options, "--", program(), "rounds")
    report = [sys.executable, "-m", "soscope", "report"]
    shown = run([*report, str(record)], env=environment())
    assert shown.stdout == output.read_text()
    assert shown.stdout.count(MARK) == 9
    notes = [line for line in done.stderr.splitlines() if "calls injected" in line]
    assert [line for line in shown.stderr.splitlines() if "calls injected" in line] == notes
    last = run([*report, "--json", str(record)], env=environment()).stdout.splitlines()[-1]
    assert json.loads(last)["type"] == "inject"
    assert json.loads(last)["seed"] == 4
    assert [row["injected"] for row in json.loads(last)["rules"]] == [3, 3, 3]


def test_a_page_says_what_was_done_by_which_rule(tmp_path: Path) -> None:
    record, output = tmp_path / "run.sosr", tmp_path / "page"
    options = [*rules(":when=3..5"), "--record", str(record), "-o", str(output), "--seed", "4"]
    done = inject(*options, "--format", "md", "-T", "--", program(), "rounds")
    assert accounts(done.stdout) == [("main", name, expected(":when=3..5")) for name in NAMES]
    page = output.read_text()
    assert page.startswith("# soscope inject\n")
    assert "- seed: 4\n" in page
    for name in NAMES:
        assert f"| `inject={name}:error={ERRORS[name]}:when=3..5:from=MAIN` | 40 | 3 |\n" in page
        assert f"| `{name}` | 3 | 3 |" in page
    assert (
        '| `injected->open("/dev/null", O_RDONLY) = -1 EACCES (Permission denied) (INJECTED)` | 3 |'
    ) in page
    report = [sys.executable, "-m", "soscope", "report", "--format", "md", str(record)]
    assert run(report, env=environment()).stdout == page


def test_a_process_is_what_it_was(tmp_path: Path) -> None:
    said = tmp_path / "said"
    with attached.running([program(), "wait"]) as process:
        before = attached.snapshot(process.pid)
        for _ in range(3):
            rule = "inject=calloc:error=ENOMEM:when=3..7:from=MAIN"
            with injecting(process.pid, said, "-e", rule) as injector:
                until(lambda: said.read_text().count(MARK) >= 5, "five fail", running=injector)
                # the calls that follow are let through
                until(has_switched(process.pid), "the program calls on", running=injector)
                end(injector)
            assert said.read_text().count(MARK) == 5
            assert attached.differences(before, process.pid) == []
        assert attached.finish(process) == (5, "15 0\n", "")


@pytest.mark.soak
def test_a_session_that_comes_seconds_later(tmp_path: Path) -> None:
    """Its heartbeats are those of the session before: the agent took soscope for gone."""
    said = tmp_path / "said"
    with attached.running([program(), "wait"]) as process:
        for _ in range(3):
            with injecting(process.pid, said, "-e", "inject=calloc:error=ENOMEM:when=3..7") as one:
                until(lambda: said.read_text().count(MARK) >= 5, "five fail", running=one)
                end(one)
            until(has_switched(process.pid, 6000), "it waits for seconds", seconds=90)
        assert attached.finish(process) == (5, "15 0\n", "")


def test_children_of_a_process_count_from_one_on(tmp_path: Path) -> None:
    said = tmp_path / "said"

    def injected() -> Counter[int]:
        """Return how many calls of each process have failed."""
        whole = said.read_text().rpartition("\n")[0]
        lines = map(json.loads, filter(lambda line: line.startswith("{"), whole.splitlines()))
        calls = [line for line in lines if line["type"] == "call"]
        assert {call["result"]["value"] for call in calls} <= {-7}
        return Counter(call["pid"] for call in calls)

    with attached.running([build.program("forking")]) as process:
        before = attached.snapshot(process.pid)
        rule = "inject=abs:retval=-7:when=3..4:from=MAIN"
        with injecting(process.pid, said, "-f", "--json", "-e", rule) as injector:
            until(lambda: len(injected()) > 10, "ten children call", running=injector)
            end(injector)
        assert attached.differences(before, process.pid) == []
        status, out, _ = attached.finish(process)
    assert (status, out.splitlines()[-1]) == (7, "wrong 0")
    *_, last = [line for line in said.read_text().splitlines() if line.startswith("{")]
    (row,) = json.loads(last)["rules"]
    counts = injected()
    assert row["injected"] == counts.total()
    assert max(counts.values()) == 2
    # of the first, the last and the child that stays one may have been cut
    assert sum(count < 2 for count in counts.values()) <= 3


def test_ctrl_c_ends_the_injection_alone(tmp_path: Path) -> None:
    said = tmp_path / "said"
    with attached.running([program(), "wait"]) as process:
        before = attached.snapshot(process.pid)
        options = ["-e", "inject=calloc:error=ENOMEM:when=2:from=MAIN", "-e"]
        options += ["inject=calloc:delay_exit=600s:when=3:from=MAIN"]
        with injecting(process.pid, said, *options) as injector:
            until(lambda: MARK in said.read_text(), "the second call fails", running=injector)
            until(waits_in(process.pid, _FUTEX), "the third call waits", running=injector)
            end(injector)
        assert attached.differences(before, process.pid) == []
        assert attached.finish(process) == (5, "1 0\n", "")


def test_duration_lets_a_command_go_on() -> None:
    # the program tries at once again what is interrupted: without a delay a million times
    rule = "inject=nanosleep,clock_nanosleep:error=EINTR:delay_enter=5ms"
    options = ["-e", rule, "--duration", "200ms"]
    script = "import time\nfor _ in range(60): time.sleep(0.01)\nprint('end')"
    done = inject(*options, "--", sys.executable, "-c", script)
    assert done.stdout == "end\n"
    assert done.returncode == 0


def test_a_trace_sees_what_the_program_sees() -> None:
    code = """
import sys
from soscope.control.session import Session
from soscope.instruments.inject.instrument import InjectInstrument
from soscope.instruments.inject.instrument import parse_rule
from soscope.instruments.trace.instrument import TraceInstrument
from soscope.instruments.trace.listener import (Destination, Listener,)
from soscope.instruments.trace.settings import TraceSettings
from soscope.model.call import Exit

class Failures(Listener):
    results = []
    def events(self, batch):
        self.results += [event.result for event in batch if isinstance(event, Exit)]

command = sys.argv[1:]
settings = TraceSettings(command, select=["calloc@MAIN"])
rule = parse_rule("inject=calloc:error=ENOMEM:when=2+3:from=MAIN")
inject = InjectInstrument([rule], 0, follow=False, string_limit=32)
listener = Failures()
trace = TraceInstrument(settings, listener, Destination())
Session(settings, [inject, trace]).run()
print("".join("." if result else "F" for result in listener.results), inject.calls, inject.injected)
"""
    done = run([sys.executable, "-c", code, program(), "rounds"], env=environment())
    *_, last = done.stdout.splitlines()
    assert accounts(done.stdout)[0][2] == expected(":when=2+3")
    failed = expected(":when=2+3").count("F")
    # both instruments write records: those of the trace, and of each failure once more
    parts = re.fullmatch(r"(\S+) \[(\d+)\] \[(\d+)\]", last)
    assert parts is not None
    seen, counted, injected = parts.groups()
    assert (int(counted), int(injected)) == (40, failed)
    assert seen.count("F") == 2 * failed
    assert len(seen) == 40 + failed


def inject_and_kill(rule: str, pid: int, said: Path) -> None:
    """Have a call of the process fail, and kill soscope then."""
    with injecting(pid, said, "-e", rule) as injector:
        until(lambda: MARK in said.read_text(), "a call fails", running=injector)


def test_what_a_killed_soscope_leaves_is_taken_out(tmp_path: Path) -> None:
    with attached.running([program(), "wait"]) as process:
        before = attached.snapshot(process.pid)
        rule = "inject=calloc:error=ENOMEM:when=2:from=MAIN"
        inject_and_kill(rule, process.pid, tmp_path / "said")
        detach = [sys.executable, "-m", "soscope", "detach", "-p", str(process.pid)]
        assert run(detach, env=environment()).returncode == 0
        assert attached.differences(before, process.pid) == []
        assert attached.finish(process) == (5, "1 0\n", "")


# Says of each call whether it failed, and at the first one behind these for how long they did.
CALLS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC_RAW, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}
int main(void)
{
    long failing = 0;
    setvbuf(stdout, 0, _IONBF, 0);
    puts("ready");
    for (;;) {
        long before = now();
        void *p = calloc(3, 5);
        putchar(p ? '.' : 'F');
        if (p && failing)
            return printf(" %ld", now() - failing) < 0;
        if (!p && !failing)
            failing = before;
        free(p);
        usleep(20000);
    }
}
"""


def test_nothing_fails_any_more_when_soscope_was_killed(tmp_path: Path) -> None:
    """Its heart stands still: five seconds later calls are let through, without a detach."""
    with attached.running([compiled("calls.c", text=CALLS)]) as process:
        inject_and_kill("inject=calloc:error=ENOMEM:from=MAIN", process.pid, tmp_path / "said")
        seen, _ = process.communicate(timeout=limit())
    calls, _, failing = seen.partition(" ")
    assert re.fullmatch(r"\.*F+\.", calls), seen
    assert int(failing) > 5_000_000_000


# ---- programs of others ----------------------------------------------------------


def test_sqlite_says_that_it_is_out_of_memory() -> None:
    rule = "inject=malloc:error=ENOMEM:when=100..:from=libsqlite3.so.0"
    command = ["--", need("sqlite3"), "-batch", "-init", "/dev/null", ":memory:", "select 1"]
    first, second = (inject("-e", rule, *command) for _ in range(2))
    assert "out of memory" in first.stdout + first.stderr
    assert first.returncode != 0
    pattern = r"^.*\(INJECTED\)$"
    assert re.findall(pattern, first.stderr, re.MULTILINE) == re.findall(
        pattern, second.stderr, re.MULTILINE
    )
    assert (first.stdout, first.returncode) == (second.stdout, second.returncode)


def test_git_says_that_it_is_out_of_memory() -> None:
    done = inject("-e", "fault=realloc:from=MAIN", "--", need("git"), "--version")
    assert done.returncode == 128
    assert "fatal: Out of memory" in done.stderr
    line = r"^git->realloc\(nil, \d+\) += nil ENOMEM \(Cannot allocate memory\) \(INJECTED\)$"
    assert re.search(line, done.stderr, re.MULTILINE)


def test_curl_cannot_resolve() -> None:
    need("curl")
    rule = "inject=getaddrinfo:error=EAI_AGAIN"
    done = inject("-e", rule, "--", need("curl"), "-sS", "http://example.invalid/")
    assert done.returncode == 6
    assert "Could not resolve host: example.invalid" in done.stderr
    assert "= EAI_AGAIN (INJECTED)" in done.stderr


def test_cat_reads_less() -> None:
    for what, out in (("retval=0", ""), ("error=EIO", "")):
        rule = f"inject=read:{what}:when=1:from=MAIN"
        done = run(
            words("-q", "-e", rule, "--", need("cat")),
            env=environment(),
            input="abc",
            timeout=limit(),
        )
        assert done.stdout == out
        assert ("Input/output error" in done.stderr) == (what == "error=EIO")


# ---- what can never work ---------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("malloc", "begins neither with inject= nor with fault="),
        ("inject=malloc", "it has no effect"),
        ("inject=malloc:error=ENOMM", "'ENOMM' is no errno"),
        ("inject=malloc:error=ENOMEM:when=0", "when=0: calls are counted from 1 on"),
        ("inject=malloc:error=ENOMEM:retval=0", "error= cannot be combined with retval="),
        ("inject=nobody_knows:error=EIO", "it is not known how 'nobody_knows' fails"),
        ("fault=strlen", "it is not known how 'strlen' fails"),
        ("inject=sqrt:retval=1", "'sqrt' returns a float"),
        ("inject=getaddrinfo:error=ENOMEM", "'ENOMEM' is no error of getaddrinfo"),
    ],
)
def test_what_cannot_work_is_refused(rule: str, says: str, tmp_path: Path) -> None:
    witness = tmp_path / "ran"
    done = inject("-e", rule, "--", "touch", str(witness))
    assert done.returncode == 125
    assert says in done.stderr
    assert not witness.exists()


def test_a_rule_that_met_no_slot_is_said() -> None:
    done = inject("-e", "inject=callocx:retval=0", "--", program(), "rounds")
    assert "soscope: -e callocx matches no symbol; did you mean calloc" in done.stderr
    assert "soscope: inject=callocx:retval=0: 0 of 0 calls injected\n" in done.stderr


def test_another_c_library_has_its_own_errno(tmp_path: Path) -> None:
    built = tmp_path / "injected"
    source = Path(__file__).parents[1] / "support" / "processes" / "injected.c"
    made_in(tmp_path, "musl-gcc", "-O1", source, "-o", built)
    done = inject(*rules(":when=2+9"), "--", str(built), "rounds")
    assert accounts(done.stdout) == [("main", name, expected(":when=2+9")) for name in NAMES]
