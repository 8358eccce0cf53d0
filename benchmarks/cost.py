# SPDX-License-Identifier: Apache-2.0
"""The price that soscope says beside the one that ten real programs paid.

What a program paid is the time from its exec to its end, without what its threads waited for a
processor, less the same of untraced runs, each right before a traced one. A wait for a processor is
the price of whatever else runs on the machine: `/proc/PID/schedstat` tells it while the program is
a zombie. Both begin when the program stands at its exec. The end is what the kernel tells by a
pidfd, as soscope may notice it later, less what the benchmark itself waited for a processor before
it saw that. Programs of one thread each.

A row says by how much the price that soscope says differs from that, in percent of it, by the
median of all runs, as what a run waits for soscope is as long as the machine is busy; beside it is
how long the program ran untraced. Where it paid less than some milliseconds, or less than three
times what its untraced runs differ by, that is noise, and the row has no figure.

The rounds go over all programs and ways, so that each has as many pairs. None begins when the time
for them is over.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import socket
import statistics
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Sequence

from benchmarks.measure import Failed, Figure
from benchmarks.rows import Row, Table
from benchmarks.tools import Tools

_MISS = 20  # percent
_NOISE = 0.015  # seconds that are not told from nothing
_PATIENCE = 180  # seconds for one run
_BUDGET = 540  # seconds for all of them
_TRACEME, _DETACH = 0, 17  # requests of ptrace(2)
_libc = ctypes.CDLL(None, use_errno=True)
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
    "tar": (["tar", "-tvf", "{work}/files-{n}.tar"], 20_000, 400),
    "openssl": (["openssl", "enc", "-aes-256-cbc", "-pbkdf2", "-iter", "200000", "-k", "x",
                 "-in", "{work}/lines-{n}", "-out", "/dev/null"], _LINES, 6_000),
}  # fmt: skip

# By name: the words of soscope, and whether calls are printed.
_WAYS: dict[str, tuple[list[str], bool]] = {
    "trace -o": (["trace", "-o", "{work}/lines"], True),
    "trace --record": (["trace", "--record", "{work}/run.sosr"], False),
    "trace -c": (["trace", "-c", "-o", "{work}/lines"], False),
    "mem run --blocks": (["mem", "run", "--blocks", "-o", "{work}/run.sosr"], False),
    "prof run --sample": (["prof", "run", "--sample", "1000", "-o", "{work}/run.sosr"], False),
}

# soscope, which tells when its first child has executed, for how long that child has waited for a
# processor from then to its end, and what the session says that it has cost.
_WATCHED = """
import json, os, sys, time
{path}
tells = int(sys.argv.pop(1))
soscope, first, waited, before = os.getpid(), None, {{}}, 0

def tell(**what):
    os.write(tells, json.dumps(what).encode() + b"\\n")

def queued(pid):
    try:
        with open(f"/proc/{{pid}}/schedstat") as file:
            return int(file.read().split()[1]) / 1e9
    except OSError:
        return waited.get(pid, 0)

