# SPDX-License-Identifier: Apache-2.0
"""Find thread-local variables of another process, per thread, by reading its memory."""

from __future__ import annotations

import os

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.lookup import Name
from soscope.errors import FormatError, SoscopeError
from soscope.live.images.image import LoadedImage
from soscope.live.images.images import Images
from soscope.live.images.space import Space
from soscope.proc.maps import Mapping
from soscope.proc.status import read_status

# Find the thread pointer of a thread of another process, without stopping it.

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
        return int(read_status(tid)["NSpid"].split()[-1])
    except (KeyError, SoscopeError):
        return tid  # an older kernel, or the thread has ended


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
    if data[at : at + size] != (base + at).to_bytes(size, space.endian):
        return False
    number = inner.to_bytes(4, space.endian)
    return any(space.read(base + at + offset, 4) == number for offset in offsets)


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
            again = data[offset + 2 * size : offset + 3 * size]
            if is_glibc and again != data[offset : offset + size]:
                continue
            if _is_descriptor(space, data, offset, mapping.start, inner, offsets):
                return at
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


# Thread-local variables of another process, for each thread, only by reading memory.
#
# The thread pointer: get_robust_list(2) returns an address inside a thread's descriptor, whose
# start holds its own address twice. If there is no robust list (musl, 32-bit programs), the
# descriptor is searched for in writable memory, by its own address and the thread's id.
#
# The block: glibc exports descriptions of its private structures for libthread_db (`_thread_db_*`:
# size in bits, number, offset; <nptl_db/structs.def>). musl's `struct dso` has a copy of PT_TLS,
# followed by offset and module id.

_FORCED_DYNAMIC = -1


class Unknown(Exception):  # noqa: N818  it is an answer, not a mistake
    """The address is not known; the text tells why. `is_unallocated`: there is no block yet."""

    def __init__(self, why: str, *, is_unallocated: bool = False) -> None:
        super().__init__(why)
        self.is_unallocated = is_unallocated


def tls_addr(images: Images, image: LoadedImage, value: int, tid: int) -> tuple[int, str]:
    """Return the address of variable `value` of `image` in a thread, and how it was found.

    Raises Unknown.
    """
    private = Private(images)
    if images.space.is_here:
        pointer = thread_pointer(images.space, tid, private.offset("pthread_tid"))
    else:
        pointer = images.space.thread_pointer(tid)
    if pointer is None:
        raise Unknown(f"the thread pointer of thread {tid} was not found")
    if private.is_there and image.link_map:
        return _glibc(images, private, image, value, pointer)
    if image.is_main:
        return pointer - _program_offset(image) + value, f"thread pointer {pointer:#x}, PT_TLS"
    return _musl(images, image, value, pointer)


class Private:
    """glibc's descriptions of its private structures, in the libc of namespace 0."""

    __slots__ = ("_images", "_libraries")

    def __init__(self, images: Images) -> None:
        self._images = images
        first = images.namespaces[0] if images.namespaces else []
        names = ("libc.so", "libpthread")
        self._libraries = [image for image in first if image.name.startswith(names)]

    @property
    def is_there(self) -> bool:
        """Return whether the libc is a glibc with these descriptions."""
        return self.offset("link_map_l_tls_modid") is not None

    def field(self, name: str) -> tuple[int, int] | None:
        """Return (offset, size) in bytes of a described field, None if there is none."""
        symbol = b"_thread_db_" + name.encode()
        for image in self._libraries:
            value = self._value(image, symbol)
            if value is not None:
                data = image.space.read(value + image.load_bias, 12)
                if len(data) == 12:
                    order = image.space.endian
                    return int.from_bytes(data[8:], order), int.from_bytes(data[:4], order) // 8
        return None

    @staticmethod
    def _value(image: LoadedImage, symbol: bytes) -> int | None:
        """Return the link-time address of a field's description, or None.

        It is a static symbol before glibc 2.34.
        """
        try:
            entries = image.symbols.named(Name(symbol))
        except FormatError:
            return None
        if entries:
            return entries[0].value
        if not image.name.startswith("libpthread"):
            return None
        statics = image.names.find(os.fsdecode(symbol))
        return statics[0][1].value if statics else None

    def offset(self, name: str) -> int | None:
        """Return the offset in bytes of a described field, None if there is none."""
        field = self.field(name)
        return None if field is None else field[0]


