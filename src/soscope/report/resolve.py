# SPDX-License-Identifier: Apache-2.0
"""Answers of `soscope resolve` for people: one line each, steps and lists indented."""

from __future__ import annotations

from soscope.process.lookup.answer import Answer, Candidate


def lines(answer: Answer, *, why: bool, every: bool, value: bool) -> str:
    """Return what is said of one answer on standard output, "" where there is nothing.

    `why` adds the steps, `every` all definitions; with `value` only the value is shown.
    """
    text = ""
    if answer and value:
        text = f"{_value(answer.value)}\n"
    elif answer:
        text = f"{_found(answer)}\n"
    if why:
        text += "".join(f"    {line}\n" for line in answer.why)
    if every:
        text += "".join(f"  {'*' if one.wins else ' '} {_one(one)}\n" for one in answer.candidates)
    return text


def complaint(answer: Answer) -> list[str]:
    """Return what is said of an answer without an address, on standard error."""
    reason = answer.why[-1] if answer.why else answer.status
    said = [f"{answer.query}: {answer.status}: {reason}"]
    return said + [f"    {_one(one)}" for one in answer.candidates]


def _found(answer: Answer) -> str:
    name = named(answer.symbol or "", answer.version)
    if answer.offset:
        name += f"+{answer.offset:#x}"
    image = answer.image.name if answer.image is not None else "-"
    return f"{answer.addr:#x}  {name}  {image}  {answer.kind}  {answer.rule}"


def _one(one: Candidate) -> str:
    addr = "-" if one.addr is None else hex(one.addr)
    image = one.image.name if one.image is not None else "-"
    return f"{addr}  {named(one.symbol, one.version)}  {image}  {one.rule}"


def named(symbol: str, version: str | None) -> str:
    """Return a symbol with its version."""
    return f"{symbol}@{version}" if version else symbol


def _value(value: object) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value))
    return str(value)