def waitpid(pid, options):
    global at, before, first
    if os.getpid() == soscope and pid > 0:
        waited[pid] = queued(pid)
    ended, status, _ = os.wait4(pid, options)
    if ended and os.getpid() == soscope:
        if os.WIFSTOPPED(status) and status >> 16 == 4 and first is None:
            first = ended
            tell(exec=ended)
            os.read(tells, 1)  # it is watched from now on
            before, at = queued(ended), time.monotonic()
        elif ended == first and not os.WIFSTOPPED(status):
            tell(at=at, queued=waited.get(ended, before) - before)
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
from soscope.verbs.main import start
start()
"""


def _lines(work: str, count: int) -> None:
    import random

    chance = random.Random(3)
    with open(os.path.join(work, f"lines-{count}"), "w", encoding="ascii") as file:
        for _ in range(count):
            file.write("".join(chance.choices("abcdefghijklmnop ", k=chance.randint(5, 40))))
            file.write("\n")


def _archive(work: str, count: int) -> None:
    with tarfile.open(os.path.join(work, f"files-{count}.tar"), "w") as archive:
        for number in range(count):
            member = tarfile.TarInfo(f"folder-{number % 50}/file-{number}")
            member.mtime = 1_000_000_000 + 977 * number
            archive.addfile(member)


def _waited(pid: int | str) -> float:
    with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
        return int(file.read().split()[1]) / 1e9


def _untraced(words: Sequence[str]) -> float:
    pid = os.fork()
    if not pid:
        try:
            null = os.open(os.devnull, os.O_RDWR)
            for number in range(3):
                os.dup2(null, number)
            if _libc.ptrace(_TRACEME, 0, 0, 0) == 0:
                os.execvp(words[0], list(words))
        finally:
            os._exit(127)
    _, status = os.waitpid(pid, 0)
    if not os.WIFSTOPPED(status):
        raise Failed(f"{words[0]} cannot be run")
    end, before, own = os.pidfd_open(pid), _waited(pid), _waited("thread-self")
    begun = time.monotonic()
    _libc.ptrace(_DETACH, pid, 0, 0)
    select.select([end], (), ())
    took = time.monotonic() - begun - (_waited("thread-self") - own)
    took -= _waited(pid) - before
    os.close(end)
    _, status = os.waitpid(pid, 0)
    if status:
        raise Failed(f"{words[0]} ended with {os.waitstatus_to_exitcode(status)}")
    return took


def _traced(start: list[str], words: Sequence[str]) -> tuple[float, float]:
    """Return what a program took under soscope, and what soscope says that it has cost."""
    reads, writes = (end.detach() for end in socket.socketpair())
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
            own = _waited("thread-self")
            ready = select.select(watched, (), (), _PATIENCE)[0]
            late = _waited("thread-self") - own
            if not ready:
                process.kill()
                raise Failed(f"not done after {_PATIENCE} s")
            if target in ready:
                ended = time.monotonic() - late
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
                    os.write(reads, b"!")
    finally:
        os.close(reads)
        process.wait()
    if not ended or not said:
        raise Failed(f"soscope ended with {process.returncode}")
    return ended - told["at"] - told.get("queued", 0), said["cost_ns"] / 1e9


def _row(way: str, name: str, pairs: list[tuple[float, float, float]]) -> Row:
    plain, traced, said = (statistics.median(pair[at] for pair in pairs) for at in range(3))
    true = traced - plain
    alone = [pair[0] for pair in pairs]
    is_worth = true > max(_NOISE, 3 * (max(alone) - min(alone)))
    # each run's price beside what it said: how long runs wait for soscope differs
    ratios = [of / max(with_it - plain, 1e-3) for _, with_it, of in pairs]
    miss = Figure([100 * abs(statistics.median(ratios) - 1)]) if is_worth else None
    prices = f"{1000 * said:.1f} ms said, {1000 * true:.1f} ms true"
    ratio = f", ratio {statistics.median(ratios):.2f}" if is_worth else ""
    return Row(
        f"`{way}` says the price of {name} ({prices}): miss",
        _MISS if is_worth else None,
        miss,
        unit="%",
        base=Figure([1000 * plain]),
        why=f"{way}, {name}: {1000 * plain:.0f} ms alone, {1000 * traced:.0f} ms, {prices}{ratio}",
    )


def _pair(tools: Tools, script: str, name: str, way: str) -> tuple[float, float, float]:
    words, much, little = _PROGRAMS[name]
    options, prints = _WAYS[way]
    size = little if prints else much
    command = [word.format(n=size, work=tools.work) for word in words]
    own = [word.format(work=tools.work) for word in options]
    try:
        plain = _untraced(command)
        return plain, *_traced([sys.executable, script], [*own, "--", *command])
    finally:
        if os.path.exists(os.path.join(tools.work, "run.sosr")):
            os.unlink(os.path.join(tools.work, "run.sosr"))


def measure(tools: Tools, count: int, say: Callable[[str], None]) -> Table:
    """Run all programs in all ways, each beside an untraced run."""
    table = Table()
    script = os.path.join(tools.work, "watched.py")
    with open(tools.soscope[1], encoding="utf-8") as file:
        path = [line for line in file.read().splitlines() if line.startswith("sys.path")]
    with open(script, "w", encoding="utf-8") as file:
        file.write(_WATCHED.format(path="\n".join(path)))
    for name, (_, *sizes) in _PROGRAMS.items():
        for size in sizes:
            (_archive if name == "tar" else _lines)(tools.work, size)
    missing = {name: "not installed" for name in _PROGRAMS if shutil.which(name) is None}
    table.failed(missing)
    failed: dict[str, str] = {}
    pairs: dict[tuple[str, str], list[tuple[float, float, float]]] = {
        (way, name): [] for way in _WAYS for name in _PROGRAMS if name not in missing
    }
    begun, done = time.monotonic(), 0
    while done < count and (not done or time.monotonic() - begun < _BUDGET * done / (done + 1)):
        say(f"cost of {len(pairs)} programs and ways: round {done + 1}")
        for way, name in list(pairs):
            try:
                pairs[way, name].append(_pair(tools, script, name, way))
            except (Failed, OSError) as error:
                failed[f"{name}, {way}"] = str(error)
                del pairs[way, name]
        done += 1
    if done < count:
        table.remarks.append(f"Said and true prices: {done} pairs each, as the machine was busy.")
    table.failed(failed)
    for (way, name), each in pairs.items():
        row = _row(way, name, each)
        say(row.why)
        table.rows.append(row)
    return table
