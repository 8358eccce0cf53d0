# SPDX-License-Identifier: Apache-2.0
"""Hook the slots of a program: its images as they come, and their slots."""

from __future__ import annotations

import os

from soscope.control.breakpoints import watch
from soscope.control.breakpoints.images import CalledSlot, ErrnoPlace, LoadedElf
from soscope.control.breakpoints.program import ProgramRun
from soscope.control.breakpoints.watch import Armed, CallSpec, CallWatch, EntryPoints
from soscope.entry.breakpoint import Points
from soscope.errors import FormatError
from soscope.live.images import linkmaps
from soscope.model.image import IMAGE_LATE, IMAGE_LOADER, IMAGE_STARTUP, IMAGE_UNREADABLE
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from soscope.control.breakpoints.images import GuestMemory
    from soscope.entry.native.traps import NativeMemory


_CONSISTENT, _DELETE = 0, 2  # r_state of <link.h>


class ImageHooks:
    """The images of one program. `slots` is the watch that notices calls through their slots.

    `guards` maps the first instructions of functions that make threads or processes to their
    names. `waiting` has images that are not relocated yet, by the address of their first code.
    `has_started` is set when the program's initial images are loaded. `say` gets remarks on what
    could not be hooked.
    """

    def __init__(
        self,
        memory: GuestMemory | NativeMemory,
        run: ProgramRun,
        points: Points,
        slots: CallWatch,
        errno: ErrnoPlace,
        entries: EntryPoints,
        say: Callable[[str], object],
        *,
        dynamic: int,
        brk: int,
        guarded: frozenset[str] = watch.THREADS | watch.PROCESSES,
    ) -> None:
        """`dynamic` is the address of the program's dynamic section, `brk` of the loader's `r_brk`.

        The loader calls `r_brk` when images have come or gone. `guarded` are names of functions
        that make threads or processes.
        """
        self._guarded = guarded
        self._memory = memory
        self._arch = run.traced.arch
        self._convention = run.traced.convention
        self._root = run.traced.root
        self._program = run.traced.path
        self._recorder = run.recorder
        self._selection = run.selection
        self._points = points
        self._errno = errno
        self._say = say
        self._dynamic = dynamic
        self._debug = 0
        self._images: dict[int, LoadedElf] = {}  # address of the link map entry -> image
        self.slots = slots
        self.entries = entries
        self.guards: dict[int, str] = {}
        self.waiting: dict[int, list[LoadedElf]] = {}
        self.has_started = False
        self.brk = self.code(brk)
        points.want(self.brk)

    def _function(self, image: LoadedElf, addr: int) -> int:
        """Return the address of a function's first instruction, 0 if there is no function."""
        if addr and self._convention.descriptor:
            return image.code_of(addr)
        return self.code(addr)

    def code(self, addr: int) -> int:
        """Return an instruction's address without the bit that marks its instruction set."""
        return addr & ~1 if self._convention.state is not None else addr

    @property
    def is_deleting(self) -> bool:
        """Return whether the loader is about to unmap images."""
        coding = self._memory.coding
        data = self._memory.read(self._debug + 3 * coding.bits // 8, coding.u32.size)
        return bool(self._debug) and data == coding.u32.pack(_DELETE)

    def look_at_list(self) -> None:
        """Update the images from the loader's list."""
        try:
            if not self._debug:
                coding = self._memory.coding
                self._debug = linkmaps.find_debug(
                    self._memory, coding, self._dynamic, self._arch.debug_maps
                )
                if not self._debug:
                    return
            listed = linkmaps.read_list(self._memory, self._memory.coding, self._debug)
        except FormatError as error:
            self._say(f"the loader's list of images could not be read: {error.message}")
            return
        if listed.state != _CONSISTENT:
            return
        there = {entry.addr: entry for entry in listed.images}
        for addr, image in list(self._images.items()):
            entry = there.get(addr)
            known = image.linked
            if entry is None or (entry.load_bias, entry.path) != (known.load_bias, known.path):
                self._forget(addr, image)
        new = [
            self._open(entry, is_main=not position)
            for position, entry in enumerate(listed.images)
            if entry.addr not in self._images
        ]
        images = [image for image in new if image is not None]
        if not self.has_started:
            self.has_started = True
            for image in images:
                is_loader = image.contains(self.brk)
                flags = IMAGE_STARTUP | (IMAGE_LOADER if is_loader else 0)
                self.hook(image, flags=flags)
            return
        for image in images:
            image.is_late = True
            self._wait_for(image)

    def _open(self, entry: linkmaps.Linked, *, is_main: bool) -> LoadedElf | None:
        path = self._program if is_main else self._root.host(entry.path)
        if not path:  # the vDSO
            return None
        if not is_main and not os.path.exists(path):
            path = entry.path  # as qemu does for files missing in the sysroot
        try:
            image = LoadedElf.open(entry, path, is_main=is_main)
        except (FormatError, OSError) as error:
            if entry.path and "vdso" not in entry.path:
                why = error.message if isinstance(error, FormatError) else error.strerror
                self._say(f"not hooked: {entry.path}: {why}")
            return None
        self._images[entry.addr] = image
        self._guard(image)
        return image

    def _guard(self, image: LoadedElf) -> None:
        """Put breakpoints at functions that make threads or processes, for all callers."""
        for symbol in self._guarded:
            addr = self._place_of(symbol, image)
            if addr and addr not in self.guards:
                self.guards[addr] = symbol
                self._points.want(addr)

    def places_of(self, symbols: Iterable[str]) -> set[int]:
        """Return the first instructions of all functions with these names, in any image."""
        images = self._images.values()
        return {self._place_of(symbol, image) for image in images for symbol in symbols} - {0}

    def _place_of(self, symbol: str, image: LoadedElf) -> int:
        try:
            named = image.entry_of(symbol, local=self._convention.local_entries)
            return self._function(image, named)
        except FormatError:
            return 0  # most images do not define the name

    def guard_ends(self) -> None:
        """From here on guard only the functions that end the program."""
        for addr in self.guards:
            self._points.leave(addr)
        self.guards.clear()
        self._guarded = frozenset(watch.ENDS)
        for image in self._images.values():
            self._guard(image)

    def _wait_for(self, image: LoadedElf) -> None:
        """Arrange that the slots of a new image are hooked when its first code is about to run.

        The image is relocated then.
        """
        try:
            addr = self._function(image, image.first_code())
        except FormatError:
            addr = 0
        if not addr:
            self.hook(image, flags=IMAGE_LATE)
            return
        self.waiting.setdefault(addr, []).append(image)
        self._points.want(addr)

    def inherit(self, parent: ImageHooks) -> None:
        """Begin with the images of the process that has forked this one."""
        self._debug, self.has_started = parent._debug, parent.has_started
        self.guards = dict(parent.guards)
        self.waiting = {addr: list(images) for addr, images in parent.waiting.items()}
        self._images = dict(parent._images)
        for image in self._images.values():
            image.processes += 1
        pid, parent_pid = self._memory.pid, parent._memory.pid
        self._recorder.move(layout.MOVE_FORKED, pid, parent=parent_pid)

    def leave(self) -> None:
        """Note that the process has ended or executed another program."""
        for image in self._images.values():
            image.processes -= 1
        self._images.clear()

    def _forget(self, addr: int, image: LoadedElf) -> None:
        del self._images[addr]
        for place, images in list(self.waiting.items()):
            if image in images:
                images.remove(image)
                self._points.leave(place)
                if not images:
                    del self.waiting[place]
        for place in [place for place in self.guards if image.contains(place)]:
            del self.guards[place]
            self._points.leave(place)
        self.slots.forget(image)
        self.entries.forget(image)
        image.processes -= 1
        if image.index >= 0:
            self._recorder.move(layout.MOVE_WENT, self._memory.pid, image.index)
            if not image.processes:
                self._recorder.close_image(image.index)

    def _record_image(self, image: LoadedElf, flags: int) -> None:
        if image.index < 0:
            flags &= ~IMAGE_STARTUP if image.is_late else ~0
            image.index = self._recorder.image(
                image.name,
                image.path,
                bias=image.linked.load_bias,
                start=image.start,
                end=image.end,
                build_id=image.elf.build_id,
                flags=flags | (layout.IMAGE_MAIN if image.is_main else 0),
                pid=self._memory.pid,
            )
            if image.is_late and image.index != layout.NONE:
                self._recorder.move(layout.MOVE_CAME, self._memory.pid, image.index)

    def hook(self, image: LoadedElf, *, flags: int) -> None:
        """Make the slots of an image lead to soscope."""
        if flags & IMAGE_LOADER:  # the loader's own calls come before anything is initialized
            self._record_image(image, flags)
            return
        try:
            slots = image.slots(self._arch)
        except FormatError as error:
            self._say(f"not hooked: {image.path}: {error.message}")
            self._record_image(image, flags | IMAGE_UNREADABLE)
            return
        self._record_image(image, flags)
        self._look_for_errno(image)
        unlike = image.unlike(self._arch)
        if unlike:
            self._say(f"not hooked: {image.path}: {unlike}")
        else:
            self._watch_entries(image)
        if not self.slots.notices_slots:
            return
        counts = [0, 0, 0]  # hooked, not chosen, refused
        for slot in slots:
            counts[self._arm_slot(slot, image, is_known=not unlike)] += 1
        self._recorder.image_slots(image.index, hooked=counts[0], left=counts[1], refused=counts[2])

    def _look_for_errno(self, image: LoadedElf) -> None:
        if self._errno.is_known:
            return
        try:
            self._errno.find(image.elf, image.linked.load_bias)
        except FormatError:
            return  # an image that has errno has readable symbols
        if self._errno.is_known:
            self._recorder.knows_errno()

    def _watch_entries(self, image: LoadedElf) -> None:
        """Put breakpoints at the requested functions of an image."""
        try:
            functions = list(self.entries.functions(image))
        except FormatError as error:
            self._say(f"functions inside {image.path} are not known: {error.message}")
            return
        for function in functions:
            spec = self._selection.spec(function, image)
            if spec is None:
                continue  # soscope must not touch it
            number = self._record_slot(function, None, image, spec, layout.HOOKED, function.addr)
            if number != layout.NONE:
                self.entries.watch(function, image, spec, number)

    def _arm_slot(self, slot: CalledSlot, image: LoadedElf, *, is_known: bool) -> int:
        """Make a slot lead to soscope. Return 0 if it does, 1 if it is not chosen, 2 if it cannot.

        `is_known` is set if the code of its image is of a supported kind.
        """
        held = self._memory.word(slot.addr)
        if not held and not slot.is_call:
            return 1  # a weak symbol that no image defines
        callee = self._callee(slot, held)
        self._recorder.matched(0, self._selection.matched(slot, image, callee))
        is_asked = self._selection.chooses(slot, image, callee)
        spec = self._selection.spec(slot, callee) if is_asked else None
        if spec is None:
            return 1
        armed: Armed | int
        if not is_known:
            armed = layout.REFUSED_NO_SITE
        elif slot.is_call:
            armed = self.slots.hook(slot, image, spec)
        else:
            armed = self.slots.hook_shared(slot, image, spec)
        refusal = armed if isinstance(armed, int) else layout.HOOKED
        number = self._record_slot(slot, image, callee, spec, refusal, held)
        if number == layout.NONE:
            return 2
        if isinstance(armed, Armed):
            armed.number = number
            if armed.is_part:
                refusal = layout.REFUSED_ADDRESS_TAKEN
                self._record_slot(slot, image, callee, spec, refusal, held)
        return 0 if refusal == layout.HOOKED else 2

    def _record_slot(
        self,
        slot: CalledSlot,
        image: LoadedElf | None,
        callee: LoadedElf | None,
        spec: CallSpec,
        refusal: int,
        held: int,
    ) -> int:
        if callee is not None:
            self._record_image(callee, IMAGE_STARTUP)
        function = spec.function
        kind = layout.SLOT_JUMP_SLOT if slot.is_call else layout.SLOT_GLOB_DAT
        flags = layout.SLOT_ENTRY_ONLY if spec.is_alone else 0
        if slot.relocation:
            flags |= layout.SLOT_LAZY
        return self._recorder.slot(
            slot.symbol,
            slot.version,
            caller=layout.NONE if image is None else image.index,
            callee=layout.NONE if callee is None else callee.index,
            addr=slot.addr,
            original=held,
            prototype=function.prototype,
            kind=kind if image is not None else layout.SLOT_ENTRY,
            refusal=refusal,
            flags=flags,
            error_rule=function.error_rule,
            treatment=function.flags,
            instrument=self._selection.kind,
        )

    def _callee(self, slot: CalledSlot, held: int) -> LoadedElf | None:
        """Return the image whose function a slot leads to: by its value, else by load order."""
        for image in self._images.values():
            if image.contains(held):
                if image.defines(slot.symbol):
                    return image
                break  # unbound: it leads to its own image's stub
        return next((each for each in self._images.values() if each.defines(slot.symbol)), None)
