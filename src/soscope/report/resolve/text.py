# SPDX-License-Identifier: Apache-2.0
"""Answers of `soscope resolve`, for people: one line each, steps and lists indented."""

from __future__ import annotations

from soscope.live.lookup.answer import OK, Answer, Candidate

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
