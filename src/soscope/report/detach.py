# SPDX-License-Identifier: Apache-2.0
"""What `soscope detach` has done, as text and as JSON."""

from __future__ import annotations

from soscope.report.words import json_document, plural

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.detach import Removed

SCHEMA = "soscope/detach/1"


def lines(removed: Removed) -> str:
    """Return the lines for people."""
    if not removed.agents:
        what = "nothing to undo"
        if removed.inert:
            what += "; the agent that lies there does nothing"
        return f"process {removed.pid}: {what}\n"
    text = ""
    for agent, taken in removed.agents:
        text += f"process {removed.pid}: {plural(taken.restored, 'word')} restored"
        text += f", those of the agent at {agent.base:#x}"
        if taken.returns:
            text += f"; {plural(taken.returns, 'call')} that had not returned let go"
        text += "\n"
        for addr, value in taken.left:
            text += f"  {addr:#x} left alone: somebody else has made it {value:#x}\n"
        if taken.kept:
            text += (
                f"  {plural(taken.kept, 'slot')} of unwinders left: "
                "calls may still return through the agent\n"
            )
    return text


def document(removed: Removed) -> str:
    """Return the JSON document."""
    return json_document(
        {
            "schema": SCHEMA,
            "pid": removed.pid,
            "agents": [
                {
                    "base": f"{agent.base:#x}",
                    "build_id": agent.build_id.hex(),
                    "restored": taken.restored,
                    "returns": taken.returns,
                    "left": [
                        {"addr": f"{addr:#x}", "value": f"{value:#x}"} for addr, value in taken.left
                    ],
                    "kept": taken.kept,
                }
                for agent, taken in removed.agents
            ],
            "inert": removed.inert,
            "longest_stop_ns": removed.longest_stop,
        }
    )
