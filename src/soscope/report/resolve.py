# SPDX-License-Identifier: Apache-2.0
"""Answers of `soscope resolve`: a line each for people, soscope/resolve/1 for programs."""

from __future__ import annotations

from soscope.live.lookup.answer import OK, Answer, Candidate
from soscope.report.output import dumps, members, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.live.images.image import LoadedImage


# `soscope resolve --json`: one document, schema "soscope/resolve/1".

SCHEMA = "soscope/resolve/1"


def document(pid: int, answers: list[Answer]) -> str:
    """Return the document: one result for each query, in order."""
    images: dict[int, str] = {}
    results = ", ".join([_result(answer, images) for answer in answers])
    return f'{{"schema": {quoted(SCHEMA)}, "pid": {pid}, "results": [{results}]}}\n'


def _result(answer: Answer, images: dict[int, str]) -> str:
    """Return one result. The text of its image is made once, and kept in `images` by id().

    There may be thousands of results, so the text is assembled by hand.
    """
    image = answer.image
    where = images.get(id(image))
    if where is None:
        where = images[id(image)] = _image(image)
    addr = "null" if answer.addr is None else f'"{hex(answer.addr)}"'
    offset = "null" if answer.offset is None else answer.offset
    value = "null" if answer.value is None else dumps(answer.value)
    candidates = (
        dumps([_candidate(candidate) for candidate in answer.candidates])
        if answer.candidates
        else "[]"
    )
    provider = "null" if answer.provider is None else dumps(_candidate(answer.provider))
    return (
        f'{{"query": {quoted(answer.query)}, "status": {quoted(answer.status)}, "addr": {addr}, '
        f'"symbol": {_text(answer.symbol)}, "version": {_text(answer.version)}, {where}, '
        f'"offset": {offset}, "kind": {quoted(answer.kind)}, "rule": {_text(answer.rule)}, '
        f'"candidates": {candidates}, "provider": {provider}, "value": {value}}}'
    )


def _image(image: LoadedImage | None) -> str:
    """Return the members about the image of a result."""
    if image is None:
        return '"image": null, "image_path": null, "load_bias": null'
    bias = hex(image.load_bias & (1 << image.space.bits) - 1)
    name, path = quoted(image.name), quoted(image.path)
    return f'"image": {name}, "image_path": {path}, "load_bias": "{bias}"'


def _text(value: str | None) -> str:
    return "null" if value is None else quoted(value)


def _candidate(candidate: Candidate) -> dict[str, object]:
    return {
        "addr": _hex(candidate.addr),
        **members(candidate, "symbol version"),
        "image": None if candidate.image is None else candidate.image.name,
        "rule": candidate.rule,
    }


def _hex(addr: int | None) -> str | None:
    return None if addr is None else hex(addr)


# Answers of `soscope resolve`, for people: one line each, steps and lists indented.

_MOST = 100  # candidates that are listed


def lines(answer: Answer, *, why: bool, every: bool, value: bool) -> str:
    """Return the lines for an answer on standard output, "" if there are none.

    `why` adds the steps, and `every` all definitions. With `value` only the value is shown.
    """
    text = ""
    if answer.status == OK:
        text = f"{_value(answer.value)}\n" if value else _found(answer)
    if why:
        text += "".join(f"    {line}\n" for line in answer.why)
    if every:
        text += "".join(
            f"  {'*' if candidate.wins else ' '} {_one(candidate)}\n"
            for candidate in answer.candidates
        )
    return text


def complaint(answer: Answer) -> list[str]:
    """Return the lines for an answer without an address, on standard error."""
    reason = answer.why[-1] if answer.why else answer.status
    is_named = f"'{answer.query}'" in reason
    said = [reason if is_named else f"{answer.query}: {reason}"]
    said += [f"    {_one(candidate)}" for candidate in answer.candidates[:_MOST]]
    rest = len(answer.candidates) - _MOST  # a compiler in the process may have made thousands
    return said + [f"    and {rest:,} more: --all prints them"] * (rest > 0)


def _found(answer: Answer) -> str:
    """Return the line of a symbol that was found. There may be thousands of lines."""
    addr = "-" if answer.addr is None else hex(answer.addr)
    name = named(answer.symbol or "", answer.version) if answer.version else answer.symbol or ""
    offset = f"+{hex(answer.offset)}" if answer.offset else ""
    image = answer.image.name if answer.image is not None else "-"
    provider = answer.provider
    behind = ""
    if provider is not None and provider.addr is not None and provider.image is not None:
        behind = f"  -> {provider.addr:#x} {provider.image.name}"
    return f"{addr}  {name}{offset}  {image}  {answer.kind}  {answer.rule}{behind}\n"


def _one(candidate: Candidate) -> str:
    addr = "-" if candidate.addr is None else hex(candidate.addr)
    image = candidate.image.name if candidate.image is not None else "-"
    return f"{addr}  {named(candidate.symbol, candidate.version)}  {image}  {candidate.rule}"


def named(symbol: str, version: str | None) -> str:
    """Return a symbol with its version."""
    return f"{symbol}@{version}" if version else symbol


def _value(value: object) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value))
    return str(value)
