# SPDX-License-Identifier: Apache-2.0
"""The result of a sweep, for people (worst first) and programs: soscope/inject-sweep/1."""

from __future__ import annotations

from soscope.instruments.inject.sweep.result import (
    CRASH,
    ERROR,
    HANG,
    KINDS,
    NONE,
    WORST_FIRST,
    shell_words,
)
from soscope.model.call import printable
from soscope.proc.status import NOT_FOLLOWED, signal_name
from soscope.report.output import Form, json_document, members
from soscope.report.words import plural

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.inject.sweep.result import CommandEnd, Site, SiteResult, SweepResult


# The results of a sweep, for programs: soscope/inject-sweep/1.

SCHEMA = "soscope/inject-sweep/1"


def document(result: SweepResult, form: Form) -> str:
    """Return the document in its form. On a page the worst sites come first."""
    results = result.results
    if form.is_markdown:
        results = sorted(results, key=lambda tried: WORST_FIRST.index(tried.kind))
    said = json_document(
        {
            "schema": SCHEMA,
            "command": result.command,
            "functions": result.functions,
            "baseline": _end(result.baseline),
            "deterministic": result.is_deterministic,
            "sites": [
                {
                    **members(tried.site, "function image"),
                    "offset": f"{tried.site.offset:#x}",
                    "kind": tried.kind,
                    **_end(tried.end),
                    "stack": tried.stack,
                    "repeat": result.repeat(tried.site),
                }
                for tried in results
            ],
            "totals": result.totals,
        }
    )
    return form.shaped(said)


def _end(end: CommandEnd) -> dict[str, object]:
    name = None if end.signal is None else signal_name(end.signal)
    return {"status": end.status, "signal": name}


# The results of a sweep, for people: the worst first, each with a command that repeats its run.

_MOST = 10  # sites or functions listed in a note


def text(result: SweepResult, *, every: bool) -> str:
    """Return the lines for people. With `every`, sites without effect are included."""
    lines = [_head(result)]
    for kind in WORST_FIRST:
        for tried in result.results:
            if tried.kind == kind and (every or kind != NONE):
                lines += ["", *_lines(result, tried)]
    totals = result.totals
    kinds = ", ".join(f"{totals[kind]} {kind}" for kind in KINDS if totals[kind])
    lines += ["", f"{plural(totals['sites'], 'site')}{': ' if kinds else ''}{kinds}"]
    return "".join(printable(line) + "\n" for line in lines)


def _head(result: SweepResult) -> str:
    how = "without injection" if result.is_deterministic else "without injection, once"
    return (
        f"{shell_words(result.command)}: {plural(result.sites, 'call site')} of "
        f"{', '.join(result.functions)}; {_ended(result.baseline)} {how}"
    )


def _lines(result: SweepResult, tried: SiteResult) -> list[str]:
    how = ""
    if tried.kind == HANG:
        how = f"after {result.timeout:g} s"
    elif tried.kind in (CRASH, ERROR):
        how = _ended(tried.end)
    return [
        "  ".join(word for word in (f"{tried.kind:5}", how, _name(tried.site)) if word),
        *(f"         {frame}" for frame in tried.stack),
        f"    {result.repeat(tried.site)}",
    ]


def _name(site: Site) -> str:
    return f"{site.function} at {site.image}+{site.offset:#x}"


def _ended(end: CommandEnd) -> str:
    if end.signal is not None:
        return signal_name(end.signal)
    return f"status {end.status}"


def notes(result: SweepResult) -> list[str]:
    """Return the notes about the result."""
    lines = []
    if result.is_cut:
        lines.append(f"ended by a signal: {_progress(result)}")
    if result.differs:
        lines.append(f"not deterministic: two runs differ in {' and '.join(result.differs)}")
    if result.has_no_output:
        lines.append("so nothing can be said of its output; --test CHECKS can")
    lines += [
        f"not deterministic: only one of two runs reached {_name(site)}"
        for site in result.moved[:_MOST]
    ]
    lines += _more(len(result.moved), "site")
    for site, reason in result.failed[:_MOST]:
        lines.append(f"{_name(site)} could not be tried: {reason}")
    lines += _more(len(result.failed), "site")
    for function, image in result.jumped[:_MOST]:
        lines.append(f"{image}: jumps to {function} return elsewhere, and are not tried")
    lines += _more(len(result.jumped), "function")
    left = [path for path, reason in result.untraced if reason == NOT_FOLLOWED]
    if left:
        lines.append(f"not followed, without -f: {', '.join(left[:_MOST])}")
    lines += [
        f"{path}: nothing fails there: {reason}"
        for path, reason in result.untraced
        if reason != NOT_FOLLOWED
    ]
    if not result.sites and not result.is_cut:
        lines.append("no call of these functions went through a slot")
    elif not result.is_cut:
        lines.append("calls inside an image go through no slot, and are not tried")
    return [printable(line) for line in lines]


def _progress(result: SweepResult) -> str:
    if not result.sites:
        return "its sites were not known yet"
    return f"{len(result.results)} of {plural(result.sites, 'site')} tried"


def _more(count: int, what: str) -> list[str]:
    return [f"and {plural(count - _MOST, 'more ' + what)}"] if count > _MOST else []
