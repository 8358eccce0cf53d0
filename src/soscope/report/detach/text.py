# SPDX-License-Identifier: Apache-2.0
"""The actions of `soscope detach`, for people."""

from __future__ import annotations

from soscope.report.words import library_lines, plural

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.detach import Removed


def text(removed: Removed) -> str:
    """Return the lines for people."""
    libraries = library_lines(removed.closed, removed.left_loaded)
    if not removed.agents and not libraries:
        what = "nothing to undo"
        if removed.inert:
            what += "; the agent that lies there does nothing"
        return f"process {removed.pid}: {what}\n{_remains(removed)}"
    lines = ""
    for agent, taken in removed.agents:
        lines += f"process {removed.pid}: {plural(taken.restored, 'word')} restored"
        lines += f", those of the agent at {agent.base:#x}"
        if taken.returns:
            lines += f"; {plural(taken.returns, 'call')} that had not returned let go"
        lines += "\n"
        for addr, value in taken.left:
            lines += f"  {addr:#x} left alone: somebody else has made it {value:#x}\n"
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
