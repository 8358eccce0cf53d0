# SPDX-License-Identifier: Apache-2.0
"""Record a profile of a command or a process, in the way that fits it, and read it back."""

from __future__ import annotations

import os
import shutil

from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.sections import SECTION as PATCHABLE_SECTION
from soscope.binfmt.elf.sections import Sections
from soscope.control.outcome import ChildPrograms, Outcome, Price, cost_lines
from soscope.control.session import Session
from soscope.control.settings import DEFAULT_BUFFER, Instrument, SessionSettings
from soscope.errors import RecordingError, SoscopeError
from soscope.instruments.prof.boundary import TIME
from soscope.instruments.prof.instrumented import HOOKS
from soscope.instruments.prof.model import (
    COMPLETE,
    CUT,
    DISK_FULL,
    MODE_LOG,
    MODE_TIME,
    Profile,
    ProfSettings,
)
from soscope.linker.library import open_image
from soscope.linker.search import closure
from soscope.model.call import ProcessExit
from soscope.model.image import TracedImage
from soscope.proc import maps
from soscope.proc.status import command_words, process_ns, signal_name
from soscope.recording.reader import RecordingFile
from soscope.recording.sink import Sink, Told
from soscope.select.filter import ALL, Selection, chooses, compile_selection
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from soscope.wire.block import ControlBlock


# Makes a profile of a recording.

_NO_CLOCK = "times are too small: calls are counted alone while it forbids itself the clock"
_TIMED = ("time", "sample", "log")  # modes in which calls have times


def profile_of(
    recording: RecordingFile,
    *,
    timeline: bool = False,
    lines: bool = False,
    sample_lines: bool = True,
) -> Profile:
    """Return the profile of a recording of `soscope prof`.

    With `timeline` it has single calls, too. With `lines` it has file and line of called
    functions as far as debug information has them, and with `sample_lines` those of sampled
    frames. Raises RecordingError if the recording is about something else.
    """
    recording.expect("prof")
    options = prof_options(recording)
    if options is None:
        raise RecordingError(f"'{recording.path}' is damaged: it does not say what was profiled")
    end = recording.end or {}
    killed = _number(end.get("signal"))
    profile = Profile(
        _command(recording, options),
        state=_state(recording),
        status=_number(end.get("status")),
        signal=None if killed is None else signal_name(killed),
        mode=_word(options.get("mode")),
        boundary=_word(options.get("boundary")),
    )
    profile.is_chosen = options.get("chosen") is True
    totals = end.get("totals")
    if isinstance(totals, dict):
        profile.processor_ns = _number(totals.get("processor_ns"))
        if isinstance(whys := totals.get("not_sampled"), list):
            profile.not_sampled = [str(why) for why in whys]
    if timeline and profile.mode == MODE_LOG:
        profile.timeline = []
    if recording.reported or profile.boundary is not None or profile.mode == MODE_LOG:
        _add_calls(recording, profile, lines=lines)
        if profile.boundary in _TIMED or profile.mode in _TIMED:
            profile.notes += _without_clock(recording)
            for program in recording.programs.all():
                profile.delays.add(program.delays(recording.clock))
        profile.notes += _unmet(recording, options)
    if recording.samples:
        from soscope.instruments.prof.samples import add_samples

        add_samples(recording.samples, profile, with_lines=sample_lines)
    profile.dropped += sum(count for count, _ in recording.losses.messages())
    profile.notes += [f"{count:,} lost: {why}" for count, why in recording.losses.messages()]
    profile.cost = Price.of(end.get("cost"))
    profile.executed = ChildPrograms.of(end.get("executed"))
    profile.notes += [*recording.lacking, *profile.executed.lines()]
    profile.notes += cost_lines(profile.cost, "profiling")
    profile.state = _state(recording)  # single calls have been read by now
    if recording.damage is not None:
        profile.notes.append(f"{recording.path}: {recording.damage}")
    return profile


def _add_calls(recording: RecordingFile, profile: Profile, *, lines: bool) -> None:
    from soscope.instruments.prof.boundary import add_boundary, unseen_tables
    from soscope.instruments.prof.names import RecordedNames
    from soscope.instruments.prof.reportedtree import add_reported
    from soscope.instruments.prof.views import ArcSums

    sums, names = ArcSums(profile), RecordedNames(with_lines=lines)
    if recording.reported or profile.mode == MODE_LOG:
        add_reported(recording, profile, sums, names)
    if profile.boundary is not None:
        add_boundary(recording, sums, names)
        profile.notes += unseen_tables(recording.programs.all())
    sums.finish()
    profile.notes += names.notes


def _without_clock(recording: RecordingFile) -> list[str]:
    """Return notes about programs in which some calls have no time."""
    paths = {
        program.path
        for program in recording.programs.all()
        if program.fact("agent_flags") & layout.AGENT_TSC_OFF
    }
    return [f"{path}: {_NO_CLOCK}" for path in sorted(paths)]


