# SPDX-License-Identifier: Apache-2.0
"""The price that soscope says beside the one that ten real programs paid.

What a program paid is the time from its exec to its end, without what its threads waited for a
processor, less the same of an untraced run right before. A wait for a processor is the price of
whatever else runs on the machine: `/proc/PID/schedstat` tells it while the program is a zombie.
The end is what the kernel tells by a pidfd, as soscope may notice it later. Programs of one thread
each.

A row says by how much the price that soscope says differs from that, in percent of it; and from
what. Where that is less than some milliseconds it is noise, and the row has no goal.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from benchmarks.measure import Failed, Figure
from benchmarks.rows import Row, Table
from benchmarks.tools import Tools

_MISS = 20  # percent
_NOISE = 0.015  # seconds that are not told from nothing
_PATIENCE = 180  # seconds
_LINES = 60_000

_SQL = (
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x<{n}) "
    "SELECT count(*), sum(length(printf('%d-%s', x, hex(x)))) FROM c;"
)
_PYTHON = (
    "import json\nd = [{{'a': i, 'b': str(i)}} for i in range({n})]\n"
    "for _ in range(3): json.loads(json.dumps(d))"
)
_PERL = (
    "my %h; for my $i (1..{n}) {{ $h{{$i % 5000}} .= sprintf('%d,', $i); }} "
    "print length(join('', sort values %h));"
)
_BASH = "for ((i = 0; i < {n}; i++)); do a=$((i * 3)); b=${{a#1}}; done; echo $b"

# By program: its words, and how much {n} is where calls are recorded, and where they are printed.
_PROGRAMS: dict[str, tuple[list[str], int, int]] = {
    "sqlite3": (["sqlite3", ":memory:", _SQL], 300_000, 300),
    "sort": (["sort", "--parallel=1", "{work}/lines-{n}"], _LINES, 2_000),
    "gzip": (["gzip", "-c", "{work}/lines-{n}"], _LINES, 6_000),
    "sed": (["sed", "-E", r"s/([a-c]+)/<\1>/g", "{work}/lines-{n}"], _LINES, 500),
    "gawk": (["gawk", "{{n[length($0)]++}} END {{print n[9]}}", "{work}/lines-{n}"], _LINES, 6_000),
    "perl": (["perl", "-e", _PERL], 300_000, 3_000),
    "python3": (["/usr/bin/python3", "-c", _PYTHON], 60_000, 500),
    "bash": (["bash", "-c", _BASH], 20_000, 300),
    "tar": (["tar", "-cf", "{work}/out.tar", "-C", "/usr/include", "."], 0, 0),
    "openssl": (["openssl", "enc", "-aes-256-cbc", "-pbkdf2", "-iter", "200000", "-k", "x",
                 "-in", "{work}/lines-{n}", "-out", "/dev/null"], _LINES, 6_000),
}  # fmt: skip

# By name: the words of soscope, and whether calls are printed.
_WAYS: dict[str, tuple[list[str], bool]] = {
    "trace -o": (["trace", "-o", "{work}/lines"], True),
    "trace --json": (["trace", "--json", "-o", "{work}/lines"], True),
    "trace --from all": (["trace", "--from", "all", "-o", "{work}/lines"], True),
    "trace --record": (["trace", "--record", "{work}/run.sosr"], False),
    "trace -c": (["trace", "-c", "-o", "{work}/lines"], False),
    "trace -f --record": (["trace", "-f", "--record", "{work}/run.sosr"], False),
    "mem run --blocks": (["mem", "run", "--blocks", "-o", "{work}/run.sosr"], False),
    "prof run --sample": (["prof", "run", "--sample", "1000", "-o", "{work}/run.sosr"], False),
    "prof run --mode time": (["prof", "run", "--mode", "time", "-o", "{work}/run.sosr"], False),
}

# soscope, which tells when its first child has executed, how long that child has waited for a
# processor when it has ended, and what the session says that it has cost.
_WATCHED = """
import json, os, sys, time
{path}
tells = int(sys.argv.pop(1))
soscope, first, waited = os.getpid(), None, {{}}

def tell(**what):
    os.write(tells, json.dumps(what).encode() + b"\\n")

def waitpid(pid, options):
    global first
    if os.getpid() == soscope and pid > 0:
        try:
            with open(f"/proc/{{pid}}/schedstat") as file:
                waited[pid] = int(file.read().split()[1]) / 1e9
        except OSError:
            pass
    ended, status, _ = os.wait4(pid, options)
    if ended and os.getpid() == soscope:
        if os.WIFSTOPPED(status) and status >> 16 == 4 and first is None:
            first = ended
            tell(exec=ended, at=time.monotonic())
        elif ended == first and not os.WIFSTOPPED(status):
            tell(queued=waited.get(ended, 0))
    return ended, status

