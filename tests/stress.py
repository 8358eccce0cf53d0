# SPDX-License-Identifier: Apache-2.0
"""Run tests again and again on a machine that has no time for them, and list what stumbled.

    python -m tests.stress --rounds 20 tests/integration/test_attach.py

It is run by hand, as `make stress`. Busy loops take the processors, a control group takes half of
their time and most of the memory; as root alone, elsewhere the loops do it. A test that stumbles
or fails here has a fault: it waits for a moment instead of a condition. Ends with 1 if there is
one, and with 2 if no test could run.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
FRAGILE = REPOSITORY / "tests" / "fragile.txt"  # lines of a test and a reason
_GROUPS = Path("/sys/fs/cgroup")
_PERIOD = 100_000  # microseconds


def main() -> int:
    """Run the rounds; print a line for each, and at the end who did not pass."""
    args = _parser().parse_args()
    tests = args.tests or [
        line.split()[0]
        for line in FRAGILE.read_text().splitlines()
        if line and not line.startswith("#")
    ]
    bad: Counter[str] = Counter()
    with busy(args.load), squeezed(half=args.half_speed, memory=args.memory) as prefix:
        for number in range(1, args.rounds + 1):
            begin = time.monotonic()
            words = [sys.executable, "-m", "pytest", "-q", "-rf", "-n", str(args.jobs)]
            words += ["--dist", "loadgroup", "--no-again", *tests]
            done = subprocess.run(
                [*prefix, *words], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=False
            )
            found = _failed(done.stdout)
            if done.returncode not in {0, 1}:
                print(done.stdout, end="")
                return 2  # no test ran, or pytest itself has failed
            if done.returncode and not found:
                found = ["the run itself"]  # something was left behind at its end
            bad.update(found)
            seconds = time.monotonic() - begin
            last = done.stdout.rstrip().rpartition("\n")[2]
            print(f"round {number}: {seconds:.0f} s: {last}", flush=True)
            for test in found:
                print(f"  {test}", flush=True)
            if found:
                kept = REPOSITORY / "build" / "stress"
                kept.mkdir(parents=True, exist_ok=True)
                (kept / f"{number}.txt").write_text(done.stdout)
    for test, times in bad.most_common():
        print(f"{times} of {args.rounds}: {test}")
    print(f"{len(bad)} tests did not pass each time")
    return int(bool(bad))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tests.stress", description=__doc__)
    parser.add_argument("tests", nargs="*", help="tests/fragile.txt where none is named")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--load", type=int, default=6, help="busy loops beside the tests")
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--half-speed", action="store_true", help="half of the processors' time")
    parser.add_argument("--memory", type=int, default=0, metavar="MB", help="no more than that")
    return parser


def _failed(text: str) -> list[str]:
    words = ("FAILED ", "ERROR ", "STUMBLED ")
    lines = [line for line in text.splitlines() if line.startswith(words)]
    return [line.split(" ", 1)[1].partition(" - ")[0] for line in lines]


@contextlib.contextmanager
def busy(loops: int) -> Iterator[None]:
    """Keep processors busy until the end of the block."""
    loop = "import os\nwhile os.getppid() == parent:\n for _ in range(1 << 20): pass"
    words = [sys.executable, "-I", "-S", "-c", f"parent = {os.getpid()}; {loop}"]
    running = [subprocess.Popen(words) for _ in range(loops)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


@contextlib.contextmanager
def squeezed(*, half: bool, memory: int) -> Iterator[Sequence[str]]:
    """Make control groups; yield the words in front of a command that runs in them."""
    wanted = {"cpu": half, "memory": bool(memory)}
    folders = {
        name: _GROUPS / name / f"soscope-stress-{os.getpid()}"
        for name, is_wanted in wanted.items()
        if is_wanted and os.access(_GROUPS / name, os.W_OK)
    }
    try:
        for name, folder in folders.items():
            folder.mkdir()
            if name == "cpu":
                (folder / "cpu.cfs_period_us").write_text(str(_PERIOD))
                share = _PERIOD * len(os.sched_getaffinity(0)) // 2
                (folder / "cpu.cfs_quota_us").write_text(str(share))
            else:
                (folder / "memory.limit_in_bytes").write_text(str(memory << 20))
        joins = "".join(f"echo $$ >{folder}/tasks; " for folder in folders.values())
        yield ["sh", "-c", f'{joins}exec "$@"', "sh"] if joins else []
    finally:
        for folder in folders.values():
            folder.rmdir()


if __name__ == "__main__":
    sys.exit(main())
