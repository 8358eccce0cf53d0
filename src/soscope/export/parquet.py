# SPDX-License-Identifier: Apache-2.0
"""Parquet, a row for each call: the columns of `soscope.open(REC).calls`."""

from __future__ import annotations

from _collections_abc import Callable
from typing import Any

from soscope.errors import SoscopeError
from soscope.export.settings import ExportSettings
from soscope.export.stacks import ExportStacks, stacks_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.trace.replay import Replay
    from soscope.recording.columns import Columns

VIEWER = "duckdb -c \"SELECT symbol, count(*) FROM 'FILE' GROUP BY 1 ORDER BY 2 DESC\" asks it"


def export(replay: Replay, write: Callable[[bytes], object], settings: ExportSettings) -> list[str]:
    """Write all calls, a row group for each part of the recording; return notes.

    Raises SoscopeError where pyarrow is not installed.
    """
    del settings
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        hint = "pip install 'soscope[query]'"
        raise SoscopeError("pyarrow is not installed", hint=hint) from error
    from soscope.recording.calls import calls_of
    from soscope.recording.columns import batches, columns

    recording, stacks = replay.recording, stacks_of(replay)

    def table_of(part: Columns) -> Any:
        table = calls_of(part, recording.programs).to_arrow()
        if stacks is None:
            return table
        return table.append_column("stack", _texts(part, stacks, pa))

    sink: Any = pa.PythonFile(_Sink(write), mode="w")
    writer = None
    for part in batches(recording):
        table = table_of(part)
        if writer is None:
            writer = pq.ParquetWriter(sink, table.schema)
        writer.write_table(table)
    if writer is None:
        empty = table_of(columns(recording))
        writer = pq.ParquetWriter(sink, empty.schema)
        writer.write_table(empty)
    writer.close()
    return []


def _texts(calls: Columns, stacks: ExportStacks, pa: Any) -> Any:
    """Return the stack of each call as a text in a dictionary; null where it is not known."""
    known: dict[str, int] = {}
    codes: list[int | None] = []
    rows = zip(calls.program.tolist(), calls.pid.tolist(), calls.stack.tolist(), strict=True)
    for key in rows:
        text = stacks.text(key)
        codes.append(known.setdefault(text, len(known)) if text else None)
    return pa.DictionaryArray.from_arrays(
        pa.array(codes, pa.int32()), pa.array(list(known), pa.string())
    )


class _Sink:
    """A file for pyarrow that only grows."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._size = 0
        self.closed = False

    def write(self, data: Any) -> int:
        some = bytes(data)
        self._write(some)
        self._size += len(some)
        return len(some)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        """Do nothing: the bytes are written."""

    def close(self) -> None:
        self.closed = True

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False
