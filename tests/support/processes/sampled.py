# SPDX-License-Identifier: Apache-2.0
"""A sampler's account of a program that waits for its word: it says "begun", and reads a line."""

from __future__ import annotations

import re
import subprocess
from typing import Any

from soscope.instruments.prof.sampling.instrument import SamplerProcess
from tests.support.time.patience import limit


def last_words(sampler: SamplerProcess, pid: int) -> list[dict[str, Any]]:
    """End it, and return the blocks that it has made of process `pid`."""
    said = sampler.end()
    assert {"process": [pid, None, None]} in said
    return [block for block in said if "period" in block]  # else it is of processes, or of stops


def sampled(command: list[str]) -> list[dict[str, Any]]:
    """Return what a sampler says of a command, from its word to its end."""
    sampler = SamplerProcess(500)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        assert program.stdout.readline() == "begun\n"
        sampler.add(program.pid)
        program.stdin.write("go\n")
        program.stdin.close()
        assert program.wait(timeout=limit()) == 0
    return last_words(sampler, program.pid)


def missed_ns(notes: list[str]) -> int:
    """Return the processor time that notes call not sampled, in ns."""
    found = [re.match(r"([\d,]+) ms of processor time not sampled: ", note) for note in notes]
    return sum(int(match[1].replace(",", "")) * 1_000_000 for match in found if match)
