# SPDX-License-Identifier: Apache-2.0
"""`soscope prof check --json`: one document, schema "soscope/prof-check/1"."""

from __future__ import annotations

from soscope.instruments.prof.check import advice_for, modes_of
from soscope.report.jsontext import json_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.prof.check import Instrumentation

SCHEMA = "soscope/prof-check/1"


def document(library: Instrumentation) -> str:
    """Return the document. Unknown values are null, and `ns` are nanoseconds a call."""
    return json_document(
        {
            "schema": SCHEMA,
            "image": library.path,
            "instrumented": library.kind,
            "sites": library.sites,
            "functions": library.functions,
            "inlined": library.inlined,
            "relro": library.relro,
            "modes": [
                {"mode": mode.mode, "works": mode.works, "ns": mode.ns, "reason": mode.reason}
                for mode in modes_of(library)
            ],
            "advice": advice_for(library),
        }
    )
