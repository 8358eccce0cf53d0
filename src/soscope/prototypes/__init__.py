# SPDX-License-Identifier: Apache-2.0
"""C declarations, by which the agent captures calls and soscope prints them.

The declarations are in prototypes/*.h at the top of the repository. `load()` is the entry point.
"""

from __future__ import annotations

from soscope.prototypes.catalog import Prototypes, load

__all__ = ["Prototypes", "load"]
