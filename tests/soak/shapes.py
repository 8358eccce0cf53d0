# SPDX-License-Identifier: Apache-2.0
"""Calls that soscope sees of programs for other processors, for each shape that linkers give them.

    python -m tests.soak.shapes [MACHINE…]

The program counts its own calls. A cell of the table is what it has counted and what was seen,
with the reason that the trace itself gives where some were not. Exit status 1: calls were missed,
or counted twice, and nothing was said.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from tests.support.machines.crossed import (
    NAMES,
    SECURE,
    TRIPLETS,
    account,
    compiler_of,
    sysroot,
    untraced,
)
from tests.support.processes.run import soscope
from tests.support.targets.build import made_in

_SOURCES = Path(__file__).parents[1] / "support" / "machines"
_SECTIONS = {4: ((32, 4), (46, 6)), 8: ((40, 8), (58, 6))}  # of the ELF header, by size of words
_WAYS = ("plain", "jumps", "plugins", "signals")

# shape -> words of the compiler, for which machines (none: all)
SHAPES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "lazy": (("-Wl,-z,lazy",), ()),
    "now": (("-Wl,-z,now",), ()),
    "stripped": (("-Wl,-z,lazy", "-s"), ()),
    "no sections": (("-Wl,-z,lazy",), ()),
    "no PIE": (("-no-pie", "-Wl,-z,lazy"), ()),
    "no PLT": (("-fno-plt", "-Wl,-z,lazy"), ()),
    "no PIE, no PLT": (("-no-pie", "-fno-plt"), ()),
    "long calls": (("-mlongcall", "-Wl,-z,lazy"), ("ppc", "ppc64", "ppc64le")),
    "far calls": (("-mlong-calls", "-Wl,-z,lazy"), ("arm",)),
    "Thumb": (("-mthumb", "-Wl,-z,lazy"), ("arm",)),
    "BTI": (("-mbranch-protection=standard", "-Wl,-z,force-bti", "-Wl,-z,lazy"), ("aarch64",)),
    "PAC": (("-mbranch-protection=standard", "-Wl,-z,pac-plt", "-Wl,-z,lazy"), ("aarch64",)),
    "BSS PLT": (("-mbss-plt", "-Wl,--bss-plt", "-Wl,-z,lazy"), ("ppc",)),
    "BSS PLT, now": (("-mbss-plt", "-Wl,--bss-plt", "-Wl,-z,now"), ("ppc",)),
    "several stubs": (("-Wl,--stub-group-size=1", "-Wl,-z,lazy"), ("ppc64", "ppc64le")),
    "aligned stubs": (
        ("-Wl,--plt-align=5", "-Wl,--no-plt-thread-safe", "-Wl,-z,lazy"),
        ("ppc64", "ppc64le"),
    ),
    "power10": (("-mcpu=power10", "-Wl,-z,lazy"), ("ppc64le",)),
    "power10, no TOC": (
        ("-mcpu=power10", "-Wl,--power10-stubs=no", "-Wl,-z,lazy"),
        ("ppc64le",),
    ),
    "IBT": (("-fcf-protection", "-Wl,-z,ibtplt", "-Wl,-z,lazy"), ("i386",)),
}

# Debian's start files have no landing pads: programs that are said to have some end at once.
PROCESSORS = {
    "power10": "power10",
    "power10, no TOC": "power10",
    "BTI": "cortex-a57",
    "PAC": "cortex-a57",
}


def made(folder: Path, arch: str, shape: str) -> Path:
    """Build the program in one shape; return its path."""
    words = SHAPES[shape][0]
    if arch == "ppc" and not shape.startswith("BSS"):
        words = (*words, *SECURE)
    words = tuple(word for word in words if word != "-mbss-plt")  # what clang does anyway
    compiler = compiler_of(arch)
    library = [word for word in words if word != "-no-pie"]
    for name, source in (("calls", "crossed_lib.c"), ("plugin", "crossed_plugin.c")):
        shared = [*compiler, "-shared", "-fPIC", "-o", f"lib{name}.so"]
        made_in(folder, *shared, _SOURCES / source, *library)
    path = folder / "crossed"
    search = ["-L.", "-Wl,--no-as-needed", "-lcalls", "-Wl,-rpath,$ORIGIN"]
    options = ["-fno-builtin", "-pthread", "-w", "-o", "crossed"]
    made_in(folder, *compiler, *options, _SOURCES / "crossed.c", *search, *words)
    if shape == "no sections":
        for each in (path, folder / "libcalls.so", folder / "libplugin.so"):
            _forget_sections(each)
    return path


def _forget_sections(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for at, size in _SECTIONS[4 * data[4]]:
        data[at : at + size] = bytes(size)
    path.write_bytes(data)


def seen(path: Path, arch: str, log: Path) -> tuple[dict[str, int], dict[str, int], list[str]]:
    """Return calls by the program's account, those that were seen, and functions not hooked."""
    options = ["-q", "-c", "--json", "--from", "all", "-l", "libcalls.so", "-e", ",".join(NAMES)]
    done = soscope("trace", *options, "-o", log, "--sysroot", sysroot(arch), "--", path, *_WAYS)
    plain = untraced(path, arch, *_WAYS)
    ours = done.returncode, done.stdout, done.stderr
    assert ours == (plain.returncode, plain.stdout, plain.stderr), ours
    document = json.loads(log.read_text())
    rows: dict[str, int] = {}
    for row in document["rows"]:
        rows[row["symbol"]] = rows.get(row["symbol"], 0) + row["calls"]
    refused = [
        f"{image['name']}: {each['symbol']} ({each['reason']})"
        for image in document["images"]
        for each in image["not_hooked"]
    ]
    return account(plain.stderr), rows, refused


def cell(folder: Path, arch: str, shape: str) -> tuple[str, bool]:
    """Return what the table says of one shape, and whether it may be so."""
    truth, rows, refused = seen(made(folder, arch, shape), arch, folder / "log")
    counted, found = sum(truth.values()), sum(rows.values())
    if rows == truth:
        return f"{found} of {counted}", True
    reasons = {each.partition("(")[2].rstrip(")") for each in refused}
    is_less = all(rows.get(name, 0) <= count for name, count in truth.items())
    text = f"{found} of {counted}: {', '.join(sorted(reasons)) or 'nothing said'}"
    return text, bool(refused) and is_less


def main(machines: list[str]) -> int:
    """Print the table; return the exit status."""
    status = 0
    for arch in machines or TRIPLETS:
        for shape, (_, only) in SHAPES.items():
            if only and arch not in only:
                continue
            if shape in PROCESSORS:
                os.environ["QEMU_CPU"] = PROCESSORS[shape]
            with tempfile.TemporaryDirectory() as folder:
                text, is_fine = cell(Path(folder), arch, shape)
            os.environ.pop("QEMU_CPU", None)
            status |= not is_fine
            print(f"{arch:8} {shape:16} {'' if is_fine else 'WRONG: '}{text}", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
