# SPDX-License-Identifier: Apache-2.0
"""What one call costs: bursts that fit the ring, timed by the program itself."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.measure import Figure, rounds, run, typical
from benchmarks.rows import Row, Table
from benchmarks.tools import Tools

# KIND -> (functions that are hooked, calls of a burst: 16 MiB hold 32 or 64 bytes of each, of
# write 5.5 KiB)
_KINDS = {
    "one": ("labs", 100_000),
    "six": ("bench_six", 90_000),
    "pair": ("malloc,free", 90_000),
    "write": ("write", 2_000),
    "kept": ("strlen", 20_000),
}
_CROWDS = (2, 64, 256)  # threads
_CROWD_CALLS, _CROWD_BURSTS = 4_000_000, 7
_PARTS = 20
_PAUSE = 100  # ms, in which what was recorded is drained,
_PRINTING = 400  # or printed
_SLOW_CALLS = 100  # of a part, under a tracer that takes microseconds


class Case:
    """A tracer in front of the workload; `slow` ones get fewer calls."""

    def __init__(self, tracer: list[str], *, slow: bool = False) -> None:
        self.tracer = tracer
        self.slow = slow


def workload(
    tools: Tools, kind: str, threads: int, bursts: int, *, slow: bool, pause: int = _PAUSE
) -> list[str]:
    """Return the command that times calls of one KIND."""
    calls = _SLOW_CALLS if slow else _KINDS[kind][1] // _PARTS // threads
    words = [kind, threads, 1 if slow else bursts, 3 if slow else _PARTS, calls]
    return [tools.path("calls"), *map(str, words), str(pause)]


def _timer(tools: Tools, case: Case, kind: str, threads: int, bursts: int) -> Callable[[], float]:
    command = [*case.tracer, *workload(tools, kind, threads, bursts, slow=case.slow)]
    return lambda: typical(run(command, timeout=60).output)


def _cases(tools: Tools, kind: str) -> dict[str, Case]:
    select = ["-e", _KINDS[kind][0]]
    cases = {
        "base": Case([]),
        "count": Case(tools.summary("--count-only", *select)),
        "summary": Case(tools.summary("-c", *select)),
        "entry": Case(tools.record("--entry-only", *select)),
        "full": Case(tools.record(*select)),
    }
    if kind == "one":
        cases["stack"] = Case(tools.record("-k", *select))
    if "uftrace" in tools.peers:
        cases["uftrace record --force"] = Case(tools.uftrace())
        if kind == "one":
            cases["uftrace -e (entry alone)"] = Case(tools.uftrace("-e"))
        if kind == "six":
            words = ",".join(f"arg{number}" for number in range(1, 7))
            cases["uftrace -A -R"] = Case(
                tools.uftrace("-A", f"bench_six@{words}", "-R", "bench_six@retval")
            )
    if "audit" in tools.peers:
        cases["LD_AUDIT, enter and exit"] = Case(tools.audit())
    if "ltrace" in tools.peers:
        chosen = "+".join(_KINDS[kind][0].split(","))
        cases["ltrace"] = Case(tools.ltrace("-e", chosen), slow=True)
        cases["ltrace -c"] = Case(tools.ltrace("-c", "-e", chosen), slow=True)
    if "frida" in tools.peers and kind == "one":
        cases["frida, C"] = Case(tools.frida("labs"))
    return cases


def measure(tools: Tools, count: int, bursts: int, say: Callable[[str], None]) -> Table:
    """Measure the rows of single calls."""
    table = Table()
    found: dict[tuple[str, int], dict[str, Figure]] = {}
    for kind, threads in (("one", 1), ("one", 2), ("six", 1), ("pair", 1)):
        say(f"calls: {kind}, {threads} thread{'s' if threads > 1 else ''}")
        cases = _cases(tools, kind)
        if threads > 1:
            for name in ("ltrace", "ltrace -c", "frida, C", "uftrace -e (entry alone)"):
                cases.pop(name, None)
            if "ltrace" in tools.peers:
                cases["ltrace -f"] = Case(tools.ltrace("-f", "-e", "labs"), slow=True)
        timers = {name: _timer(tools, case, kind, threads, bursts) for name, case in cases.items()}
        figures, failed = rounds(count, timers)
        table.failed({f"{kind}, {name}": why for name, why in failed.items()})
        base = figures["base"]
        net = {name: figure.minus(base) for name, figure in figures.items() if name != "base"}
        found[kind, threads] = {**net, "base": base}
    _rows(table, found)
    _untimed(tools, table, count, bursts, say)
    _kept(tools, table, count, bursts, say)
    _strings(tools, table, count, bursts, say)
    _buffers(tools, table, count, bursts, say)
    _crowds(tools, table, count, say)
    return table


def _untimed(
    tools: Tools, table: Table, count: int, bursts: int, say: Callable[[str], None]
) -> None:
    """Measure calls that are printed without any time."""
    say("calls: one, no durations")
    calls = workload(tools, "one", 1, bursts, slow=False, pause=_PRINTING)
    cases = {"base": _runner(calls), "text": _runner([*tools.summary("-e", "labs"), *calls])}
    figures, failed = rounds(count, cases)
    table.failed(failed)
    if len(figures) == len(cases):
        figure, base = figures["text"].minus(figures["base"]), figures["base"]
        name = "entry and exit, as text without durations"
        table.rows.append(Row(name, 15, figure, base=base))


def _kept(tools: Tools, table: Table, count: int, bursts: int, say: Callable[[str], None]) -> None:
    """Measure calls that nobody reads, and calls that are switched off."""
    say("calls: one, --last and --on")
    cases = {
        "base": Case([]),
        "flight": Case(tools.summary("--last", "10s", "--on-crash", "-e", "labs")),
        "off": Case(tools.summary("--on", "nosuch", "-e", "labs")),
    }
    figures, failed = rounds(
        count, {name: _timer(tools, case, "one", 1, bursts) for name, case in cases.items()}
    )
    table.failed(failed)
    if len(figures) < len(cases):
        return
    base = figures["base"]
    for name, goal, what in (
        ("entry and exit, kept by `--last`", 70, "flight"),
        ("a call outside of `--on`", 2.5, "off"),
    ):
        table.rows.append(Row(name, goal, figures[what].minus(base), base=base))


def _strings(
    tools: Tools, table: Table, count: int, bursts: int, say: Callable[[str], None]
) -> None:
    """Measure what it costs that a string of 20 bytes is kept, beside its address alone."""
    say("calls: a string kept")
    cases = {"base": Case([]), "followed": Case(tools.record("-e", "strlen"))}
    # nobody takes the word of a header of one's own for it that the function reads it
    for name, argument in (("none", "const void *"), ("checked", "const char *")):
        header = tools.path(f"{name}.h")
        with open(header, "w", encoding="utf-8") as file:
            file.write(f"unsigned long strlen({argument}text);\n")
        cases[name] = Case(tools.record("--prototypes", header, "-e", "strlen"))
    figures, failed = rounds(
        count, {name: _timer(tools, case, "kept", 1, bursts) for name, case in cases.items()}
    )
    table.failed(failed)
    if len(figures) < len(cases):
        return
    for name, goal, what in (
        ("a string of 20 bytes, which the callee reads: more than its address", 30, "followed"),
        ("a string of 20 bytes, whose address is checked: more than that", 600, "checked"),
    ):
        figure = figures[what].minus(figures["none"])
        table.rows.append(Row(name, goal, figure, base=figures["base"]))


def _buffers(
    tools: Tools, table: Table, count: int, bursts: int, say: Callable[[str], None]
) -> None:
    """Measure calls of which 4096 bytes are kept."""
    say("calls: write, 4096 bytes kept")
    cases = {"base": Case([]), "full": Case(tools.record("-s", "4096", "-e", "write"))}
    figures, failed = rounds(
        count, {name: _timer(tools, case, "write", 1, bursts) for name, case in cases.items()}
    )
    table.failed(failed)
    if len(figures) == len(cases):
        figure, base = figures["full"].minus(figures["base"]), figures["base"]
        table.rows.append(Row("`write` of 4096 bytes with `-s 4096`", 5000, figure, base=base))


def _crowds(tools: Tools, table: Table, count: int, say: Callable[[str], None]) -> None:
    """Compare what counting costs with many threads and with two."""
    say("calls: many threads")
    counting = tools.summary("--count-only", "-e", "labs")
    timers = {}
    for threads in _CROWDS:
        words = ["crowd", threads, _CROWD_BURSTS, 1, _CROWD_CALLS // threads, 10]
        command = [tools.path("calls"), *map(str, words)]
        timers[f"{threads}"] = _runner(command)
        timers[f"{threads}, counted"] = _runner([*counting, *command])
    figures, failed = rounds(count, timers)
    table.failed({f"{name} threads": why for name, why in failed.items()})
    if len(figures) < len(timers):
        return
    few = figures[f"{_CROWDS[0]}, counted"]
    for threads in _CROWDS[1:]:
        many, alone = figures[f"{threads}, counted"], figures[f"{threads}"]
        name = f"`--count-only`, {threads} threads: elapsed time a call, beside {_CROWDS[0]}"
        table.rows.append(Row(name, 1.3, many.over(few), unit="x"))
        table.remarks.append(
            f"`--count-only` with {threads} threads: {many.minus(alone).median:.1f} ns of elapsed "
            f"time a call over untraced; with {_CROWDS[0]}: "
            f"{few.minus(figures[f'{_CROWDS[0]}']).median:.1f} ns."
        )


def _runner(command: list[str]) -> Callable[[], float]:
    return lambda: typical(run(command, timeout=60).output)


def _rows(table: Table, found: dict[tuple[str, int], dict[str, Figure]]) -> None:
    one, two = found["one", 1], found["one", 2]
    six, pair = found["six", 1], found["pair", 1]
    for name, goal, where, what, peers in (
        ("`--count-only`", 2.5, one, "count", ["uftrace record --force", *_SLOW]),
        ("`--count-only`, 2 threads", 2.5, two, "count", ["uftrace record --force", *_SLOW]),
        ("entry record", 12, one, "entry", ["uftrace -e (entry alone)"]),
        ("`-c`", 28, one, "summary", ["uftrace record --force", *_SLOW]),
        ("`-c`, 2 threads", 34, two, "summary", ["uftrace record --force", *_SLOW]),
        ("entry and exit, recorded", 28, one, "full", ["uftrace record --force", *_SLOW]),
        (
            "entry and exit, recorded, 2 threads",
            34,
            two,
            "full",
            ["uftrace record --force", *_SLOW],
        ),
        ("entry and exit, recorded with the stack (`-k`)", None, one, "stack", []),
        ("entry and exit, six arguments", 42, six, "full", ["uftrace -A -R", *_SLOW]),
        (
            "malloc and free, both recorded in full",
            70,
            pair,
            "full",
            ["uftrace record --force", *_SLOW],
        ),
        ("malloc and free, `-c`", None, pair, "summary", []),
    ):
        row = Row(name, goal, where.get(what), base=where["base"])
        row.peers = [(peer, where[peer]) for peer in peers if peer in where]
        table.rows.append(row)


_SLOW = ["LD_AUDIT, enter and exit", "frida, C", "ltrace -c", "ltrace", "ltrace -f"]