def _unmet(recording: RecordingFile, options: dict[str, Any]) -> list[str]:
    patterns = options.get("images")
    images = [image for program in recording.programs.all() for image in program.images().values()]
    if not isinstance(patterns, list) or not images:
        return []
    from soscope.instruments.prof.views import unmet

    return unmet([str(pattern) for pattern in patterns], images)


def prof_options(recording: RecordingFile) -> dict[str, Any] | None:
    """Return how a profile was recorded, None if the recording is about something else."""
    options = recording.meta.get("options")
    said = options.get("prof") if isinstance(options, dict) else None
    return said if isinstance(said, dict) else None


def _command(recording: RecordingFile, options: dict[str, Any]) -> list[str]:
    words = recording.meta.get("command") or options.get("command")
    return [str(word) for word in words] if isinstance(words, list) else []


def _state(recording: RecordingFile) -> str:
    if recording.trouble is not None:
        return DISK_FULL if recording.trouble.is_full else CUT
    if recording.damage is None and recording.end is not None:
        return COMPLETE
    return CUT


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _word(value: object) -> str | None:
    return value if isinstance(value, str) else None


# Chooses how to profile a command or a process, if no option tells.
#
# Images that were built with -pg or -finstrument-functions report their calls themselves. Images
# built with -fpatchable-function-entry do so when they are patched.

HZ = 199  # samples a second: twenty if a program runs for 0.1 s


def choose(settings: ProfSettings) -> None:
    """Choose to time reported calls if any chosen image reports calls, else the boundary.

    If none of the present images is chosen, both are timed, as images that are loaded later may
    be of either kind. Stacks are always sampled, too, as most of a program's time may pass
    between its calls. Raises UsageError for a faulty pattern.
    """
    settings.is_chosen, settings.sample = True, HZ
    selection = compile_selection(list(HOOKS), settings.images or [ALL])
    chosen = [image for image in _images(settings) if _is_chosen(selection, *image)]
    reports = any(_reports(image) for image, _, _ in chosen)
    if reports or not chosen:
        settings.mode = MODE_TIME
    if not reports:
        settings.boundary = TIME


def overlooked(settings: ProfSettings, images: Iterable[TracedImage]) -> list[str]:
    """Return a line for each image that reports its calls, if `choose` has found none.

    Such an image was loaded later. Raises UsageError for a faulty pattern.
    """
    if settings.mode is not None:
        return []
    selection = compile_selection(list(HOOKS), settings.images or [ALL])
    paths = dict.fromkeys(image.path for image in images if not image.is_main)
    return [
        f"{image.soname or os.path.basename(path)} reports its calls: "
        f"--mode {MODE_TIME} times those inside it"
        for image, path, _ in _opened(list(paths), has_program=False)
        if _is_chosen(selection, image, path, is_main=False) and _reports(image)
    ]


_Found = tuple[ElfImage, str, bool]  # an image, its path, whether it is the program


def _images(settings: ProfSettings) -> list[_Found]:
    """Return the images that a command loads at its start, or that a process has mapped."""
    if settings.pid is not None:
        return _of_process(settings.pid)
    path = shutil.which(settings.command[0]) or settings.command[0]
    try:
        needed = closure(open_image(path), path, os.environ.get("LD_LIBRARY_PATH", ""))
    except (SoscopeError, OSError):
        return []  # a script, or a file that the launch will refuse
    return _opened([image.path for image in needed if image.path])


def _of_process(pid: int) -> list[_Found]:
    try:
        mapped = dict.fromkeys(mapping.path for mapping in maps.read(pid) if "x" in mapping.flags)
    except (SoscopeError, OSError):
        return []  # attaching will report the reason
    return _opened([path for path in mapped if path.startswith("/")])


def _opened(paths: list[str], *, has_program: bool = True) -> list[_Found]:
    """Open images, the program first if `has_program`. Unreadable images are left out."""
    images: list[_Found] = []
    for number, path in enumerate(paths):
        try:
            images.append((open_image(path), path, has_program and number == 0))
        except (SoscopeError, OSError):
            continue  # the vDSO or a deleted file, so the other images decide
    return images


def _is_chosen(selection: Selection, image: ElfImage, path: str, is_main: bool) -> bool:
    name = image.soname or os.path.basename(path)
    return chooses(
        selection,
        HOOKS[0],
        caller=name,
        callee="",
        caller_path=path,
        caller_is_main=is_main,
    )


def _reports(image: ElfImage) -> bool:
    try:
        if any(symbol.name in HOOKS for symbol in image.symbols.undefined()):
            return True
        sections = Sections.read(image).all
        return any(section.name == PATCHABLE_SECTION for section in sections)
    except (SoscopeError, OSError):
        return False  # damaged symbols or section headers


# Run a command, or attach to a process, in a session that records a profile.


