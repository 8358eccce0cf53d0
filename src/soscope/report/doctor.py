# SPDX-License-Identifier: Apache-2.0
"""The doctor's page: text for people, soscope/doctor/1 for programs."""

from __future__ import annotations

import os
import sys

from soscope import __version__
from soscope.inspect.doctor import Diagnosis
from soscope.inspect.finding import INFO, LIMITED, MISSING, OK, Finding
from soscope.inspect.images import HOOKED, ImageReport
from soscope.inspect.subject import Subject
from soscope.report.words import json_document, printable

SCHEMA = "soscope/doctor/1"

_MARKS = {OK: "ok", LIMITED: "part", MISSING: "NO", INFO: "-"}
_NAME = 26  # columns of a finding's name
_MOST = 12  # images that are shown; --json has all


def system() -> str:
    """Return soscope's, Python's and the system's version in one line."""
    python = ".".join(map(str, sys.version_info[:3]))
    name = os.uname()
    return f"soscope {__version__}, Python {python}, {name.sysname} {name.release} {name.machine}"


def text(diagnosis: Diagnosis) -> str:
    """Return the page."""
    lines: list[str] = []
    if diagnosis.subject is not None:
        lines += [*_subject(diagnosis.subject), ""]
    lines.append(system())
    if diagnosis.subject is not None:
        lines += _short(diagnosis)
    else:
        for part in diagnosis.parts:
            lines += ["", part.title]
            lines += [line for one in part.findings for line in _finding(one)]
    return "\n".join(map(printable, lines)) + "\n"


def _short(diagnosis: Diagnosis) -> list[str]:
    """Return what is not well with the system, where the page is about something else."""
    found = [one for part in diagnosis.parts for one in part.findings]
    bad = [one for one in found if one.state in (LIMITED, MISSING)]
    lines = [line for one in bad for line in _finding(one)]
    how = "the rest is fine" if bad else "all is fine with it"
    return [*lines, f"  {how}: soscope doctor tells more"]


def _finding(one: Finding) -> list[str]:
    lines = [f"  {_MARKS[one.state]:4}  {one.name:{_NAME}} {one.text}"]
    if one.repair is not None:
        lines.append(f"        {'':{_NAME}} > {one.repair}")
    return lines


def _subject(subject: Subject) -> list[str]:
    lines = [subject.path or f"process {subject.pid}"]
    lines += [line for one in subject.findings for line in _finding(one)]
    if subject.images:
        lines += ["", "images"]
        # what is in the way first, the program before its libraries
        ordered = sorted(subject.images, key=lambda one: one.state == HOOKED)
        lines += [_image(one) for one in ordered[:_MOST]]
        if len(ordered) > _MOST:
            lines.append(
                f"        and {len(ordered) - _MOST} more, all of them hookable: --json lists them"
            )
    if subject.costs:
        lines += ["", "what it costs a call, about"]
        width = max(len(one.command) for one in subject.costs)
        lines += [f"  {one.ns:3} ns  {one.command:{width}}  {one.shows}" for one in subject.costs]
    return lines


def _image(one: ImageReport) -> str:
    mark = "ok" if one.state == HOOKED else "-"
    if one.state != HOOKED:
        return f"  {mark:4}  {one.name:{_NAME}} {one.why}"
    words = [f"{one.calls + one.loads:,} slots"]
    if one.binding != "none":
        words.append(f"bound {'at once' if one.binding == 'now' else 'lazily'}")
    else:
        words.append("no stubs")
    words.append("no RELRO" if one.relro == "none" else f"{one.relro} RELRO")
    words += one.features
    return f"  {mark:4}  {one.name:{_NAME}} {', '.join(words)}"


def document(diagnosis: Diagnosis) -> str:
    """Return the JSON document."""
    value = {
        "schema": SCHEMA,
        "system": system(),
        "parts": [
            {"title": part.title, "findings": [_finding_object(one) for one in part.findings]}
            for part in diagnosis.parts
        ],
        "subject": None if diagnosis.subject is None else _subject_object(diagnosis.subject),
        "status": diagnosis.status,
    }
    return json_document(value)


def _finding_object(one: Finding) -> dict[str, object]:
    return {"name": one.name, "state": one.state, "text": one.text, "repair": one.repair}


def _subject_object(subject: Subject) -> dict[str, object]:
    libc = subject.libc
    return {
        "kind": subject.kind,
        "pid": subject.pid,
        "path": subject.path,
        "machine": subject.machine,
        "linkage": subject.linkage,
        "loader": subject.loader,
        "libc": None if libc is None else {"name": libc.name, "version": libc.version},
        "interpreters": [
            {"name": one.name, "version": one.version, "image": one.image, "is_main": one.is_main}
            for one in subject.languages
        ],
        "findings": [_finding_object(one) for one in subject.findings],
        "images": [_image_object(one) for one in subject.images],
        "costs": [
            {"command": one.command, "shows": one.shows, "ns": one.ns} for one in subject.costs
        ],
    }


def _image_object(one: ImageReport) -> dict[str, object]:
    return {
        "name": one.name,
        "path": one.path,
        "build_id": one.build_id,
        "state": one.state,
        "why": one.why,
        "binding": one.binding,
        "relro": one.relro,
        "features": one.features,
        "calls": one.calls,
        "loads": one.loads,
    }
