# SPDX-License-Identifier: Apache-2.0
"""The ways to run a program under soscope and under its peers."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys

from benchmarks.measure import Failed, run

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)
TARGETS = os.path.join(HERE, "targets")
PEERS = [
    "uftrace", "ltrace", "audit", "frida", "gdb", "lldb", "drgn", "fiu-run", "memray", "scalene",
    "lttng",
]  # fmt: skip


class Tools:
    """Where programs were built and what is there to trace them with."""

    def __init__(
        self,
        work: str,
        peers: list[str],
        frida_python: str,
        drgn_python: str,
        memray_python: str = "",
    ) -> None:
        self.work = work
        self.frida_python = frida_python
        self.drgn_python = drgn_python
        self.memray_python = memray_python
        self.soscope = self._soscope()
        self.missing: dict[str, str] = {}
        self.peers = [peer for peer in peers if self._is_there(peer)]
        self._number = 0

    def _soscope(self) -> list[str]:
        """Return what an installed `soscope` command does, by the interpreter that runs this."""
        script = os.path.join(self.work, "start-soscope.py")
        lines = ["import sys"]
        spec = importlib.util.find_spec("soscope")
        source = os.path.join(TOP, "src")
        if spec is None or (spec.origin or "").startswith(source):
            lines.append(f"sys.path.insert(0, {source!r})")  # not installed: this checkout's
        lines += ["from soscope.verbs.main import start", "start()"]
        with open(script, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        return [sys.executable, script]

    def _is_there(self, peer: str) -> bool:
        if peer == "audit":
            return True
        packages = {
            "frida": self.frida_python,
            "drgn": self.drgn_python,
            "memray": self.memray_python,
            "scalene": self.memray_python,
        }
        if peer not in packages:
            if shutil.which(peer) is None:
                self.missing[peer] = "not installed"
            return peer not in self.missing
        try:
            run([packages[peer], "-c", f"import {peer}"], timeout=60)
        except (Failed, OSError):
            self.missing[peer] = f"{os.path.basename(packages[peer])} cannot import it"
        return peer not in self.missing

    def build(self) -> None:
        """Compile the workloads; raises Failed with what the compiler said."""
        compiler = os.environ.get("CC") or shutil.which("gcc") or "cc"
        library = ["-shared", "-fPIC"]
        link = [f"-L{self.work}", "-lleaf", "-Wl,-rpath,$ORIGIN", "-pthread"]
        for out, flags, libraries in (
            ("libleaf.so", ["-O2", *library], []),
            ("many.so", ["-O2", "-fno-builtin", *library], []),
            ("own.so", ["-O2", "-fno-builtin", *library], []),
            ("audit.so", ["-O2", "-ftls-model=initial-exec", *library], []),
            ("calls", ["-O2", "-fno-builtin"], link),
            ("clock", ["-O2"], link),
            ("sites", ["-O0", "-fno-builtin"], []),
            ("spin", ["-O1"], ["-pthread"]),
        ):
            source = os.path.join(TARGETS, os.path.splitext(out)[0] + ".c")
            run([compiler, *flags, "-o", self.path(out), source, *libraries])

    def path(self, name: str) -> str:
        """Return a path in the folder of this run."""
        return os.path.join(self.work, name)

    def fresh(self, name: str) -> str:
        """Return a path that nobody has used yet."""
        self._number += 1
        return self.path(f"{name}.{self._number}")

    # ---- soscope ----

    def trace(self, *options: str) -> list[str]:
        """Return `soscope trace` with options, to be followed by a command."""
        return [*self.soscope, "trace", "-q", *options, "--"]

    def record(self, *options: str) -> list[str]:
        """Return `soscope trace --record` into a file that is overwritten each time."""
        return self.trace("--record", self.path("run.sosr"), *options)

    def summary(self, *options: str) -> list[str]:
        """Return `soscope trace -o` into a file, for -c and --count-only."""
        return self.trace("-o", self.path("summary.txt"), *options)

    # ---- peers ----

    def uftrace(self, *options: str) -> list[str]:
        """Return `uftrace record` of a program that was not built for it."""
        return ["uftrace", "record", "--force", *options, "-d", self.path("uftrace.data")]

    def ltrace(self, *options: str) -> list[str]:
        """Return `ltrace` into a file."""
        return ["ltrace", "-o", self.path("ltrace.txt"), *options]

    def audit(self) -> list[str]:
        """Return what starts a command with our own auditor in it."""
        return ["env", f"LD_AUDIT={self.path('audit.so')}"]

    def frida(self, function: str) -> list[str]:
        """Return what starts a command with a frida agent in it."""
        return [self.frida_python, os.path.join(TARGETS, "frida_peer.py"), function]


def version_of(command: list[str]) -> str:
    """Return the first line of what a tool says of its version."""
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "not here"
    lines = (found.stdout or found.stderr).strip().splitlines()
    return lines[0] if lines else "?"
