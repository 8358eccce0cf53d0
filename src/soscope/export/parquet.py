# SPDX-License-Identifier: Apache-2.0
"""Parquet, a row for each call: the columns of `soscope.open(REC).calls`."""

from __future__ import annotations

from typing import Any

from soscope.errors import SoscopeError
from soscope.export.calls import stacks_of
from soscope.export.profiles import ExportSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.instruments.trace.replay import Replay

VIEWER = "duckdb -c \"SELECT symbol, count(*) FROM 'FILE' GROUP BY 1 ORDER BY 2 DESC\" asks it"


def export(replay: Replay, write: Callable[[bytes], object], settings: ExportSettings) -> list[str]:
    """Write all calls, a row group for each part of the recording; return notes.

    Raises SoscopeError if pyarrow is not installed.
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
    sink: Any = pa.PythonFile(_Sink(write), mode="w")
    writer = None
    for part in batches(recording):
        table = calls_of(part, recording.programs, stacks).to_arrow()
        if writer is None:
            writer = pq.ParquetWriter(sink, table.schema)
        writer.write_table(table)
    if writer is None:
        empty = calls_of(columns(recording), recording.programs, stacks).to_arrow()
        writer = pq.ParquetWriter(sink, empty.schema)
        writer.write_table(empty)
    writer.close()
    return []


class _Sink:
    """A file object for pyarrow that can only be appended to."""

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
        """Do nothing, because the bytes are written already."""

    def close(self) -> None:
        self.closed = True

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False
