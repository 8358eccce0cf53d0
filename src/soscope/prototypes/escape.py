# SPDX-License-Identifier: Apache-2.0
"""Bytes as C string and character literals, as ltrace prints them."""

from __future__ import annotations

_NAMED = {
    7: r"\a",
    8: r"\b",
    9: r"\t",
    10: r"\n",
    11: r"\v",
    12: r"\f",
    13: r"\r",
    92: r"\\",
}
# Always three octal digits, because a digit may follow.
_BYTES = [
    _NAMED.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in range(256)
]
_IN_STRING = list(_BYTES)
_IN_STRING[34] = '\\"'
_IN_CHAR = list(_BYTES)
_IN_CHAR[39] = "\\'"
_IN_CHAR[0] = r"\0"
_WIDE_CHAR = 4


def string(data: bytes, limit: int, *, cut: bool = False) -> str:
    """Return `data` in quotes, at most `limit` bytes of it; `cut` tells that there was more."""
    if len(data) > limit:
        data, cut = data[:limit], True
    text = data.decode("latin-1")
    # nearly all strings need no escapes
    if not (text.isascii() and text.isprintable()) or '"' in text or "\\" in text:
        text = "".join([_IN_STRING[byte] for byte in data])
    return f'"{text}"...' if cut else f'"{text}"'


def wide_string(data: bytes, limit: int, *, cut: bool = False) -> tuple[str, str]:
    """Return the wide string `data` as L"..." and its characters; `cut`: there was more."""
    codes = _codes(data)
    if len(codes) > limit:
        codes, cut = codes[:limit], True
    text = "".join(_wide(code) for code in codes)
    value = "".join(chr(code) if code < 0x110000 else "\ufffd" for code in codes)
    return f'L"{text}"' + ("..." if cut else ""), value


def narrowed(data: bytes) -> bytes:
    """Return the wide string `data` with one byte for each character; ASCII stays unchanged."""
    return bytes(code if 0 < code < 128 else 0x80 for code in _codes(data))


def _codes(data: bytes) -> list[int]:
    return [
        int.from_bytes(data[at : at + _WIDE_CHAR], "little")
        for at in range(0, len(data) - _WIDE_CHAR + 1, _WIDE_CHAR)
    ]


def char(code: int) -> str:
    """Return the character 0..255 as a literal, other numbers in decimal (EOF is -1)."""
    return f"'{_IN_CHAR[code]}'" if 0 <= code < 256 else str(code)


def wide_char(code: int) -> str:
    """Return the wide character as a literal; a number that is no character in decimal."""
    if code == 0xFFFF_FFFF:
        return "-1"  # WEOF
    if not 0 <= code < 0x110000:
        return str(code)
    return "L'\\''" if code == 39 else f"L'{_IN_CHAR[0] if code == 0 else _wide(code)}'"


def _wide(code: int) -> str:
    if code < 128:
        return _IN_STRING[code]
    if code < 0x110000 and chr(code).isprintable():
        return chr(code)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def value(data: bytes) -> str:
    """Return the string in `data`, for programs that read the output."""
    return data.decode("utf-8", "backslashreplace")