os.waitpid = waitpid
os.set_inheritable(tells, False)
from soscope.control.session import Session
outcome_of = Session._outcome

def outcome(self, target):
    made = outcome_of(self, target)
    tell(cost=made.cost.document())
    return made

Session._outcome = outcome
from soscope.cli.main import start
start()
"""


def _lines(work: str, count: int) -> None:
    import random

    chance = random.Random(3)
    with open(os.path.join(work, f"lines-{count}"), "w", encoding="ascii") as file:
        for _ in range(count):
            file.write("".join(chance.choices("abcdefghijklmnop ", k=chance.randint(5, 40))))
            file.write("\n")


def _untraced(words: Sequence[str]) -> float:
    null = os.open(os.devnull, os.O_RDWR)
    actions = [(os.POSIX_SPAWN_DUP2, null, number) for number in range(3)]
    begun = time.monotonic()
    pid = os.posix_spawnp(words[0], words, os.environ, file_actions=actions)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    took = time.monotonic() - begun
    with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
        queued = int(file.read().split()[1]) / 1e9
    _, status = os.waitpid(pid, 0)
    os.close(null)
    if status:
        raise Failed(f"{words[0]} ended with {os.waitstatus_to_exitcode(status)}")
    return took - queued


def _traced(start: list[str], words: Sequence[str]) -> tuple[float, float]:
    """Return what a program took under soscope, and what soscope says that it has cost."""
    reads, writes = os.pipe()
    process = subprocess.Popen(
        [*start, str(writes), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[writes],
    )
    os.close(writes)
    told: dict[str, float] = {}
    said: dict[str, float] = {}
    data, target, ended = b"", -1, 0.0
    try:
        while True:
            watched = [reads, *([target] if target >= 0 else [])]
            ready = select.select(watched, (), (), _PATIENCE)[0]
            if not ready:
                process.kill()
                raise Failed(f"not done after {_PATIENCE} s")
            if target in ready:
                ended = time.monotonic()
                os.close(target)
                target = -1
            if reads not in ready:
                continue
            piece = os.read(reads, 1 << 16)
            if not piece:
                break
            *lines, data = (data + piece).split(b"\n")
            for line in lines:
                news = json.loads(line)
                said = news.pop("cost", said)
                told |= news
                if "exec" in news:
                    target = os.pidfd_open(int(told["exec"]))
    finally:
        os.close(reads)
        process.wait()
    if not ended or not said:
        raise Failed(f"soscope ended with {process.returncode}")
    return ended - told["at"] - told.get("queued", 0), said["cost_ns"] / 1e9


def _row(name: str, pairs: list[tuple[float, float, float]]) -> Row:
    truths = [traced - plain for plain, traced, _ in pairs]
    true, said = statistics.median(truths), statistics.median(pair[2] for pair in pairs)
    is_worth = true > _NOISE
    # of the medians: a single run has the weather of a moment
    miss = Figure([100 * abs(said - true) / true]) if is_worth else None
    base = Figure([1000 * pair[0] for pair in pairs])
    row = Row(name, _MISS if is_worth else None, miss, unit="%", base=base)
    row.why = f"{1000 * said:.1f} ms said, {1000 * true:.1f} ms true; untraced in ms"
    return row


def measure(tools: Tools, count: int, say: Callable[[str], None]) -> Table:
    """Run all programs in all ways, each beside an untraced run."""
    table = Table()
    script = os.path.join(tools.work, "watched.py")
    with open(tools.soscope[1], encoding="utf-8") as file:
        path = [line for line in file.read().splitlines() if line.startswith("sys.path")]
    with open(script, "w", encoding="utf-8") as file:
        file.write(_WATCHED.format(path="\n".join(path)))
    for size in {size for _, *sizes in _PROGRAMS.values() for size in sizes if size}:
        _lines(tools.work, size)
    for name, (words, much, little) in _PROGRAMS.items():
        if shutil.which(words[0]) is None:
            table.failed({name: "not installed"})
            continue
        for way, (options, prints) in _WAYS.items():
            say(f"cost of {way}: {name}")
            size = little if prints else much
            command = [word.format(n=size, work=tools.work) for word in words]
            own = [word.format(work=tools.work) for word in options]
            start = [sys.executable, script]
            pairs = []
            try:
                for _ in range(count):
                    plain = _untraced(command)
                    pairs.append((plain, *_traced(start, [*own, "--", *command])))
                    if os.path.exists(os.path.join(tools.work, "run.sosr")):
                        os.unlink(os.path.join(tools.work, "run.sosr"))
            except (Failed, OSError) as error:
                table.failed({f"{name}, {way}": str(error)})
                continue
            row = _row(f"`{way}` says the price of {name}: miss", pairs)
            say(row.why)
            table.rows.append(row)
    return table
