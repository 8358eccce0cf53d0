# SPDX-License-Identifier: Apache-2.0
"""What a process is told to do, and what came of it, for programs."""

from __future__ import annotations

import json

from soscope.control.outcome import LOOK, AttachedOutcome, Outcome, Price, look_lines
from soscope.report.mem import attached, recorded
from soscope.report.output import MARKDOWN, Form


def test_a_recording_says_what_is_missing_from_it() -> None:
    outcome = Outcome(["prog"], dropped=[(3, "no room"), (4, "too late")], remarks=["a remark"])
    outcome.record = "/proc/self/fd/7"
    outcome.attached = [
        AttachedOutcome(
            40, has_ended=False, executed=None, longest_stop_ns=1, restored=9, kept=0, left=2,
            failure=None,
        )
    ]  # fmt: skip
    said = json.loads(recorded(40, "my rec", outcome))
    assert said == {
        "schema": "soscope/mem-attach/1",
        "pid": 40,
        "what": "blocks",
        "recording": "my rec",
        "dropped": 7,
        "executed_by_children": {"programs": 0, "names": [], "can_follow": True},
        "notes": [
            "a remark",
            "2 words left as another program has changed them",
            "3 events lost: no room",
            "4 events lost: too late",
        ],
    }
    page = Form(MARKDOWN).shaped(recorded(40, "my rec", outcome)).splitlines()
    assert page[-1] == "- `soscope mem report 'my rec'`"
    outcome.record = None
    assert json.loads(recorded(40, "my rec", outcome))["recording"] is None


def test_a_long_wait_for_a_look_at_objects_is_said() -> None:
    notes = look_lines(Price(0, {LOOK: 2_500_000_000}))
    assert json.loads(attached(40, notes, did_before=False)) == {
        "schema": "soscope/mem-attach/1",
        "pid": 40,
        "what": "objects",
        "did_before": False,
        "notes": ["the program waited 2.5 s for soscope to look at its objects"],
    }
