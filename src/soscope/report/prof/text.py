# SPDX-License-Identifier: Apache-2.0
"""What a profile says, for people."""

from __future__ import annotations

from soscope.instruments.prof.model import Profile


def text(profile: Profile) -> str:
    """Return the functions, by their own time, or by calls where nothing was timed."""
    rows = [
        (sums.self_ns, sums.total_ns, sums.calls, function.symbol, function.image)
        for function, sums in zip(profile.functions, profile.sums, strict=True)
        if sums.calls
    ]
    rows.sort(key=lambda row: (-(row[0] or 0), -(row[2] or 0), row[3]))
    lines = [f"{'self ns':>14} {'total ns':>14} {'calls':>12}  function (image)\n"]
    for own, total, calls, symbol, image in rows:
        times = " ".join(f"{'-' if time is None else f'{time:,}':>14}" for time in (own, total))
        lines.append(f"{times} {calls:>12,}  {symbol} ({image})\n")
    return "".join(lines)
