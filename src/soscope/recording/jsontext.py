# SPDX-License-Identifier: Apache-2.0
"""JSON as `json.dumps` writes it, without importing its decoder, whose import is slow."""

from __future__ import annotations

from _json import encode_basestring_ascii, make_encoder


def compact(said: object) -> bytes:
    """Return `said` as JSON without spaces, in ASCII. Raises TypeError for what JSON has not.

    >>> from soscope.recording.jsontext import compact
    >>> compact({"a": [1, None, "é"]})
    b'{"a":[1,null,"\\\\u00e9"]}'
    """
    encoder = make_encoder(
        {},
        _refuse,
        encode_basestring_ascii,
        None,
        ":",
        ",",
        False,
        False,
        True,
    )
    return "".join(encoder(said, 0)).encode()


def _refuse(value: object) -> object:
    raise TypeError(f"not for JSON: {type(value).__name__}")
