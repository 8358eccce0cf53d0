# SPDX-License-Identifier: Apache-2.0
"""`soscope prof check`: for people, and as JSON with the schema "soscope/prof-check/1"."""

from __future__ import annotations

from soscope.instruments.prof.check import (
    CYG,
    FENTRY,
    MCOUNT,
    MEASURED,
    PATCHABLE,
    PricedMode,
    advice_for,
    modes_of,
)
from soscope.model.call import printable
from soscope.report.output import json_document, members
from soscope.report.words import plural

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.prof.check import Instrumentation


# `soscope prof check --json`: one document, schema "soscope/prof-check/1".

CHECK_SCHEMA = "soscope/prof-check/1"


def check_document(library: Instrumentation) -> str:
    """Return the document. Unknown values are null, and `ns` are nanoseconds a call."""
    return json_document(
        {
            "schema": CHECK_SCHEMA,
            "image": library.path,
            "instrumented": library.kind,
            **members(library, "sites functions inlined relro"),
            "modes": [members(mode, "mode works ns reason") for mode in modes_of(library)],
            "advice": advice_for(library),
        }
    )


# `soscope prof check` for people: the contents of the file, then a line for each mode.

_BUILT = {
    None: "not instrumented",
    MCOUNT: "instrumented with -pg (mcount)",
    FENTRY: "instrumented with -pg -mfentry (__fentry__)",
    CYG: "instrumented with -finstrument-functions (__cyg_profile_func_enter)",
    PATCHABLE: "built with -fpatchable-function-entry (entries are patched)",
}
_RELRO = {
    "none": "no RELRO: its slots stay writable",
    "partial": "partial RELRO: slots that are bound lazily stay writable",
    "full": "full RELRO: its slots are read-only once it is loaded",
}


def check_text(library: Instrumentation) -> str:
    """Return the report."""
    lines = [f"{library.path}: {_BUILT[library.kind]}"]
    if library.kind is not None:
        lines.append(f"  {_sites(library)}")
    lines += [f"  {_RELRO[library.relro]}", "", f"  ns a call  mode   ({MEASURED})"]
    lines += _rows(modes_of(library))
    advice = advice_for(library)
    if advice:
        lines += ["", "advice:", *(f"  {sentence}" for sentence in advice)]
    return "".join(f"{printable(line)}\n" for line in lines)


def _sites(library: Instrumentation) -> str:
    if library.sites is None:
        return "an unknown number of call sites"
    is_patchable = library.kind == PATCHABLE
    said = plural(
        library.sites, "entry" if is_patchable else "call site", "entries" if is_patchable else None
    )
    if library.functions is not None:
        said += f" in {plural(library.functions, 'function')}"
    if is_patchable:
        said += f", {library.rooms:,} of them with room for a call"
    if library.inlined:
        share = 100 * library.inlined / library.sites
        said += f", {library.inlined:,} of them ({share:.0f} %) in inlined functions"
    return said


def _rows(modes: list[PricedMode]) -> list[str]:
    """Return a line for each mode that works, and one for each reason why others do not."""
    lines = [f"  {mode.ns:9.1f}  {mode.mode}" for mode in modes if mode.works]
    reasons: dict[str, list[str]] = {}
    for mode in modes:
        if mode.reason is not None:
            reasons.setdefault(mode.reason, []).append(mode.mode)
    return lines + [f"  {'-':>9}  {', '.join(names)}: {why}" for why, names in reasons.items()]
