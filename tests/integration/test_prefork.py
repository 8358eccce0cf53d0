# SPDX-License-Identifier: Apache-2.0
"""Children that load libraries: their slots are their parent's where they are followed, and
nobody's where they are not. Counts are looked at in test_hazards.py."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from soscope.model.image import IMAGE_LATE, IMAGE_STARTUP
from soscope.recording.reader import RecordingFile
from tests.support.processes import tracing
from tests.support.processes.run import run
from tests.support.targets import build
from tests.support.time.patience import limit
from tests.support.truth.elftruth import slots_by_readelf

WORKER = "libworker.so"


def recorded(folder: Path, *options: str) -> tuple[Counter[str], Path]:
    """Record a run of prefork; return how many slots each library has, and the recording."""
    recording = folder / "run.sosr"
    program = build.program("prefork")
    words = [*tracing.SOSCOPE, "-q", *options, "--record", str(recording), "-e", "f0,fr*"]
    env = {"SOSC_TRUTH": str(folder / "truth")}
    done = run([*words, "--", str(program)], timeout=limit(120), env=env)
    assert (done.returncode, done.stderr) == (0, "")
    with RecordingFile.open(recording) as found:
        assert found.complete
        first = min(slot.process for slot in found.slots)
        mine = [slot for slot in found.slots if slot.process == first]
        late = [image for image in found.images if image.flags & IMAGE_LATE]
    assert not late
    same = Counter((slot.caller.index if slot.caller else None, slot.addr) for slot in mine)
    assert [slot for slot, count in same.items() if count > 1] == []
    return Counter(slot.caller.name for slot in mine if slot.caller), recording


def slots_of_worker() -> int:
    """Count the slots of the plug-in that the expression chooses."""
    (rows,) = slots_by_readelf([build.program("prefork").with_name(WORKER)]).values()
    return sum(row.symbol == "f0" or row.symbol.startswith("fr") for row in rows.values())


def test_processes_that_load_the_same_have_one_record_of_it(tmp_path: Path) -> None:
    slots, recording = recorded(tmp_path, "-f")
    with RecordingFile.open(recording) as found:
        images = [image for image in found.images if image.name == WORKER]
    places = {(image.process, image.load_bias) for image in images}
    assert len(images) == len(places)
    first = [image for image in images if image.process == min(one.process for one in images)]
    assert slots[WORKER] == slots_of_worker() * len(first)
    assert {image.slots_hooked for image in images} == {slots_of_worker()}


@pytest.mark.parametrize("way", ["-c", "--count-only", "--entry-only"])
def test_nothing_is_said_of_children_that_are_not_followed(way: str, tmp_path: Path) -> None:
    program = build.program("prefork")
    trace = tmp_path / "trace"
    words = [*tracing.SOSCOPE, way, "-e", "f0,fr*", "-o", str(trace)]
    env = {"SOSC_TRUTH": str(tmp_path / "truth")}
    done = run([*words, "--", str(program)], timeout=limit(120), env=env)
    assert done.returncode == 0
    assert "complete" in done.stderr
    assert "no room" not in done.stderr
    assert "late" not in done.stderr


def test_the_library_of_a_child_that_is_not_followed_is_not_recorded(tmp_path: Path) -> None:
    slots, recording = recorded(tmp_path)
    assert slots[WORKER] == slots_of_worker()
    with RecordingFile.open(recording) as found:
        pids = {image.pid for image in found.images if not image.flags & IMAGE_STARTUP}
        assert len(pids) == 1
