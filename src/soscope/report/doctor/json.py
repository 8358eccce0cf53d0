# SPDX-License-Identifier: Apache-2.0
"""The doctor's page, for programs: soscope/doctor/1."""

from __future__ import annotations

from soscope.inspect.doctor.process import Diagnosis, ImageReport, Subject
from soscope.inspect.doctor.system import Finding
from soscope.report.doctor.text import system
from soscope.report.jsontext import json_document

SCHEMA = "soscope/doctor/1"


def document(diagnosis: Diagnosis) -> str:
    """Return the JSON document."""
    value = {
        "schema": SCHEMA,
        "system": system(),
        "parts": [
            {
                "title": part.title,
                "findings": [_finding_object(finding) for finding in part.findings],
            }
            for part in diagnosis.parts
        ],
        "subject": None if diagnosis.subject is None else _subject_object(diagnosis.subject),
        "status": diagnosis.status,
    }
    return json_document(value)


def _finding_object(finding: Finding) -> dict[str, object]:
    return {
        "name": finding.name,
        "state": finding.state,
        "text": finding.text,
        "repair": finding.repair,
    }


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
            {
                "name": language.name,
                "version": language.version,
                "image": language.image,
                "is_main": language.is_main,
            }
            for language in subject.languages
        ],
        "findings": [_finding_object(finding) for finding in subject.findings],
        "images": [_image_object(image) for image in subject.images],
        "costs": [
            {"command": cost.command, "shows": cost.shows, "ns": cost.ns} for cost in subject.costs
        ],
    }


def _image_object(image: ImageReport) -> dict[str, object]:
    return {
        "name": image.name,
        "path": image.path,
        "build_id": image.build_id,
        "state": image.state,
        "why": image.why,
        "binding": image.binding,
        "relro": image.relro,
        "features": image.features,
        "calls": image.calls,
        "loads": image.loads,
    }
