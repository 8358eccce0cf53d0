# SPDX-License-Identifier: Apache-2.0
"""`soscope.hook`: calls of a C function go to the user's own for as long as a `with` lasts."""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import time
from _ctypes import CFuncPtr
from collections.abc import Callable, Sequence

from soscope.errors import HookError, UsageError
from soscope.hooking import refused
from soscope.hooking.calls import PythonCalls
from soscope.hooking.choice import Left, Picture, choose, is_executable
from soscope.hooking.isa import code
from soscope.hooking.pins import Pins
from soscope.hooking.signature import CtypesSignature, signature_of
from soscope.hooking.stacked import HookedSlot, keep_thunk, new_slot
from soscope.hooking.thunks import Thunk, machine
from soscope.hooking.tracers import Tracers
from soscope.prototypes import Prototypes, load

_LOOKS, _BETWEEN = 3, 0.001  # seconds: a thread may be about to bind a slot that was not bound
_LAST_WAIT = 1.0  # seconds for threads to leave Python callables when the interpreter ends


class _State:
    """What the hooks of a process share; changed with `lock` held."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.is_ready = False
        self.number = 0
        self.in_effect: list[Hook] = []
        self.ended: list[tuple[PythonCalls, list[Thunk]]] = []  # threads may still be in them
        self.strings: dict[str, dict[int, object]] = {}  # by symbol and thread, that C may have
        self.prototypes: Prototypes | None = None

    def get_ready(self) -> None:
        """Prepare for forks and for the end of the interpreter. Raises HookError."""
        if self.is_ready:
            return
        machine()
        atexit.register(_end_all)
        lock = self.lock
        os.register_at_fork(
            before=lock.acquire, after_in_parent=lock.release, after_in_child=_in_child
        )
        self.is_ready = True

    def forget_ended(self) -> None:
        """Let closures go in which no thread is any more."""
        self.ended = [
            (calls, thunks)
            for calls, thunks in self.ended
            if any(thunk.get(code.IN_FLIGHT) for thunk in thunks)
        ]

    def known(self) -> Prototypes:
        """Return the catalogue, which is read once."""
        if self.prototypes is None:
            self.prototypes = load()
        return self.prototypes


_state = _State()


class Hook:
    """What `soscope.hook` gives: calls go to the callable while its `with` lasts.

    >>> import os
    >>> with soscope.hook("getpid", lambda original: 4711) as hook:
    ...     (os.getpid(), hook.slots > 0, hook.left, hook.original > 0)
    (4711, True, [], True)

    `slots` is how many slots lead to it, `left` those for the symbol that do not: each with its
    `image`, `addr` and `reason`. `original` is the address of the function.
    """

    __slots__ = ("_calls", "_from", "_function", "_is_on", "_slots", "_way", "left", "symbol")

    def __init__(self, symbol: str, function: object, from_: list[str]) -> None:
        self.symbol = symbol
        self.left: list[Left] = []
        self._function = function
        self._from = from_
        self._slots: list[HookedSlot] = []
        self._calls: PythonCalls | None = None
        self._way: Thunk | None = None
        self._is_on = False

    @property
    def slots(self) -> int:
        """How many slots lead to the callable."""
        return len(self._slots) if self._is_on else 0

    @property
    def original(self) -> int:
        """The run-time address of the function, 0 before the hook has begun."""
        return self._slots[0].chosen.definition if self._slots else 0

    def __repr__(self) -> str:
        """Show what it is."""
        return f"<Hook of {self.symbol}: {self.slots} slots, {len(self.left)} left>"

    def __enter__(self) -> Hook:  # noqa: PYI034  typing is slow to import
        with _state.lock:
            if self._is_on:
                raise UsageError(f"{self.symbol}: this hook is in effect already")
            _state.get_ready()
            _state.forget_ended()
            self._slots, self._calls, self._way = [], None, None
            try:
                self._begin()
            except OSError as error:
                self._end()
                raise HookError(f"{self.symbol}: {error}", errno=error.errno) from error
            except BaseException:
                self._end()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End it, as the end of the `with` does; may be called twice.

        >>> with soscope.hook("getpid", lambda original: 4711) as hook:
        ...     hook.end()
        ...     hook.slots
        0
        """
        with _state.lock:
            if self._is_on:
                self._end()

    # ---- beginning ----

    def _begin(self) -> None:
        """Find the slots and lead them to the callable. Raises HookError, UsageError."""
        symbol = self.symbol
        target = _pointer(self._function)
        if not target:
            refused.refuse(_state.known(), symbol)
        with Picture(symbol) as picture, Tracers() as tracers:
            bindings = picture.slots(picture.callers(self._from))
            image = picture.image_at(target) if target else None
            is_python = image is None and not isinstance(self._function, int)
            signature, within = None, refused.ANYWHERE
            if is_python:
                refused.refuse(_state.known(), symbol)
                signature = self._signature()
                within = refused.within_interpreter(_state.known(), symbol)
            own = 0 if image is None else image.link_map
            chosen, self.left = choose(
                picture, bindings, own=own, is_python=is_python, within=within
            )
            if not chosen:
                raise self._nothing()
            self._is_on = True
            _state.in_effect.append(self)
            for slot in [new_slot(at, symbol) for at in chosen]:
                self._slots.append(slot)
                slot.aim(tracers)
                self._lead(slot, target, signature)
            with Pins() as pins:
                self._store(tracers, pins)
        if not self._slots:
            raise self._nothing()

    def _signature(self) -> CtypesSignature:
        """Return how the callable is called. Raises HookError."""
        if not isinstance(self._function, CFuncPtr):
            return signature_of(_state.known(), self.symbol)
        arguments = list(self._function.argtypes or ())  # ctypes' own, around Python code
        if any(issubclass(of, ctypes.Structure | ctypes.Union) for of in arguments):
            raise HookError(f"{self.symbol}: a structure cannot be given to a Python callable")
        return CtypesSignature(arguments, None, [], text=False)

    def _lead(self, slot: HookedSlot, target: int, signature: CtypesSignature | None) -> None:
        """Lead a thunk to the callable."""
        thunk = slot.thunk
        if signature is None:
            thunk.set(code.TARGET, target)
            return
        if self._way is None:
            self._way = self._way_out(signature, slot)
            if not target and callable(self._function):
                kept = _state.strings.setdefault(self.symbol, {})
                self._calls = PythonCalls(
                    self.symbol, self._function, signature, self._way.addr, kept
                )
        thunk.set(code.CLOSURE, target if self._calls is None else self._calls.addr)
        thunk.set(code.CHECK, int(slot.chosen.is_inner))
        thunk.set(code.STACK_WORDS, self._way.get(code.STACK_WORDS))
        thunk.set(code.HOOK, self._way.get(code.HOOK))
        thunk.set(code.ACTIVE, 1)
        thunk.set(code.TARGET, machine().entry)

    @staticmethod
    def _way_out(signature: CtypesSignature, slot: HookedSlot) -> Thunk:
        """Make what the callable calls the original by."""
        _state.number += 1
        way = machine().new_thunk()
        way.set(code.HOOK, _state.number)
        way.set(code.STACK_WORDS, signature.stack_words + signature.stack_words % 2)
        way.set(code.ORIGINAL, slot.thunk.get(code.ORIGINAL))
        way.set(code.TARGET, machine().leave)
        return way

    def _store(self, tracers: Tracers, pins: Pins) -> None:
        """Let slots lead to their thunks; those that cannot be written are left."""
        stored = []
        for slot in self._slots:
            if slot.store(tracers, pins):
                stored.append(slot)
            else:
                slot.end()
                why = "its image was closed meanwhile, or it cannot be written"
                self.left.append(Left(slot.chosen.image, slot.chosen.addr, why))
        self._slots = stored
        waiting = [slot for slot in stored if slot.chosen.is_unbound]
        for _ in range(_LOOKS if waiting else 0):
            time.sleep(_BETWEEN)
            for slot in waiting:
                slot.look_again(pins)

    def _nothing(self) -> HookError:
        reasons = dict.fromkeys(f"{left.image}: {left.reason}" for left in self.left)
        return HookError(f"{self.symbol}: no slot can be hooked ({', '.join(reasons)})")

    # ---- ending ----

    def _end(self) -> None:
        """Lead calls to the original, and restore the slots. Raises HookError where it cannot."""
        if self._calls is not None:
            self._calls.is_active = False
        for slot in self._slots:
            slot.end()
        is_traced = False
        try:
            with Pins() as pins:
                for slot in self._slots:
                    with Tracers() as tracers:
                        slot.restore(pins, tracers)
                        is_traced |= bool(tracers.agents)
        except OSError as error:  # as too many open files
            raise HookError(
                f"{self.symbol}: the slots still lead through soscope to the function: {error}",
                hint="end the hook again",
                errno=error.errno,
            ) from error
        self._is_on = False
        if self in _state.in_effect:
            _state.in_effect.remove(self)
        for slot in () if is_traced else self._slots:  # an agent may know a thunk for ever
            keep_thunk(slot, self.symbol)
        if self._calls is not None:
            _state.ended.append((self._calls, [slot.thunk for slot in self._slots]))


