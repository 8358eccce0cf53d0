# SPDX-License-Identifier: Apache-2.0
"""The instruction sets for audits of resolvers: a file for each, with `machine(header)`."""

from __future__ import annotations

from importlib import import_module

from soscope.binfmt.elf.reader import Header
from soscope.inspect.audit.machine import InstructionSet
from soscope.model.arch import ARCHES

_KNOWN = ("aarch64", "x86")


def machine_of(header: Header) -> InstructionSet | None:
    """Return the instruction set of a file, None if it is not known.

    Raises ImportError if capstone is not installed.
    """
    arch = header.arch
    if arch is None or arch.isa not in _KNOWN:
        return None
    machine: InstructionSet | None = import_module(f"{__name__}.{arch.isa}").machine(header)
    return machine


def known() -> str:
    """Return the names of the known machines, as text."""
    names = list(dict.fromkeys(row.name for row in ARCHES if row.isa in _KNOWN))
    return f"{', '.join(names[:-1])} and {names[-1]}"
