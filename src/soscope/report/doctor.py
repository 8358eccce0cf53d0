# SPDX-License-Identifier: Apache-2.0
"""The report of `soscope doctor`, for people and for programs: soscope/doctor/1."""

from __future__ import annotations

import os
import sys

from soscope import __version__
from soscope.inspect.doctor.process import HOOKED, Diagnosis, ImageReport, Subject
from soscope.inspect.doctor.system import INFO, LIMITED, MISSING, OK, Finding
from soscope.model.call import printable
from soscope.report.output import json_document, members

_MARKS = {OK: "ok", LIMITED: "part", MISSING: "NO", INFO: "-"}
_NAME = 26  # columns of a finding's name
_MOST = 12  # images that are shown; --json has all


def system() -> str:
    """Return the versions of soscope, Python and the system in one line."""
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
            lines += [line for finding in part.findings for line in _finding(finding)]
    return "\n".join(map(printable, lines)) + "\n"


def _short(diagnosis: Diagnosis) -> list[str]:
    """Return the problems of the system, for a page about something else."""
    findings = [finding for part in diagnosis.parts for finding in part.findings]
    bad = [finding for finding in findings if finding.state in (LIMITED, MISSING)]
    lines = [line for finding in bad for line in _finding(finding)]
    what = "the rest of this installation" if bad else "this installation"
    return [*lines, f"  {what} is fine: soscope doctor tells more"]


def _finding(finding: Finding) -> list[str]:
    lines = [f"  {_MARKS[finding.state]:4}  {finding.name:{_NAME}} {finding.text}"]
    if finding.repair is not None:
        lines.append(f"        {'':{_NAME}} > {finding.repair}")
    return lines


def _subject(subject: Subject) -> list[str]:
    lines = [subject.path or f"process {subject.pid}"]
    lines += [line for finding in subject.findings for line in _finding(finding)]
    if subject.images:
        lines += ["", "images"]
        # Problems first, and the program before its libraries.
        ordered = sorted(subject.images, key=lambda image: image.state == HOOKED)
        lines += [_image(image) for image in ordered[:_MOST]]
        if len(ordered) > _MOST:
            lines.append(
                f"        and {len(ordered) - _MOST} more, all of them hookable: --json lists them"
            )
    if subject.costs:
        lines += ["", "what it costs a call, about"]
        width = max(len(cost.command) for cost in subject.costs)
        lines += [
            f"  {cost.ns:3} ns  {cost.command:{width}}  {cost.shows}" for cost in subject.costs
        ]
    return lines


def _image(image: ImageReport) -> str:
    mark = "ok" if image.state == HOOKED else "-"
    if image.state != HOOKED:
        return f"  {mark:4}  {image.name:{_NAME}} {image.why}"
    words = [f"{image.calls + image.loads:,} slots"]
    if image.binding != "none":
        words.append(f"bound {'at once' if image.binding == 'now' else 'lazily'}")
    else:
        words.append("no stubs")
    words.append("no RELRO" if image.relro == "none" else f"{image.relro} RELRO")
    words += image.features
    return f"  {mark:4}  {image.name:{_NAME}} {', '.join(words)}"


SCHEMA = "soscope/doctor/1"


def document(diagnosis: Diagnosis) -> str:
    """Return the JSON document."""
    value = {
        "schema": SCHEMA,
        "system": system(),
        "parts": [
            {
                "title": part.title,
                "findings": [members(finding, _FINDING) for finding in part.findings],
            }
            for part in diagnosis.parts
        ],
        "subject": None if diagnosis.subject is None else _subject_object(diagnosis.subject),
        "status": diagnosis.status,
    }
    return json_document(value)


_FINDING = "name state text repair"
_IMAGE = "name path build_id state why binding relro features calls loads"


def _subject_object(subject: Subject) -> dict[str, object]:
    return {
        **members(subject, "kind pid path machine linkage loader"),
        "libc": None if subject.libc is None else members(subject.libc, "name version"),
        "interpreters": [
            members(language, "name version image is_main") for language in subject.languages
        ],
        "findings": [members(finding, _FINDING) for finding in subject.findings],
        "images": [members(image, _IMAGE) for image in subject.images],
        "costs": [members(cost, "command shows ns") for cost in subject.costs],
    }
