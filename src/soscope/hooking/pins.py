# SPDX-License-Identifier: Apache-2.0
"""Images that are kept loaded while their slots change, so that no thread can unload them."""

from __future__ import annotations

import ctypes
import os
from bisect import bisect_right

from soscope.hooking.isa import code
from soscope.proc import maps

_PROT_READ, _PROT_EXEC = 1, 4


class LoadedPlace:
    """An image's link map, its load bias, and the loader's name for it."""

    __slots__ = ("bias", "link_map", "name")

    def __init__(self, link_map: int, bias: int, name: str) -> None:
        self.link_map = link_map
        self.bias = bias
        self.name = name


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
        at = bisect_right(self._mappings, addr, key=lambda mapping: mapping.start)
        mapping = self._mappings[at - 1] if at else None
        if mapping is None or addr + code.WORD > mapping.end:
            return None
        if mapping.flags[1] == "w":
            return 0
        return _PROT_READ | (_PROT_EXEC if mapping.flags[2] == "x" else 0)
