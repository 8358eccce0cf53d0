# SPDX-License-Identifier: Apache-2.0
"""What is installed: the agent, the prototypes, the packages for parts of soscope."""

from __future__ import annotations

import mmap
import sys
from importlib import metadata
from importlib.util import find_spec

from soscope.entry.agent import install
from soscope.errors import AgentError, SoscopeError
from soscope.inspect.doctor.finding import INFO, LIMITED, MISSING, OK, Finding
from soscope.model.arch import arch_here
from soscope.prototypes import load
from soscope.wire import layout

# required packages, then the extras: distribution -> (module, extra)
_CORE = {"numpy": "numpy"}
_EXTRAS = {
    "pyelftools": ("elftools", "lines"),
    "capstone": ("capstone", "disasm"),
    "unicorn": ("unicorn", "emulate"),
    "pandas": ("pandas", "data"),
    "pyarrow": ("pyarrow", "data"),
}


def findings() -> list[Finding]:
    """Examine this installation."""
    return [_agent(), _prototypes(), _core(), _extras()]


def _agent() -> Finding:
    """Build the agent's file as targets get it, and map it as they do."""
    path = install.agent_path()
    repair = f"{sys.executable} -m pip install --force-reinstall soscope"
    try:
        built = install.Blob.build(path)
    except AgentError as error:
        here = arch_here()
        if here is not None and not here.has_agent:
            return Finding("agent", INFO, error.message)
        return Finding("agent", MISSING, error.message, repair)
    try:
        built.fill()
        flags, protection = mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC
        with mmap.mmap(built.fd, built.size, flags=flags, prot=protection) as mapped:
            is_whole = mapped[:4] == b"\x7fELF"
    except OSError as error:
        reason = (error.strerror or "").lower()
        return Finding("agent", MISSING, f"{path}: cannot be mapped: {reason}", repair)
    finally:
        built.close()
    if not is_whole:
        return Finding("agent", MISSING, f"{path}: not whole when mapped", repair)
    built_as = built.build_id.hex()[:16] or "none"
    text = f"{path}; build-id {built_as}…, wire version {layout.WIRE_VERSION}"
    return Finding("agent", OK, text)


def _prototypes() -> Finding:
    """Check whether the declarations of functions are installed."""
    try:
        known = load().declaration("malloc") is not None
    except (OSError, SoscopeError) as error:
        return Finding("prototypes", MISSING, str(error))
    if not known:
        return Finding("prototypes", LIMITED, "without malloc: arguments are shown as numbers")
    return Finding("prototypes", OK, "arguments and results of known functions are shown in full")


def version_of(distribution: str, module: str) -> str | None:
    """Return the version of an installed package, "?" if it has none, None if it is missing."""
    try:
        if find_spec(module) is None:
            return None
    except (ImportError, ValueError):
        return None
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "?"


def _core() -> Finding:
    versions = {name: version_of(name, module) for name, module in _CORE.items()}
    missing = [name for name, version in versions.items() if version is None]
    if missing:
        text = f"missing: {', '.join(missing)}"
        repair = f"{sys.executable} -m pip install {' '.join(missing)}"
        return Finding("packages", LIMITED, text, repair)
    return Finding("packages", OK, ", ".join(f"{name} {versions[name]}" for name in versions))


def _extras() -> Finding:
    has, lacks = [], []
    for name, (module, extra) in _EXTRAS.items():
        version = version_of(name, module)
        if version is None:
            lacks += [] if extra in lacks else [extra]
        else:
            has.append(f"{name} {version}")
    text = f"{', '.join(has) or 'none'}; not installed: {', '.join(lacks) or 'none'}"
    repair = f"{sys.executable} -m pip install 'soscope[{','.join(lacks)}]'" if lacks else None
    return Finding("extras", INFO, text, repair)
