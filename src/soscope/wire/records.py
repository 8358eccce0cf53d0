# SPDX-License-Identifier: Apache-2.0
"""Make model objects from the agent's records of images and slots."""

from __future__ import annotations

from soscope.model.image import IMAGE_MAIN, TracedImage, TracedSlot
from soscope.wire import layout

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable

    Names = Callable[[int], str]

_CHECKSUM = 8  # bytes of the checksum that identifies an image without a build-id
_MOST_LEFT = 1 << 24  # slots that were not chosen: more than an image can have


def image_of(
    records: memoryview | bytes,
    offset: int,
    index: int,
    process: int,
    string: Names,
    main_path: str = "",
) -> TracedImage | None:
    """Return an image from the `struct sosc_image` at `offset`, None while it is not ready.

    `string` maps an offset in the section of strings to a name.
    """
    (
        name,
        path,
        load_bias,
        start,
        end,
        build_id,
        build_id_size,
        _,
        flags,
        hooked,
        left,
        refused,
        pid,
        _,
        ready,
        namespace,
    ) = layout.IMAGE.struct.unpack_from(records, offset)
    if not ready:
        return None
    return TracedImage(
        index,
        process,
        string(name),
        string(path) or (main_path if flags & IMAGE_MAIN else ""),
        load_bias,
        start,
        end,
        build_id[:build_id_size],
        flags,
        min(hooked, layout.MAX_SLOTS),
        min(left, _MOST_LEFT),
        min(refused, layout.MAX_SLOTS),
        pid,
        namespace,
        b"" if build_id_size else build_id.rstrip(b"\0") and build_id[:_CHECKSUM],
    )


def slot_of(
    records: memoryview | bytes,
    offset: int,
    index: int,
    process: int,
    string: Names,
    images: dict[int, TracedImage],
) -> TracedSlot | None:
    """Return a slot from the `struct sosc_slot` at `offset`, None while it is not ready."""
    (
        symbol,
        version,
        caller,
        callee,
        addr,
        _,
        function,
        prototype,
        kind,
        refusal,
        flags,
        error_rule,
        ready,
        treatment,
        _,
        _,
        _,
    ) = layout.SLOT.struct.unpack_from(records, offset)
    if not ready:
        return None
    return TracedSlot(
        index,
        process,
        string(symbol),
        string(version),
        images.get(caller),
        images.get(callee),
        addr,
        kind,
        refusal,
        bool(flags & layout.SLOT_LAZY),
        bool(flags & layout.SLOT_ENTRY_ONLY),
        None if prototype == layout.NONE else prototype,
        error_rule,
        bool(flags & layout.SLOT_PARTIAL),
        bool(treatment & layout.FN_FOREIGN),
        function,
    )
