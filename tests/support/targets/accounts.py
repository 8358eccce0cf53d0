# SPDX-License-Identifier: Apache-2.0
"""Programs that keep an account of their blocks, and what `soscope mem` says of them."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tests.support.processes import launching
from tests.support.processes.run import run
from tests.support.schemas.checked import wrong_members
from tests.support.schemas.mem import REPORT

SOSCOPE = [sys.executable, "-m", "soscope"]
FLAGS = ("-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-fno-builtin", "-w")

# keep(): a block stays, made by this function, at this line, of so many bytes
PRELUDE = """
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static void said(const char *api, int line, long bytes)
{
    char text[100];
    int size = snprintf(text, sizeof text, "keep %s %d %ld\\n", api, line, bytes);
    if (write(1, text, size) != size)
        abort();
}
#define KEEP(api, bytes, call) (said(#api, __LINE__, (bytes)), (call))
"""


def built(name: str, text: str, *flags: str) -> str:
    return str(launching.compiled(name, *FLAGS, *flags, text=PRELUDE + text))


def recorded(
    tmp_path: Path, command: list[str], *options: str, status: int = 0, output: str = ""
) -> tuple[dict[str, Any], str]:
    """Record a command; return the report, and what the command has printed."""
    file = Path(output) if output else tmp_path / "run.sosr"
    words = [*SOSCOPE, "mem", "run", "--blocks", *options, "-o", str(file), "--"]
    done = run([*words, *command], cwd=tmp_path)
    assert done.returncode == status, done.stderr
    shown = run([*SOSCOPE, "mem", "report", "--json", str(file)])
    report: dict[str, Any] = json.loads(shown.stdout)
    is_whole = report["state"] == "complete"
    assert (shown.returncode, shown.stderr) == (0 if is_whole else 1, "")
    assert not wrong_members(report, REPORT)
    return report, done.stdout


def kept(output: str) -> Counter[tuple[str, int, int]]:
    """Return what a program says that it keeps: (api, line, bytes) of each block."""
    rows = [line.split() for line in output.splitlines() if line.startswith("keep ")]
    names = {"new": "operator new", "new[]": "operator new[]"}
    return Counter((names.get(row[1], row[1]), int(row[2]), int(row[3])) for row in rows)


def rows_of(report: dict[str, Any], source: str) -> list[dict[str, Any]]:
    """Return the native rows whose caller is in a source file."""
    return [row for row in report["native"] if str(row["frames"][0]["file"]).endswith(f"/{source}")]


def reported(report: dict[str, Any], source: str) -> Counter[tuple[str, int]]:
    """Return the blocks that are alive, by (api, line)."""
    found: Counter[tuple[str, int]] = Counter()
    for row in rows_of(report, source):
        found[row["api"], row["frames"][0]["line"]] += row["count"]
    return found


def sizes(report: dict[str, Any], source: str) -> Counter[tuple[str, int]]:
    """Return their bytes."""
    found: Counter[tuple[str, int]] = Counter()
    for row in rows_of(report, source):
        found[row["api"], row["frames"][0]["line"]] += row["bytes"]
    return found


def assert_same(report: dict[str, Any], output: str, source: str) -> None:
    """Compare with the program's own account."""
    truth = kept(output)
    counts: Counter[tuple[str, int]] = Counter()
    total: Counter[tuple[str, int]] = Counter()
    for (api, line, size), count in truth.items():
        counts[api, line] += count
        total[api, line] += count * size
    assert counts
    assert reported(report, source) == counts
    assert sizes(report, source) == total


EVERY = """
static void *volatile kept[64];
int main(void)
{
    int n = 0;
    void *p = NULL, *q;
    for (int i = 0; i < 10; i++)
        kept[n++] = KEEP(malloc, 100 + i, malloc(100 + i));
    for (int i = 0; i < 1000; i++)
        free(malloc(i));
    kept[n++] = KEEP(calloc, 70, calloc(7, 10));
    kept[n++] = KEEP(realloc, 33, realloc(NULL, 33));
    p = malloc(10);
    q = malloc(20); /* so that p has to move */
    kept[n++] = KEEP(realloc, 5000, realloc(p, 5000));
    kept[n++] = KEEP(reallocarray, 4000, reallocarray(q, 40, 100));
    KEEP(posix_memalign, 777, posix_memalign(&p, 64, 777));
    kept[n++] = p;
    if (posix_memalign(&p, 3, 10) != EINVAL)
        return 2;
    kept[n++] = KEEP(aligned_alloc, 512, aligned_alloc(256, 512));
    kept[n++] = KEEP(memalign, 99, memalign(4096, 99));
    kept[n++] = KEEP(valloc, 11, valloc(11));
    kept[n++] = KEEP(pvalloc, 12, pvalloc(12));
    errno = 0;
    if (malloc(SIZE_MAX / 2) || errno != ENOMEM)
        return 3;
    errno = 0;
    p = KEEP(malloc, 48, malloc(48)); kept[n++] = p;
    if (realloc(p, SIZE_MAX / 2) || errno != ENOMEM)
        return 4;
    errno = 0;
    if (reallocarray(p, SIZE_MAX / 2, 4) || errno != ENOMEM)
        return 5;
    if (realloc(malloc(50), 0))
        return 6;
    free(NULL);
    errno = 77;
    p = malloc(5);
    free(p);
    return errno == 77 ? 0 : 7;
}
"""

ENDINGS = """
static void *volatile kept[300];
static void leave(void) { kept[200] = KEEP(malloc, 1234, malloc(1234)); }
int main(int argc, char **argv)
{
    char *self[] = {argv[0], "exit", NULL};
    atexit(leave);
    for (int i = 0; i < 200; i++) {
        kept[i] = KEEP(malloc, i + 1, malloc(i + 1));
        free(malloc(10));
    }
    switch (argv[1][0]) {
    case '_': _exit(3);
    case 'a': abort();
    case 'k': kill(getpid(), SIGKILL);
    case 's': raise(SIGSEGV);
    case 'x': execl("/bin/true", "true", NULL);
    }
    return 0;
}
"""
