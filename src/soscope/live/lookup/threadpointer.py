# SPDX-License-Identifier: Apache-2.0
"""Find the thread pointer of a thread of another process, without stopping it."""

from __future__ import annotations

from soscope.live.images.space import Space
from soscope.proc.maps import Mapping

_REACH = 8192  # bytes from the start of a descriptor to the robust list's head, at most
_MUSL_TIDS = (0x30, 0x38)  # offsets in struct pthread, 64 bits
_MUSL_TIDS_32 = (0x18, 0x1C)
_GLIBC_TID_32 = 0x68  # behind 24 words of tcbhead_t and a list's two, in static programs
_MOST = 64 << 20  # bytes of writable memory that are searched


def thread_pointer(space: Space, tid: int, tid_offset: int | None) -> int | None:
    """Return the thread pointer of `tid`, None if it is not found.

    `tid_offset` is the offset of the thread id in glibc's descriptor, None with another libc.
    """
    inner = _inner_id(tid)
    head = _robust_list(tid)
    if head:
        size = space.bits // 8
        # a static program's first descriptor lies at the very start of its heap
        mapping = space.mapping_at(head)
        low = max(head - _REACH, 0 if mapping is None else mapping.start) & -size
        data = space.read(low, head - low)
        number = inner.to_bytes(4, space.endian)
        for at in range(len(data) - 3 * size & -size, -1, -size):
            own = (low + at).to_bytes(size, space.endian)
            twice = data[at : at + size] == data[at + 2 * size : at + 3 * size] == own
            # the head of the robust list is close behind the thread id
            if twice and number in (data[-8:-4], data[-12:-8], data[-16:-12], data[-20:-16]):
                return low + at
    return _search(space, inner, tid_offset)


def _inner_id(tid: int) -> int:
    """Return the id of a thread in its own pid namespace."""
    try:
        with open(f"/proc/{tid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"NSpid:"):
                    return int(line.split()[-1])
    except OSError:
        pass  # the thread has ended
    return tid


def _robust_list(tid: int) -> int:
    """Return the head of a thread's robust list, 0 if there is none."""
    import ctypes

    from soscope.model.arch import arch_here

    here = arch_here()
    number = None if here is None else here.calls.get("get_robust_list")
    if number is None:
        return 0
    head, length = ctypes.c_size_t(), ctypes.c_size_t()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(number, tid, ctypes.byref(head), ctypes.byref(length)):
        return 0
    return head.value


def _is_descriptor(
    space: Space, data: bytes, at: int, base: int, inner: int, offsets: tuple[int, ...]
) -> bool:
    """Return whether `data`, which lies at `base`, has thread `inner`'s descriptor at `at`."""
    size = space.bits // 8
    own = (base + at).to_bytes(size, space.endian)
    if data[at : at + size] != own:
        return False
    for offset in offsets:
        if space.read(base + at + offset, 4) == inner.to_bytes(4, space.endian):
            return True
    return False


def _search(space: Space, inner: int, tid_offset: int | None) -> int | None:
    """Search writable memory for the descriptor, which begins with its own address."""
    size = space.bits // 8
    is_glibc = tid_offset is not None
    offsets = (tid_offset,) if tid_offset is not None else _MUSL_TIDS
    if tid_offset is None and size == 4:
        offsets = _MUSL_TIDS_32
    left = _MOST
    for mapping in sorted(_writable(space), key=lambda area: area.end - area.start):
        left -= mapping.end - mapping.start
        if left < 0:
            return None
        data = space.read(mapping.start, mapping.end - mapping.start)
        words = memoryview(data[: len(data) // size * size]).cast("Q" if size == 8 else "I")
        here = range(mapping.start, mapping.start + len(words) * size, size)
        for at, word in zip(here, words, strict=True):
            if word != at:
                continue
            offset = at - mapping.start
            if (
                is_glibc
                and data[offset + 2 * size : offset + 3 * size] != data[offset : offset + size]
            ):
                continue
            if _is_descriptor(space, data, offset, mapping.start, inner, offsets):
                return at
            twice = data[offset : offset + 4] == data[offset + 8 : offset + 12]
            twice = data[offset : offset + 4] == data[offset + 8 : offset + 12]
            if (
                tid_offset is None
                and size == 4
                and twice
                and _is_descriptor(space, data, offset, mapping.start, inner, (_GLIBC_TID_32,))
            ):
                return at
    return None


def _writable(space: Space) -> list[Mapping]:
    return [
        mapping
        for mapping in space.mappings
        if mapping.flags.startswith("rw") and "[stack" not in mapping.path
    ]
