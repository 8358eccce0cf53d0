# SPDX-License-Identifier: Apache-2.0
"""What calls that instrumented code reports cost under others, and at the very least."""

from __future__ import annotations

import glob
import os
import shutil
import signal
import subprocess
import time

from benchmarks.measure import Failed, run
from benchmarks.tools import TARGETS, Tools

# a floor is a library to preload: name, and how benchmarks/targets/hooks.c makes it
_FLOORS = {
    "bare `ret`, preloaded": "RETURN",
    "least count, preloaded": "COUNT",
    "two rdtsc, preloaded": "CLOCK",
}
# by mode and flags of the compiler
_BESIDE = {
    ("quiet", "-pg"): ["bare `ret`, preloaded"],
    ("count", "-pg"): ["least count, preloaded"],
    ("time", "-finstrument-functions"): [
        "two rdtsc, preloaded",
        "uftrace record",
        "LTTng-UST cyg-profile",
        "LTTng-UST cyg-profile-fast",
    ],
    ("time", "-pg"): ["uftrace record"],
}
_LTTNG = ("LTTng-UST cyg-profile", "LTTng-UST cyg-profile-fast")


class Peers:
    """The commands that go in front of a program; `missing` says what there is not, and why."""

    def __init__(self, tools: Tools) -> None:
        compiler = os.environ.get("CC") or "gcc"
        self.missing: dict[str, str] = {}
        self._tracers: dict[str, list[str]] = {}
        self._daemon: subprocess.Popen[bytes] | None = None
        self._home = tools.path("lttng")
        for name, what in _FLOORS.items():
            library = tools.path(f"hooks-{what}.so")
            words = ["-O2", "-fPIC", "-shared", f"-D{what}", os.path.join(TARGETS, "hooks.c")]
            run([compiler, *words, "-o", library])
            self._tracers[name] = ["env", f"LD_PRELOAD={library}"]
        if "uftrace" in tools.peers:
            self._tracers["uftrace record"] = tools.uftrace("--no-libcall", "--no-event")
        if "lttng" in tools.peers:
            try:
                self._start_lttng()
            except (Failed, OSError) as error:
                self.missing["LTTng-UST"] = str(error)

    def _start_lttng(self) -> None:
        os.makedirs(self._home)
        os.environ["LTTNG_HOME"] = self._home
        daemon = shutil.which("lttng-sessiond")
        if daemon is None:
            raise Failed("no lttng-sessiond")
        self._daemon = subprocess.Popen([daemon, "--quiet"], start_new_session=True)
        for words in (
            ["create", "bench", f"--output={self._home}/traces"],
            ["enable-channel", "--userspace", "--overwrite", "all"],
            ["enable-event", "--userspace", "--channel=all", "lttng_ust_cyg_profile*"],
            ["start"],
        ):
            for last in (False, False, False, False, True):
                try:
                    run(["lttng", "--no-sessiond", *words], timeout=30)
                    break
                except Failed:  # the daemon has only begun
                    if last:
                        raise
                    time.sleep(0.5)
        for name in _LTTNG:
            file = f"liblttng-ust-{name.split()[1]}.so"
            found = [path for folder in _LIBRARIES for path in glob.glob(f"{folder}/{file}*")]
            if found:
                self._tracers[name] = ["env", f"LD_PRELOAD={min(found)}"]

    def beside(self, mode: str, how: str) -> list[str]:
        """Return the names of those that are measured beside a mode."""
        return [name for name in _BESIDE.get((mode, how), ()) if name in self._tracers]

    def tracer(self, name: str) -> list[str]:
        """Return what goes in front of the program."""
        return self._tracers[name]

    def close(self) -> None:
        """End LTTng's daemon."""
        if self._daemon is not None:
            self._daemon.send_signal(signal.SIGTERM)
            try:
                self._daemon.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self._daemon.kill()
                self._daemon.wait()


_LIBRARIES = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib")
