# SPDX-License-Identifier: Apache-2.0
"""Programs to make maps of, and what their maps say."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.support.processes import launching
from tests.support.processes.run import run
from tests.support.schemas import checked as schema
from tests.support.schemas.map import MAP
from tests.support.time import progress
from tests.support.time.patience import until

MAP_WORDS = [sys.executable, "-m", "soscope", "map"]


@contextlib.contextmanager
def started(
    *words: str | Path,
    sign: str = "ready",
    env: Mapping[str, str] | None = None,
    rests: bool = True,
) -> Iterator[subprocess.Popen[str]]:
    """Run a program until it has printed `sign`, and waits if it `rests`. The block ends it."""
    process = subprocess.Popen(
        [*map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline().strip() == sign
        if rests:
            until(progress.all_wait(process.pid), "it binds no more slots", running=process)
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


@contextlib.contextmanager
def said(
    *words: str | Path, sign: str = "ready"
) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Run a program; give it with the lines that it prints before `sign`."""
    process = subprocess.Popen(
        [*map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        lines = []
        for line in process.stdout:
            if line.strip() == sign:
                break
            lines.append(line.rstrip("\n"))
        yield process, lines
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def read(pid: int, *words: str, status: int = 0) -> dict[str, Any]:
    """Ask for the document; check it and the exit status."""
    done = run([*MAP_WORDS, "--json", "-p", str(pid), *words])
    assert "Traceback" not in done.stderr
    assert done.returncode == status, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    assert not schema.wrong_members(document, MAP)
    return document


def slots(document: dict[str, Any], state: str = "", image: str = "") -> list[dict[str, Any]]:
    return [
        slot
        for one in document["images"]
        if not image or one["name"] == image
        for slot in one["slots"]
        if not state or slot["state"] == state
    ]


def linked(document: dict[str, Any]) -> list[str]:
    """Return the paths of the images but the vDSO, those of files."""
    return [os.path.realpath(one["path"]) for one in document["images"] if "/" in one["path"]]


def libc_of(document: dict[str, Any]) -> str:
    names = [str(one["name"]) for one in document["images"]]
    return next(name for name in names if name.startswith("libc."))


def rows_of(document: dict[str, Any], symbol: str, image: str) -> list[dict[str, Any]]:
    return [one for one in slots(document, image=image) if one["symbol"] == symbol]


CALLER = """
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    void *(*volatile taken)(size_t) = malloc;
    int main(void)
    {
        char *a = malloc(9), *b = strdup("x");
        puts(a && b && taken(3) ? "ready" : "");
        fflush(stdout);
        getchar();
    }"""
BUILDS = {
    "lazy": ["-fcf-protection=none", "-fplt", "-Wl,-z,lazy"],
    "now": ["-fcf-protection=none", "-fplt", "-Wl,-z,now"],
    "no-plt": ["-fcf-protection=none", "-fno-plt", "-Wl,-z,now"],
    "ibt": ["-fcf-protection=full", "-fplt", "-Wl,-z,lazy", "-Wl,-z,ibtplt"],
    "not-pie": ["-fcf-protection=none", "-fno-pie", "-no-pie", "-Wl,-z,lazy"],
}


def caller(binding: str) -> Path:
    return launching.compiled("caller.c", "-fno-builtin", *BUILDS[binding], text=CALLER)
