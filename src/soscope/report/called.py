# SPDX-License-Identifier: Apache-2.0
"""`soscope called` for people (a line for each function) and programs: soscope/called/1."""

from __future__ import annotations

from soscope.model.call import printable
from soscope.proc.status import signal_name
from soscope.report.output import json_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.instruments.trace.called import CalledFunction, CalledImage
    from soscope.instruments.trace.outcome import TraceOutcome

    Names = Callable[[str], str | None]


# `soscope called --json`: one document, soscope/called/1.

SCHEMA = "soscope/called/1"


def document(
    images: list[CalledImage], outcome: TraceOutcome, notes: list[str], demangled: Names
) -> str:
    """Return the document. `called`, `uncertain` and `never` have all exported functions.

    `demangled` returns the demangled name of a C++ function, None for other names.
    """
    return json_document(
        {
            "schema": SCHEMA,
            "command": outcome.command,
            "exit": {
                "status": outcome.status,
                "signal": None if outcome.signal is None else signal_name(outcome.signal),
            },
            "images": [
                {
                    "name": image.name,
                    "path": image.path,
                    "called": [
                        {
                            **_function(function, demangled),
                            "calls": function.calls,
                            "lower_bound": function.is_lower_bound,
                        }
                        for function in image.called
                    ],
                    "uncertain": [_function(function, demangled) for function in image.uncertain],
                    "never": [_function(function, demangled) for function in image.never],
                    "unreadable": image.why or None,
                }
                for image in images
            ],
            "complete": not outcome.shortfalls,
            "cost": None if outcome.cost is None else outcome.cost.document(),
            "executed_by_children": outcome.executed.document(),
            "notes": notes,
        }
    )


def _function(function: CalledFunction, demangled: Names) -> dict[str, object]:
    full = demangled(function.name)
    named = {} if full is None else {"demangled": full}
    return {"symbol": function.name, **named, "aliases": function.names[1:]}


# `soscope called` as text: a heading for each library, a line for each function.


def text(
    images: list[CalledImage], shown: Callable[[str], str], *, never: bool, asked: bool
) -> str:
    """Return the lines. `shown` returns a name as it is shown.

    `never` includes functions that were not called. `asked` means that -e chose functions.
    """
    parts = [_image(image, shown, never=never or asked, asked=asked) for image in images]
    return "\n".join(parts)


def _image(image: CalledImage, shown: Callable[[str], str], *, never: bool, asked: bool) -> str:
    called, uncertain, others = image.called, image.uncertain, image.never
    what = "functions asked for" if asked else "exported functions"
    lines = [f"{printable(image.name)}: {len(called)} of {len(image.functions)} {what} called"]
    if image.why:
        lines[0] = f"{printable(image.name)}: its functions are not known: {image.why}"
    for function in called:
        mark = "+" if function.is_lower_bound else ""
        lines.append(f"{f'{function.calls:,}{mark}':>16}  {_names(function, shown)}")
    lines += [f"{'?':>16}  {_names(function, shown)}" for function in uncertain]
    if never:
        lines += [f"{'never':>16}  {_names(function, shown)}" for function in others]
    elif others:
        lines.append(f"{'never':>16}  {len(others):,} others (--never names them)")
    return "".join(f"{line}\n" for line in lines)


def _names(function: CalledFunction, shown: Callable[[str], str]) -> str:
    # The constructors of complete objects and of bases are written the same way.
    first, *others = dict.fromkeys(map(shown, function.names))
    return f"{first} ({', '.join(others)})" if others else first
