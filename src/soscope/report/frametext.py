# SPDX-License-Identifier: Apache-2.0
"""The text of a frame of a stack."""

from __future__ import annotations

from soscope.frames.cppnames import CppNames
from soscope.model.call import StackFrame


def frame_text(frame: StackFrame, names: CppNames) -> str:
    """Return a frame as in reports: IMAGE!SYMBOL+0xN (FILE:LINE), or NAME (FILE:LINE)."""
    if frame.image is None and frame.symbol is not None:  # an interpreter's frame
        return f"{frame.symbol} ({frame.file}:{frame.line})"
    name = frame.image or "?"
    if frame.symbol is not None:
        name += f"!{names.short(frame.symbol)}"
    if frame.offset is not None:
        name += f"+{frame.offset:#x}"
    return name if frame.file is None else f"{name} ({frame.file}:{frame.line})"
