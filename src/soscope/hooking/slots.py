# SPDX-License-Identifier: Apache-2.0
"""Choose the slots of this process that a hook changes, and keep their images loaded."""

from __future__ import annotations

import ctypes
import os

from soscope.binfmt.elf import constants as c
from soscope.binfmt.isa import CALL, JUMP, STUB
from soscope.errors import FormatError, HookError
from soscope.hooking.isa import code
from soscope.live.images.image import LoadedImage
from soscope.live.images.images import Images, find_images
from soscope.live.images.space import Space
from soscope.live.slots.bindings import HOOKED, UNBOUND, Binding, Bindings
from soscope.live.slots.code import uses_of
from soscope.model.record import Record
from soscope.proc import maps
from soscope.prototypes import Prototypes
from soscope.select.filter import Selection, chooses, compile_selection
from soscope.wire import layout

# Images that are kept loaded while their slots change, so that no thread can unload them.

_PROT_READ, _PROT_EXEC = 1, 4


class LoadedPlace(Record):
    """An image's link map, its load bias, and the loader's name for it."""

    link_map: int
    bias: int
    name: str


class Pins:
    """Images that are kept loaded until the end of the block.

    dlopen waits for other threads that load an image, so an image that is held is loaded
    completely.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None)
        self._libc.dlopen.restype = ctypes.c_void_p
        self._libc.dlopen.argtypes = (ctypes.c_char_p, ctypes.c_int)
        self._libc.dlclose.argtypes = (ctypes.c_void_p,)
        self._held: dict[int, int] = {}
        self._mappings: list[maps.Mapping] | None = None

    def __enter__(self) -> Pins:  # noqa: PYI034  typing is slow to import
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._held.values():
            self._libc.dlclose(handle)

    def hold(self, place: LoadedPlace) -> bool:
        """Keep an image loaded. Return False if it was unloaded or replaced by now."""
        if place.link_map in self._held:
            return True
        name = os.fsencode(place.name) or None  # the program's name is ""
        handle = self._libc.dlopen(name, os.RTLD_LAZY | os.RTLD_NOLOAD)
        if not handle:
            return False
        if handle != place.link_map or ctypes.c_uint64.from_address(handle).value != (
            place.bias & (1 << 64) - 1
        ):
            self._libc.dlclose(handle)
            return False
        self._held[handle] = handle
        return True

    def protection(self, addr: int) -> int | None:
        """Return the protection that a page of a held image needs after it was made writable.

        Return 0 if the page is writable already, and None if there is no memory. The mappings are
        read only once, because images that are held are loaded completely.
        """
        if self._mappings is None:
            self._mappings = maps.read(int(os.readlink("/proc/self")))
        mapping = maps.containing(self._mappings, addr)
        if mapping is None or addr + code.WORD > mapping.end:
            return None
        if mapping.flags[1] == "w":
            return 0
        return _PROT_READ | (_PROT_EXEC if mapping.flags[2] == "x" else 0)


# Functions that no Python callable can replace, and slots whose calls cannot run Python code.
#
# The interpreter allocates memory in the middle of its own work, and uses locks while it waits for
# the GIL. A Python callable there would run in the middle of that work, or wait for ever. For such
# functions the slots of the interpreter and of extension modules are not hooked.

# These functions end the process, and need not return.
_LAST = frozenset("exit _exit _Exit quick_exit abort".split())
# In the child of these functions, the interpreter would not know that it was forked.
_FORKS = frozenset("fork __fork _Fork __libc_fork forkpty daemon".split())
# The interpreter calls these functions in the middle of its work.
_INNER = frozenset(
    (
        *layout.ALLOCATORS,
        *layout.FREES,
        *layout.MAPPINGS,
        *"malloc_usable_size madvise mprotect".split(),
        *"__libc_malloc __libc_calloc __libc_realloc __libc_free __libc_memalign".split(),
    )
)
_INNER_PREFIXES = ("pthread_", "__pthread_", "sem_", "mtx_", "cnd_", "tss_", "thrd_")
# The interpreter calls these functions while it waits for the GIL, and at other times. A thread
# that holds the GIL can run a Python callable there.
_ON_THE_WAY = frozenset(
    "clock_gettime __clock_gettime clock_getres gettimeofday time sched_yield gettid".split()
)

ANYWHERE, HOLDING, NOWHERE = range(3)


def refuse(prototypes: Prototypes, symbol: str) -> None:
    """Raise HookError if no Python callable can replace a function."""
    flags = prototypes.flags(symbol)
    why = ""
    if symbol in _FORKS:
        why = "the child would have an interpreter that does not know of it"
    elif flags & layout.FN_NEVER:
        why = "it is not called as C calls functions"
    elif flags & layout.FN_TWICE:
        why = "it returns twice"
    elif flags & layout.FN_ENTRY_ONLY and symbol not in _LAST:
        why = "it looks at its caller, or leaves by another way than a return"
    if why:
        raise HookError(
            f"{symbol}: no Python callable can stand for it: {why}",
            hint="a C function pointer can",
        )


def within_interpreter(prototypes: Prototypes, symbol: str) -> int:
    """Return which calls of the interpreter itself may be redirected to a Python callable.

    It is ANYWHERE for all calls, HOLDING for the calls of threads that hold the GIL, and NOWHERE
    for none.
    """
    if symbol in _ON_THE_WAY:
        return HOLDING
    is_inner = symbol in _INNER or symbol.startswith(_INNER_PREFIXES)
    return NOWHERE if is_inner or prototypes.flags(symbol) & layout.FN_BRIEF else ANYWHERE


def is_interpreters(image: LoadedImage) -> bool:
    """Return whether an image is the interpreter, an extension module, or libffi of ctypes."""
    if image.name.startswith("libffi."):
        return True
    array = image.symbols.array
    for row in array.rows():
        name = array.bytes_at(row[0]) or b""
        if name.startswith((b"PyGILState_", b"PyModuleDef_Init", b"PyModule_Create")):
            return True
    return False


def is_libc(image: LoadedImage) -> bool:
    """Return whether an image is the C library or its thread library."""
    return image.name.startswith(("libc.so", "libc.musl", "libpthread.so", "ld-musl"))


# Decides which slots of this process a hook changes, and which functions they lead to.

_CALLS = frozenset((CALL, JUMP, STUB))

# whether code only calls through a slot; by (path, inode, address in the file) of the slot
_uses: dict[tuple[str, int, int], bool] = {}


class Left(Record):
    """A slot that a hook does not change, with its `image`, its address, and the reason."""

    image: str
    addr: int
    reason: str

    def __repr__(self) -> str:
        """Return a text with all fields."""
        return f"<slot of {self.image} at {self.addr:#x} left: {self.reason}>"


class Chosen:
    """A slot to be hooked, with its present value.

    `definition` is the address of the function itself. If `is_inner` is set, the callable is
    called only for threads that hold the GIL.
    """

    def __init__(self, binding: Binding, definition: int, *, is_inner: bool) -> None:
        image = binding.importer
        self.addr = binding.addr
        self.place = LoadedPlace(image.link_map, image.load_bias, image.loader_name)
        self.image = image.name
        self.value = binding.value
        self.definition = definition
        self.is_unbound = binding.state == UNBOUND
        self.is_hooked = binding.state == HOOKED
        self.is_inner = is_inner


class Picture:
    """The present images and slots of this process. It is also a context manager."""

    def __init__(self, symbol: str) -> None:
        self.symbol = symbol
        self.space = Space(int(os.readlink("/proc/self")))
        try:
            if self.space.is_patchwork:
                raise HookError("this process may not read its own memory (/proc/self/mem)")
            self.images: Images = find_images(self.space)
            self.bindings = Bindings(self.images, only=os.fsencode(symbol))
        except BaseException:
            self.space.close()
            raise

    def __enter__(self) -> Picture:  # noqa: PYI034  typing is slow to import
        return self

    def __exit__(self, *_: object) -> None:
        self.space.close()

    def callers(self, from_: list[str]) -> list[LoadedImage]:
        """Return the images whose slots the user has asked for. Raises HookError and UsageError."""
        listed = [image for image in self.bindings.by_image if image.link_map]
        if not from_:
            return listed
        selection = compile_selection([], from_)
        chosen = [image for image in listed if _is_called(selection, image)]
        if not chosen:
            from soscope.select.filter import near_misses

            names = near_misses(from_[0], [image.name for image in listed])
            raise HookError(
                f"no image of this process is called {', '.join(from_)}",
                hint=f"did you mean {' or '.join(names)}?" if names else None,
            )
        return chosen

    def image_at(self, addr: int) -> LoadedImage | None:
        """Return the image that contains an address, None if there is none."""
        return self.images.at(addr)

    def slots(self, images: list[LoadedImage]) -> list[Binding]:
        """Return the slots of `images` for the symbol. Raises HookError if there is none."""
        asking = [binding for image in images for binding in self.bindings.by_image[image]]
        if asking:
            return asking
        from soscope.select.filter import near_misses

        symbol, everything = self.symbol, Bindings(self.images).by_image
        known = {slot.symbol for image in images for slot in everything.get(image, ())}
        names = near_misses(symbol, sorted(known))
        hint = f"did you mean {' or '.join(names)}?" if names else None
        if self.images.is_static:
            hint = "a static program has no slots"
        raise HookError(f"{symbol}: {_named(images)} has no slot for it", hint=hint)

    def definition(self, binding: Binding) -> int:
        """Return the address of the function that a slot's calls reach, 0 if it is undefined."""
        image, name = binding.importer, os.fsencode(binding.symbol)
        bindings = self.bindings
        winner = bindings.winner(image, name, binding.version, call=True)
        if binding.state not in (UNBOUND, HOOKED):
            reference = bindings.winner(image, name, binding.version, call=False)
            is_own_stub = reference is not None and reference[1].is_stub
            if not (is_own_stub and not binding.is_call and winner is not None):
                return binding.value
        if winner is None:
            return 0
        at = bindings.address(winner)
        if not bindings.is_ifunc(winner):
            return at
        # like the loader: the resolver of an ifunc takes no argument on this machine
        chosen: int | None = ctypes.CFUNCTYPE(ctypes.c_void_p)(at)()
        return chosen or 0

    def is_only_called(self, binding: Binding) -> bool:
        """Return whether code uses a slot only to call the function in it."""
        if binding.is_call:
            return True
        image, vaddr = binding.importer, binding.relocation.vaddr
        mapping = image.mapping
        key = image.path, 0 if mapping is None else mapping.inode, vaddr
        if key not in _uses:
            try:
                uses = uses_of(image, binding.addr)
            except FormatError:
                uses = []
            _uses[key] = bool(uses) and all(use.kind in _CALLS for use in uses)
        return _uses[key]

    def is_function(self, binding: Binding) -> bool:
        """Return whether a slot is for a function, as far as its symbol tells."""
        entry = binding.importer.symbols.entry(binding.relocation.symbol)
        return entry.type not in (c.STT_OBJECT, c.STT_TLS)