def _word(images: Images, addr: int) -> int:
    word = images.space.word(addr)
    if word is None:
        raise Unknown(f"no memory at {addr:#x}")
    return word


def _signed(images: Images, addr: int) -> int:
    word = _word(images, addr)
    sign = 1 << images.space.bits - 1
    return (word ^ sign) - sign


def _glibc(
    images: Images, private: Private, image: LoadedImage, value: int, pointer: int
) -> tuple[int, str]:
    at, at_offset = private.offset("link_map_l_tls_modid"), private.offset("link_map_l_tls_offset")
    dtvp, entry = private.offset("pthread_dtvp"), private.field("dtv_dtv")
    if at is None or at_offset is None or dtvp is None or entry is None:
        raise Unknown("this glibc does not describe its thread-local storage")
    module = _signed(images, image.link_map + at)
    offset = _signed(images, image.link_map + at_offset)
    if module <= 0:
        raise Unknown(f"{image.name} has no thread-local storage")
    if offset not in (0, _FORCED_DYNAMIC):
        return (
            pointer - offset + value,
            f"thread pointer {pointer:#x}, module {module}, {offset:#x} below it",
        )
    step = entry[1]
    dtv = _word(images, pointer + dtvp)
    length = _signed(images, dtv - step)
    missing = Unknown(
        f"this thread has no block of module {module} ({image.name}) yet", is_unallocated=True
    )
    if module > length:
        raise missing
    if _signed(images, dtv) < _generation(images, private, module):
        raise missing  # the entry belongs to an image that is gone
    block = _word(images, dtv + entry[0] + module * step)
    if block in (0, (1 << images.space.bits) - 1):
        raise missing
    return block + value, f"thread pointer {pointer:#x}, module {module}, block {block:#x}"


def _generation(images: Images, private: Private, module: int) -> int:
    """Return the generation in which the list of modules gave this number to the module."""
    names = (
        "rtld_global__dl_tls_dtv_slotinfo_list",
        "dtv_slotinfo_list_len",
        "dtv_slotinfo_list_next",
        "dtv_slotinfo_list_slotinfo",
        "dtv_slotinfo_gen",
    )
    fields = [private.offset(name) for name in names]
    inside = private.field("dtv_slotinfo_list_slotinfo")
    place = images.private_addr
    if None in fields or inside is None or place is None:
        return 0
    root, length, following, slots, generation = (offset or 0 for offset in fields)
    element = 2 * images.space.bits // 8  # struct dtv_slotinfo: generation, link map
    at = _word(images, place + root)
    for _ in range(1024):
        if not at:
            break
        count = _signed(images, at + length)
        if module < count:
            return _signed(images, at + slots + module * element + generation)
        module -= count
        at = _word(images, at + following)
    raise Unknown(f"module {module} is in no list")


def _program_offset(image: LoadedImage) -> int:
    """Return the distance from the program's own variables up to the thread pointer."""
    for segment in image.segments:
        if segment.type == c.PT_TLS:
            align = max(segment.align, 1)
            return (segment.memsz + align - 1) // align * align
    raise Unknown(f"{image.name} has no PT_TLS")


def _musl(images: Images, image: LoadedImage, value: int, pointer: int) -> tuple[int, str]:
    size = images.space.bits // 8
    segment = next((header for header in image.segments if header.type == c.PT_TLS), None)
    if segment is None or not image.link_map:
        raise Unknown(f"{image.name} has no thread-local storage that is known")
    words = images.space.words(images.space.read(image.link_map, 1024))
    start = segment.vaddr + image.load_bias
    for at in range(len(words) - 5):
        # struct tls_module: next, image, len, size, align, offset; then tls_id
        if words[at] == start and words[at + 1] == segment.filesz:
            module = words[at + 5]
            dtv = _word(images, pointer + size)
            if not 0 < module <= _signed(images, dtv):
                raise Unknown(f"this thread has no block of {image.name}", is_unallocated=True)
            block = _word(images, dtv + module * size)
            return block + value, f"thread pointer {pointer:#x}, module {module}"
    raise Unknown(f"the module id of {image.name} was not found")
