# SPDX-License-Identifier: Apache-2.0
"""What a control block is made of: the answer to "what shall the agent do"."""

from __future__ import annotations

from soscope.wire import layout


class Plan:
    """What a new control block is made of.

    `mode`, `flags` and `when_full` are constants of `layout`; `chunks` is the size of the
    ring in chunks; `count_arrays` the number of count arrays (only the counting modes have
    some). `patterns`, `rules` and `functions` are the bytes of their sections, `main_path`
    is the path of the program; its file name is its image's name.
    """

    __slots__ = (
        "build_id",
        "chunks",
        "count_arrays",
        "flags",
        "functions",
        "main_path",
        "mode",
        "patterns",
        "rules",
        "spare_chunks",
        "string_limit",
        "when_full",
    )

    def __init__(
        self,
        *,
        mode: int,
        patterns: bytes,
        rules: bytes,
        functions: bytes,
        main_path: str,
        flags: int = 0,
        when_full: int = layout.FULL_BLOCK,
        string_limit: int = 32,
        chunks: int = 0,
        spare_chunks: int = 0,
        count_arrays: int = 0,
        build_id: bytes = b"",
    ) -> None:
        self.mode = mode
        self.flags = flags
        self.when_full = when_full
        self.string_limit = string_limit
        self.chunks = chunks
        self.spare_chunks = spare_chunks
        self.count_arrays = count_arrays
        self.patterns = patterns
        self.rules = rules
        self.functions = functions
        self.main_path = main_path
        self.build_id = build_id