def choose(
    picture: Picture, bindings: list[Binding], *, own: int, is_python: bool, within: int
) -> tuple[list[Chosen], list[Left]]:
    """Return the slots that are to be hooked, and the others with the reasons.

    `own` is the link map of the image that contains the callable, 0 if there is none. `is_python`
    is set if the callable is Python code. `within` is the constant of `refused` that
    `within_interpreter` returns for the function.
    """
    chosen: list[Chosen] = []
    left: list[Left] = []
    for binding in bindings:
        image = binding.importer
        is_inner = False
        why = _why_not(picture, image, own)
        if not why and is_python and is_libc(image):
            why = "it is the C library's own, where no Python code can run"
        elif not why and within != ANYWHERE and is_interpreters(image):
            is_inner = within == HOLDING
            why = "" if is_inner else "the interpreter uses it, where no Python code can run"
        if not why and not picture.is_function(binding):
            why = "it is for data"
        elif not why and not picture.is_only_called(binding):
            why = "the function's address is taken there"
        definition = 0 if why else picture.definition(binding)
        if not why and not definition:
            why = "no image defines it"
        if why:
            left.append(Left(image.name, binding.addr, why))
        else:
            chosen.append(Chosen(binding, definition, is_inner=is_inner))
    return chosen, left


def _why_not(picture: Picture, image: LoadedImage, own: int) -> str:
    """Return the reason why no slot of an image can be hooked, "" if there is none."""
    if image.namespace:
        return "it lies in a namespace of its own (dlmopen)"
    if image is picture.images.loader:
        return "it is the loader's own"
    if own and image.link_map == own:
        return "the function that is to be called lies in the same image"
    return ""


def _is_called(selection: Selection, image: LoadedImage) -> bool:
    return chooses(
        selection,
        "",
        caller=image.name,
        caller_path=image.path,
        caller_is_main=image.is_main,
        callee="",
    )


def _named(images: list[LoadedImage]) -> str:
    names = [image.name for image in images]
    return " or ".join(names) if len(names) < 4 else f"the {len(names)} images"


def is_executable(addr: int) -> bool:
    """Return whether an address of this process is in executable memory."""
    try:
        mapping = maps.containing(maps.read(int(os.readlink("/proc/self"))), addr)
    except OSError:
        return False  # no /proc
    return mapping is not None and mapping.flags[2] == "x"