class ProcessorTime(Sink):
    """Measures how long all threads of some processes have run since each process was met.

    If a process ends between two looks and another process has waited for it, the last known time
    counts.
    """

    __slots__ = ("_begun", "_is_over", "_ran")

    def __init__(self) -> None:
        self._begun: dict[int, tuple[int, int]] = {}  # time at the beginning, and now
        self._ran = 0  # of ended processes
        self._is_over = False

    @property
    def total_ns(self) -> int:
        """Return the sum of the processor times, in ns."""
        return self._ran + sum(ran - begun for begun, ran in self._begun.values())

    def begin(self, pid: int) -> None:
        """Count a process's time from now on. After an exec it is still the same process."""
        if pid not in self._begun:
            try:
                ran = process_ns(pid)
            except OSError:
                return  # the process or thread has ended
            self._begun[pid] = ran, ran

    def look(self, pid: int) -> None:
        """Update the time of a process, if it is one of them."""
        known = self._begun.get(pid)
        if known is not None and not self._is_over:
            try:
                self._begun[pid] = known[0], max(process_ns(pid), known[1])
            except OSError:
                pass  # the process has ended, and its parent has waited for it

    def look_at_all(self) -> None:
        """Update the times of all processes that have not ended."""
        for pid in list(self._begun):
            self.look(pid)

    def end(self) -> None:
        """Update the times for the last time, although the processes go on."""
        self.look_at_all()
        self._is_over = True

    def event(self, event: Told) -> None:
        """Take note that a process has ended, as its number may be used for another one."""
        if isinstance(event, ProcessExit) and event.pid in self._begun:
            self.look(event.pid)  # works if its parent has not waited for it yet
            begun, ran = self._begun.pop(event.pid)
            self._ran += ran - begun


class _About(Instrument):
    """Writes to the recording what is profiled, whatever instruments do that."""

    name = "prof"

    def __init__(self, settings: ProfSettings) -> None:
        self._settings = settings
        self._ran = ProcessorTime()

    def options(self) -> dict[str, object]:
        """Return the options that a report needs."""
        settings = self._settings
        said: dict[str, object] = {
            "mode": settings.mode,
            "boundary": settings.boundary,
            "images": settings.images,
            "chosen": settings.is_chosen,
        }
        if settings.pid is not None:
            said["command"] = command_words(settings.pid)
        return {"prof": said}

    def begun(self) -> None:
        """See the base class."""
        self._settings.begun()

    def sinks(self) -> list[Sink]:
        """Return the sink that takes note of ends."""
        return [self._ran]

    def process(self, pid: int, block: ControlBlock) -> None:
        """Measure the processor time of a process."""
        del block
        self._ran.begin(pid)

    def without_agent(self, pid: int, reason: str) -> None:
        """Measure the processor time of a process."""
        del reason
        self._ran.begin(pid)

    def news(self, pid: int) -> None:
        """Update the time of a process, perhaps for the last time."""
        self._ran.look(pid)

    def move(self) -> bool:
        """Update the times of all processes, at intervals."""
        self._ran.look_at_all()
        return False

    def stopping(self, block: ControlBlock) -> None:
        """Update the times for the last time before processes continue without soscope."""
        del block
        self._ran.end()

    def totals(self) -> dict[str, object]:
        """Return how long the processes have run."""
        return {"processor_ns": self._ran.total_ns}


def instruments_of(settings: ProfSettings) -> list[Instrument]:
    """Return the instruments for the settings. Raises UsageError."""
    instruments: list[Instrument] = [_About(settings)]
    if settings.boundary is not None:
        from soscope.instruments.prof.boundary import BoundaryInstrument

        instruments.append(BoundaryInstrument(settings.boundary, settings.images))
    if settings.mode is not None:
        from soscope.instruments.prof.instrumented import InstrumentedCode

        instruments.append(
            InstrumentedCode(settings.mode, settings.images, period=settings.interval)
        )
    if settings.sample is not None:
        from soscope.instruments.prof.sampling.instrument import SamplingInstrument

        is_alone = settings.boundary is None and settings.mode is None
        instruments.append(
            SamplingInstrument(settings.sample, is_alone=is_alone, follows=settings.follow)
        )
    return instruments


def run_prof(settings: ProfSettings, tell: Callable[[str], None] | None = None) -> Outcome:
    """Run the command to its end, or stay attached to the process, and record a profile.

    Raises UsageError, LaunchError, AttachError, AgentError and RecordingError before anything is
    recorded.
    """
    session = Session(
        SessionSettings(
            settings.command,
            pids=None if settings.pid is None else [settings.pid],
            follow=settings.follow,
            record=settings.record,
            duration_ns=settings.duration_ns,
            buffer=settings.buffer or DEFAULT_BUFFER,
            # A process that was attached to does not wait for soscope when the ring is full.
            when_full=settings.when_full or ("block" if settings.pid is None else "drop"),
        ),
        instruments_of(settings),
        tell,
    )
    return session.run()