def _pointer(function: object) -> int:
    """Return the address of a C function pointer, 0 for a Python callable. Raises UsageError."""
    if isinstance(function, int) and not isinstance(function, bool):
        if not is_executable(function):
            raise UsageError(f"{function:#x} is no address of code")
        return function
    if isinstance(function, CFuncPtr):
        addr: int = ctypes.cast(function, ctypes.c_void_p).value or 0
        if not addr:
            raise UsageError("a NULL pointer cannot be called")
        return addr
    return 0


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _in_child() -> None:
    """Go on in a forked child: no other thread is there."""
    machine().take_process()
    machine().forget_threads()
    _state.lock.release()


def _end_all() -> None:
    """End what is still in effect: no Python code runs any more when the interpreter is gone."""
    with _state.lock:
        for hook_in_effect in reversed(_state.in_effect[:]):
            try:
                hook_in_effect.end()
            except HookError:
                continue  # calls go to the original
    end = time.monotonic() + _LAST_WAIT
    while machine().is_busy() and time.monotonic() < end:
        time.sleep(_BETWEEN)


def hook(
    symbol: str,
    function: Callable[..., object] | int,
    *,
    from_: str | Sequence[str] | None = None,
) -> Hook:
    """Lead calls of the C function `symbol` to `function` while a `with` block lasts.

    A Python callable is called as the function's prototype says, with arguments as ctypes gives
    them (strings are bytes or None), and with one more: `original`, by which it may call the
    function. What it returns goes to C: an int, a float, bytes, None. An exception goes to
    `sys.unraisablehook`, and the original is called. A ctypes function object or an address
    needs no prototype, and is called as C calls it.

    `from_` names the images whose calls are meant, as `--from` does (`MAIN`, a soname, a glob, or
    several of them); without it, all. All threads are concerned, and the slots that exist when the
    block begins. Nested hooks of a symbol: the last is called first, and its `original` is the
    next.

    >>> import os
    >>> with soscope.hook("getpid", lambda original: -original()):
    ...     os.getpid() < 0
    True

    Raises HookError where no slot can be hooked (in the `with`), and UsageError for what cannot
    be called.
    """
    if not _is_name(symbol):
        raise UsageError("the symbol of a hook is a name: str")
    if not _pointer(function) and (isinstance(function, bool) or not callable(function)):
        raise UsageError(f"{symbol}: {function!r} cannot be called")
    listed = [from_] if isinstance(from_, str) else from_
    if listed is None:
        return Hook(symbol, function, [])
    if not isinstance(listed, list | tuple) or not listed or not all(map(_is_name, listed)):
        raise UsageError("from_ is the name of an image, or a list of such names")
    return Hook(symbol, function, list(listed))
