# SPDX-License-Identifier: Apache-2.0
"""The processor: its clock, and the registers that matter for calls."""

from __future__ import annotations

import ctypes
import os

from soscope.entry.native.isa import machine_of
from soscope.inspect.doctor.finding import INFO, LIMITED, MISSING, OK, Finding
from soscope.model.arch import ARCHES, arch_here

_PR_GET_TSC = 25
_PR_TSC_SIGSEGV = 2
_CLOCK = "/sys/devices/system/clocksource/clocksource0/current_clocksource"


def findings() -> list[Finding]:
    """Examine the processor."""
    machine = os.uname().machine
    here = arch_here()
    if here is None or not here.has_agent:
        known = " and ".join(arch.name for arch in ARCHES if arch.has_agent)
        text = f"{machine}: the agent exists for {known} alone; recordings can be read"
        if here is None or machine_of(here) is None:
            return [Finding("processor", MISSING, text)]
        return [Finding("processor", LIMITED, f"{text}, and calls be traced by breakpoints")]
    flags = _flags()
    return [Finding("processor", OK, _name() or machine), _clock(flags), _cet(flags), _wide(flags)]


def _flags() -> set[str]:
    """Return the words of the first line `flags` of /proc/cpuinfo."""
    return set(_line("flags").split())


def _name() -> str:
    return _line("model name")


def _line(name: str) -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() == name:
                    return value.strip()
    except OSError:
        pass  # no /proc
    return ""


def clock_source() -> str:
    """Return the clock source of the kernel, "" if it is not known."""
    try:
        with open(_CLOCK, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _clock(flags: set[str]) -> Finding:
    """Judge the time-stamp counter, with which soscope times every call."""
    name = "time-stamp counter"
    mode = ctypes.c_int()
    if not ctypes.CDLL(None).prctl(_PR_GET_TSC, ctypes.byref(mode), 0, 0, 0) and (
        mode.value == _PR_TSC_SIGSEGV
    ):
        return Finding(name, MISSING, "switched off for this process (PR_SET_TSC): no times")
    source = clock_source()
    steady = {"constant_tsc", "nonstop_tsc"} <= flags
    if source and source != "tsc":
        text = f"the kernel does not trust it (its clock is {source}): times may be wrong"
        return Finding(name, LIMITED, text)
    if not steady:
        text = "its rate is not said to be constant: durations may be wrong"
        return Finding(name, LIMITED, text)
    return Finding(name, OK, "steady (constant_tsc, nonstop_tsc); the kernel's clock, too")


def _cet(flags: set[str]) -> Finding:
    """Report which control-flow enforcement the processor has."""
    has = [word for word in ("ibt", "user_shstk", "shstk") if word in flags]
    if not has:
        return Finding("CET", INFO, "not offered: neither shadow stacks nor IBT")
    text = f"offered ({', '.join(has)}); trampolines begin with endbr64, and pair calls and returns"
    return Finding("CET", INFO, text)


def _wide(flags: set[str]) -> Finding:
    """Report which wide registers the processor has."""
    names = [
        name
        for word, name in (("avx2", "AVX2"), ("avx512f", "AVX-512"), ("amx_tile", "AMX"))
        if word in flags
    ]
    text = f"{', '.join(names) or 'SSE alone'}; the agent touches none at a call"
    return Finding("vector registers", INFO, text)
