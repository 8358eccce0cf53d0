# SPDX-License-Identifier: Apache-2.0
"""`soscope resolve --json`: one document, schema "soscope/resolve/1"."""

from __future__ import annotations

from soscope.live.lookup.answer import Answer, Candidate
from soscope.report.jsontext import dumps, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.live.images.image import LoadedImage

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
        "symbol": candidate.symbol,
        "version": candidate.version,
        "image": None if candidate.image is None else candidate.image.name,
        "rule": candidate.rule,
    }


def _hex(addr: int | None) -> str | None:
    return None if addr is None else hex(addr)
