# SPDX-License-Identifier: Apache-2.0
"""`soscope called` as text: a heading for each library, a line for each function."""

from __future__ import annotations

from soscope.model.call import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.instruments.trace.called import CalledFunction, CalledImage


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
