# SPDX-License-Identifier: Apache-2.0
"""The actions of `soscope detach`, for programs: soscope/detach/1."""

from __future__ import annotations

from soscope.report.jsontext import json_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.detach import Removed

SCHEMA = "soscope/detach/1"


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
        }
    )
