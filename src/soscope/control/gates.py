# SPDX-License-Identifier: Apache-2.0
"""Gates: whether the calls of each process of a program are recorded at this moment.

The agent opens and closes the gate of its own process when the program calls certain functions.
soscope opens and closes all gates when it gets a signal.
"""

from __future__ import annotations

from soscope.wire import layout
from soscope.wire.block import ControlBlock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def toggle(blocks: Iterable[ControlBlock]) -> bool:
    """Close all gates if one is open, else open all. Return whether they are open now."""
    all_gates = []
    for block in blocks:
        used = min(block.gates or 1, layout.GATES)  # 0 if the program has not begun
        all_gates.append(block.view(layout.SEC_GATES, 0, used * 4).cast("I"))
    opens = not any(any(gates) for gates in all_gates)
    for gates in all_gates:
        for index in range(len(gates)):
            gates[index] = opens
        gates.release()
    return opens
