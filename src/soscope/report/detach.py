# SPDX-License-Identifier: Apache-2.0
"""The result of `soscope detach`, for people and for programs: soscope/detach/1."""

from __future__ import annotations

from soscope.report.output import json_document
from soscope.report.words import library_lines, plural

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.detach import Removed


SCHEMA = "soscope/detach/1"


def document(removed: Removed) -> str:
    """Return the JSON document."""
    told: dict[str, object] = {}  # what most processes do not have
    if removed.owner is not None:
        told["stopped"] = removed.owner
    if removed.was_counting:
        told |= {"was_counting": True, "notes": removed.notes}
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
            "remains": [
                {
                    "base": f"{agent.base:#x}",
                    "mappings": each.mappings,
                    "bytes": each.size,
                    "rss_bytes": each.rss,
                    "why": each.why or None,
                }
                for agent, each in removed.remains
            ],
            "closed": removed.closed,
            "left_loaded": list(removed.left_loaded),
            "longest_stop_ns": removed.longest_stop,
            **told,
        }
    )


def text(removed: Removed) -> str:
    """Return the lines for people."""
    libraries = library_lines(removed.closed, removed.left_loaded)
    ended = ""
    if removed.owner is not None:
        ended += f"process {removed.pid}: soscope {removed.owner} has let go of it\n"
    if removed.was_counting:
        ended += f"process {removed.pid} no longer counts its objects\n"
        ended += "".join(f"  {note}\n" for note in removed.notes)
    if not removed.agents and not libraries:
        if ended:
            return ended + _remains(removed)
        what = "nothing to undo"
        if removed.inert:
            what += "; the agent that lies there does nothing"
        return f"process {removed.pid}: {what}\n{_remains(removed)}"
    lines = ended
    for agent, taken in removed.agents:
        lines += f"process {removed.pid}: {plural(taken.restored, 'word')} restored"
        lines += f" for the agent at {agent.base:#x}"
        if taken.returns:
            lines += f"; {plural(taken.returns, 'call')} that had not returned let go"
        lines += "\n"
        for addr, value in taken.left:
            lines += f"  {addr:#x} left unchanged: another tool has set it to {value:#x}\n"
        if taken.kept:
            lines += (
                f"  {plural(taken.kept, 'slot')} of unwinders left: "
                "calls may still return through the agent\n"
            )
    lines += _remains(removed)
    return lines + "".join(f"process {removed.pid}: {line}\n" for line in libraries)


def _remains(removed: Removed) -> str:
    lines = ""
    for _, each in removed.remains:
        lines += (
            f"  {plural(each.mappings, 'mapping')} stay for the next session: "
            f"{each.size >> 20:,} MiB of addresses, {each.rss >> 10:,} KiB in memory\n"
        )
        if each.why:
            lines += f"  the memory of sessions is among them: {each.why}\n"
    return lines
