# SPDX-License-Identifier: Apache-2.0
"""What works on this system, and with one process or file: all findings of `soscope doctor`."""

from __future__ import annotations

from soscope.inspect.doctor import file, installation, kernel, process, processor, system, trial
from soscope.inspect.doctor.finding import MISSING, PagePart
from soscope.inspect.doctor.subject import FINE, PARTIAL, Subject


class Diagnosis:
    """All findings: about this system, by parts, and about the `subject`, None without one."""

    __slots__ = ("parts", "subject")

    def __init__(self, parts: list[PagePart], subject: Subject | None) -> None:
        self.parts = parts
        self.subject = subject

    @property
    def status(self) -> int:
        """The exit status: 0, 1 if something does not work, 3 if it is not permitted."""
        findings = [finding for part in self.parts for finding in part.findings]
        if self.subject is not None:
            if self.subject.status != FINE:
                return self.subject.status
            findings += self.subject.findings
        return PARTIAL if any(finding.state == MISSING for finding in findings) else FINE


def diagnose(*, pid: int | None = None, path: str | None = None) -> Diagnosis:
    """Examine this system, and process `pid` or the file at `path`.

    Raises NoSuchProcess, and SoscopeError for a file that cannot be examined.
    """
    subject = None
    if pid is not None:
        subject = process.examine(pid)
    elif path is not None:
        subject = file.examine(path)
    parts = [
        PagePart("installation", [*installation.findings(), *trial.findings()]),
        PagePart("rights", system.findings()),
        PagePart("kernel", kernel.findings()),
        PagePart("processor", processor.findings()),
    ]
    return Diagnosis(parts, subject)
