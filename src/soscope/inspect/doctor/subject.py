# SPDX-License-Identifier: Apache-2.0
"""The process or file that the user asked about, with all findings on it."""

from __future__ import annotations

from soscope.binfmt.elf.image import ElfImage
from soscope.errors import SoscopeError
from soscope.inspect.doctor import images as looks
from soscope.inspect.doctor.costs import Cost, costs
from soscope.inspect.doctor.finding import INFO, LIMITED, MISSING, OK, Finding
from soscope.inspect.doctor.images import ImageReport
from soscope.inspect.doctor.languages import Language, languages
from soscope.inspect.doctor.libc import Libc, libc_of
from soscope.prototypes import load

FINE, PARTIAL, NOT_PERMITTED = 0, 1, 3


class Subject:
    """The findings on a process or a file.

    `kind` is "process" or "file"; `pid` is None for a file. `path` is the program's file,
    `loader` the dynamic loader that it asks for, None for a static program. `status` is one of
    the constants of this module: it tells whether everything could be examined, and if not, why.
    `costs` are those of the instruments that can be used on it, empty if none can.
    """

    __slots__ = (
        "costs",
        "findings",
        "images",
        "kind",
        "languages",
        "libc",
        "linkage",
        "loader",
        "machine",
        "made_for",
        "path",
        "pid",
        "status",
    )

    def __init__(self, kind: str, path: str, pid: int | None = None) -> None:
        self.kind = kind
        self.path = path
        self.pid = pid
        self.machine = self.made_for = self.linkage = ""
        self.loader: str | None = None
        self.libc: Libc | None = None
        self.languages: list[Language] = []
        self.images: list[ImageReport] = []
        self.findings: list[Finding] = []
        self.costs: list[Cost] = []
        self.status = FINE

    def say(self, name: str, state: str, text: str, repair: str | None = None) -> None:
        """Add a finding."""
        self.findings.append(Finding(name, state, text, repair))

    def fall_short(self, status: int) -> None:
        """Record that not everything could be examined; the first reason counts."""
        self.status = self.status or status

    def take_program(self, program: ElfImage) -> None:
        """Take over the findings from the program's own file."""
        self.machine = looks.machine_name(program)
        self.made_for = looks.made_for(program)
        self.linkage = looks.linkage(program)
        if looks.is_native(program) or program.encoding.bits == 64:
            self.loader = program.interpreter

    def take_images(self, listed: list[tuple[ImageReport, ElfImage | None]]) -> None:
        """Take over the findings from all images; the program comes first."""
        looks.settle(listed)
        self.images = [report for report, _ in listed]
        readable = [(report.name, image) for report, image in listed if image is not None]
        self.languages = languages(readable)
        for name, image in readable:
            libc = libc_of(image, name)
            if libc is not None:
                self.libc = libc
                break

    # ---- conclusions

    def judge(self, hindrance: str | None, command: str = "soscope trace") -> None:
        """Add the conclusions and the costs.

        `hindrance` is why the agent cannot be in this program, None if it can. `command` would
        put the agent in.
        """
        self._judge_libc()
        self._judge_images()
        if hindrance is not None:
            return
        hookable = [image for image in self.images if image.state == looks.HOOKED]
        functions = set().union(*(image.functions for image in hookable))
        if functions:
            text = f"up to {len(functions):,} functions with --from all{_typed(functions)}"
            self.say("what can be seen", OK, text)
            self.costs = costs(command)

    def _judge_libc(self) -> None:
        if self.libc is None:
            if self.images and self.loader is not None:
                self.say("C library", INFO, "none recognised")
        elif self.libc.is_supported:
            self.say("C library", OK, self.libc.text)
        else:
            text = f"{self.libc.text}: soscope is made for glibc 2.31 and newer, and for musl"
            self.say("C library", LIMITED, text)
        for language in self.languages:
            what = (
                f"{language.name} {language.version}"
                if language.version
                else f"{language.name}, version unknown"
            )
            how = "it is" if language.is_main else "it embeds"
            self.say("interpreter", INFO, f"{how} {what} (in {language.image})")

    def _judge_images(self) -> None:
        if not self.images or self.linkage.startswith("static"):
            return
        hookable = [image for image in self.images if image.state == looks.HOOKED]
        slots = sum(image.calls + image.loads for image in hookable)
        text = f"{len(hookable)} of {len(self.images)} can be hooked: {slots:,} function slots"
        self.say("images", OK if hookable else MISSING, text)


def _typed(functions: set[str]) -> str:
    """Return a text on how many functions have known argument types, "" if not known."""
    try:
        known = load()
        declared = sum(known.declaration(name) is not None for name in functions)
    except SoscopeError:  # reported elsewhere on the page
        return ""
    return f", {declared:,} of them with typed arguments"
