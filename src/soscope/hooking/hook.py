# SPDX-License-Identifier: Apache-2.0
"""`soscope.hook`: send calls of a C function to the user's function in a `with` block."""

from __future__ import annotations

import atexit
import ctypes
import operator
import os
import sys
import threading
import time
from _ctypes import CFuncPtr  # ctypes has no public name for it
from typing import Any

from soscope.errors import HookError, UsageError
from soscope.hooking import slots
from soscope.hooking.isa import code
from soscope.hooking.slots import Left, Picture, Pins, choose, is_executable
from soscope.hooking.thunks import HookedSlot, Thunk, Tracers, keep_thunk, machine, new_slot
from soscope.prototypes import Prototypes, catalog, load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# The ctypes types of a prototype of the catalogue.
#
# `char *` is a string if the declaration tells so (`const char *`, or an annotation). Buffers that
# a function fills in, and strings without a zero at the end, are passed as addresses, like every
# other pointer.

_REGISTERS, _VECTORS = 6, 8  # for arguments (System V psABI x86-64 §3.2.3)
_NEED_NOT_END = ("LIMIT(", "FOLLOW_UNLESS_0(")
_FLOATS = {4: ctypes.c_float, 8: ctypes.c_double}
_SIGNED = {1: ctypes.c_int8, 2: ctypes.c_int16, 4: ctypes.c_int32, 8: ctypes.c_int64}
_UNSIGNED = {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: ctypes.c_uint32, 8: ctypes.c_uint64}

_C = "a C function pointer (a ctypes function object, or an address) needs no prototype"


class CtypesSignature:
    """The signature of a function: ctypes types of its `arguments` and its `result`.

    `result` is None for void. `strings` are the indices of the arguments that are strings, and
    `returns_string` is set if the result is a string. `stack_words` is the number of words of
    arguments that are passed on the stack.
    """

    __slots__ = ("arguments", "result", "returns_string", "stack_words", "strings")

    def __init__(
        self, arguments: list[type], result: type | None, strings: list[int], *, text: bool
    ) -> None:
        self.arguments = arguments
        self.result = result
        self.strings = strings
        self.returns_string = text
        self.stack_words = stack_words(arguments)


def stack_words(arguments: list[type]) -> int:
    """Return the number of words of these arguments that are passed on the stack."""
    ints = floats = words = 0
    for of in arguments:
        if of is ctypes.c_longdouble:
            words += words % 2 + 2
        elif of in (ctypes.c_float, ctypes.c_double):
            floats += 1
            words += floats > _VECTORS
        else:
            ints += 1
            words += ints > _REGISTERS
    return words


def signature_of(prototypes: Prototypes, name: str) -> CtypesSignature:
    """Return the signature of the function `name`.

    Raises HookError if it has no prototype, or if no Python callable can replace it.
    """
    known = prototypes.row(name)
    if known is None:
        raise HookError(
            f"{name}: no prototype: the types of its arguments are not known", hint=f"{_C}"
        )
    _, arguments, optionals, tail, result, *_, declaration, _ = known
    if any(argument[0] == "va_list" for argument in arguments):
        raise HookError(f"{name}: a va_list cannot be given to a Python callable", hint=_C)
    if optionals or tail:
        raise HookError(f"{name}: a variadic function cannot be a Python callable", hint=_C)
    chunks = _parameters(declaration)
    types, strings = [], []
    for number, (argument, chunk) in enumerate(zip(arguments, chunks, strict=True)):
        types.append(_type(name, argument, f"argument {number + 1}"))
        is_string = argument[4] == catalog.POINTS_TO_STRING and argument[7] is None
        if is_string and not any(word in chunk for word in _NEED_NOT_END):
            strings.append(number)
    of = None if result is None else _type(name, result, "the result")
    text = result is not None and result[4] == catalog.POINTS_TO_STRING
    return CtypesSignature(types, of, strings, text=text)


def _type(name: str, argument: catalog.ArgumentRow, what: str) -> type:
    text, place, _, (show, size, signed, _), *_ = argument
    if show == catalog.SHOW_LONG_DOUBLE:
        return ctypes.c_longdouble
    if show in (catalog.SHOW_STRUCT, catalog.SHOW_COMPLEX) or place == catalog.PLACE_NONE:
        raise HookError(
            f"{name}: {what} is a structure ({text}), which soscope cannot pass", hint=_C
        )
    if show == catalog.SHOW_POINTER or text.endswith("*"):
        return ctypes.c_void_p
    if show == catalog.SHOW_FLOAT:
        return _FLOATS[size]
    return (_SIGNED if signed else _UNSIGNED)[size]


def _parameters(declaration: str) -> list[str]:
    """Return the parameters of a declaration as texts."""
    start = declaration.index("(") + 1
    chunks, depth, begin = [], 0, start
    for at in range(start, len(declaration)):
        sign = declaration[at]
        if sign == "(":
            depth += 1
        elif sign == ")" and depth:
            depth -= 1
        elif not depth and sign in ",)":
            chunks.append(declaration[begin:at].strip())
            begin = at + 1
            if sign == ")":
                break
    return [] if chunks in (["void"], [""]) else chunks


# Converts a C call to the call of a Python callable, and its result or exception back.

_FLOATS_CALLS = (ctypes.c_float, ctypes.c_double, ctypes.c_longdouble)


class Text(bytes):
    """A string of the program. If it is passed back unchanged, C gets the same pointer again."""

    addr: int


def text_at(addr: int | None) -> Text | None:
    """Return the string at an address, None if the address is NULL."""
    if not addr:
        return None
    text = Text(ctypes.string_at(addr))
    text.addr = addr
    return text


class PythonCalls:
    """Turns C calls into calls of `function`. C calls the address of `closure`.

    `way_out` is the address at which the original is called. `kept` has the last string that each
    thread has returned to C.
    """

    def __init__(
        self,
        symbol: str,
        function: Callable[..., object],
        signature: CtypesSignature,
        way_out: int,
        kept: dict[int, object],
    ) -> None:
        self.symbol = symbol
        self.signature = signature
        self.is_active = True
        kind = ctypes.CFUNCTYPE(signature.result, *signature.arguments, use_errno=True)
        self._native = kind(way_out)
        self._function = function
        self._kept = kept
        self.closure = kind(self._enter)

    @property
    def addr(self) -> int:
        """The address of `closure`."""
        addr: int = ctypes.cast(self.closure, ctypes.c_void_p).value or 0
        return addr

    def original(self, *arguments: object) -> object:
        """Call the original with arguments like the callable's: strings are bytes or None."""
        result = self._native(*[self._word(argument) for argument in arguments])
        return text_at(result) if self.signature.returns_string else result

    @staticmethod
    def _word(argument: object) -> object:
        if isinstance(argument, Text):
            return argument.addr
        if isinstance(argument, str):
            raise TypeError("a string for C must be bytes, not str")
        return argument

    def _enter(self, *words: Any) -> object:
        if not self.is_active:
            return self._native(*words)
        try:
            arguments = list(words)
            for number in self.signature.strings:
                arguments[number] = text_at(arguments[number])
            return self._back(self._function(*arguments, self.original))
        except BaseException as error:  # noqa: BLE001  C code cannot handle it
            _report(error, self._function)
        return self._native(*words)

    def _back(self, result: Any) -> object:
        """Convert the result of the callable for C. Raises TypeError."""
        of = self.signature.result
        if of is None:
            return None
        if of in _FLOATS_CALLS:
            return float(result)
        if of is not ctypes.c_void_p:
            return operator.index(result)
        if result is None:
            return None
        if isinstance(result, Text):
            return result.addr
        if isinstance(result, bytes):
            buffer = ctypes.create_string_buffer(result)
            self._kept[threading.get_ident()] = buffer
            return ctypes.addressof(buffer)
        return operator.index(result)


def _report(error: BaseException, of: object) -> None:
    """Pass an exception to `sys.unraisablehook`."""
    arguments = _unraisable()(
        (type(error), error, error.__traceback__, "Exception ignored in hook", of)
    )
    try:
        sys.unraisablehook(arguments)
    except BaseException:  # noqa: BLE001  no code is left to handle it
        return


def _unraisable() -> Callable[[tuple[object, ...]], Any]:
    """Return the type of the argument of `sys.unraisablehook`, which has no public name."""
    for candidate in tuple.__subclasses__():
        if candidate.__name__ == "UnraisableHookArgs":
            return candidate
    raise HookError("this interpreter has no UnraisableHookArgs")


_LOOKS, _BETWEEN = 3, 0.001  # number and seconds: a thread may be binding a slot now
_LAST_WAIT = 1.0  # seconds that threads have to leave Python callables at exit


class _State:
    """The state that the hooks of a process share. It is changed only with `lock` held."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.is_ready = False
        self.number = 0
        self.in_effect: list[Hook] = []
        self.ended: list[tuple[PythonCalls, list[Thunk]]] = []  # threads may still be in them
        self.strings: dict[str, dict[int, object]] = {}  # results that C may use
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
        """Drop the closures that no thread executes any more."""
        self.ended = [
            (calls, thunks)
            for calls, thunks in self.ended
            if any(thunk.get(code.IN_FLIGHT) for thunk in thunks)
        ]

    def known(self) -> Prototypes:
        """Return the catalogue of prototypes, which is read once."""
        if self.prototypes is None:
            self.prototypes = load()
        return self.prototypes


_state = _State()


class Hook:
    """The result of `soscope.hook`: calls go to the callable during its `with` block.

    >>> import os
    >>> with soscope.hook("getpid", lambda original: 4711) as hook:
    ...     (os.getpid(), hook.slots > 0, hook.left, hook.original > 0)
    (4711, True, [], True)

    `slots` is the number of slots that lead to the callable. `left` are the slots for the symbol
    that do not, each with its `image`, `addr` and `reason`. `original` is the address of the
    function.
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
        """The number of slots that lead to the callable."""
        return len(self._slots) if self._is_on else 0

    @property
    def original(self) -> int:
        """The run-time address of the function, 0 before the hook has begun."""
        return self._slots[0].chosen.definition if self._slots else 0

    def __repr__(self) -> str:
        """Return a text with the symbol and the numbers of slots."""
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
        """End the hook, like the end of its `with` block. It may be called twice.

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
        """Find the slots and make them lead to the callable. Raises HookError and UsageError."""
        symbol = self.symbol
        target = _pointer(self._function)
        if not target:
            slots.refuse(_state.known(), symbol)
        with Picture(symbol) as picture, Tracers() as tracers:
            bindings = picture.slots(picture.callers(self._from))
            image = picture.image_at(target) if target else None
            is_python = image is None and not isinstance(self._function, int)
            signature, within = None, slots.ANYWHERE
            if is_python:
                slots.refuse(_state.known(), symbol)
                signature = self._signature()
                within = slots.within_interpreter(_state.known(), symbol)
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
        """Return the signature of the callable. Raises HookError."""
        if not isinstance(self._function, CFuncPtr):
            return signature_of(_state.known(), self.symbol)
        arguments = list(self._function.argtypes or ())  # a ctypes callback for Python code
        if any(issubclass(of, ctypes.Structure | ctypes.Union) for of in arguments):
            raise HookError(f"{self.symbol}: a structure cannot be given to a Python callable")
        return CtypesSignature(arguments, None, [], text=False)

    def _lead(self, slot: HookedSlot, target: int, signature: CtypesSignature | None) -> None:
        """Make the thunk of a slot lead to the callable."""
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
        """Return a thunk at which the callable calls the original."""
        _state.number += 1
        way = machine().new_thunk()
        way.set(code.HOOK, _state.number)
        way.set(code.STACK_WORDS, signature.stack_words + signature.stack_words % 2)
        way.set(code.ORIGINAL, slot.thunk.get(code.ORIGINAL))
        way.set(code.TARGET, machine().leave)
        return way

    def _store(self, tracers: Tracers, pins: Pins) -> None:
        """Make slots lead to their thunks. Slots that cannot be written are added to `left`."""
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
        """Redirect calls to the original, and restore the slots. Raises HookError if that fails."""
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
        except OSError as error:  # for example too many open files
            raise HookError(
                f"{self.symbol}: the slots still lead through soscope to the function: {error}",
                hint="end the hook again",
                errno=error.errno,
            ) from error
        self._is_on = False
        if self in _state.in_effect:
            _state.in_effect.remove(self)
        for slot in () if is_traced else self._slots:  # an agent may keep a thunk's address
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
    """Continue in a forked child, which has no other thread."""
    machine().take_process()
    machine().forget_threads()
    _state.lock.release()


def _end_all() -> None:
    """End all hooks, because no Python code can run after the interpreter has ended."""
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
    """Redirect calls of the C function `symbol` to `function` during a `with` block.

    A Python callable is called with the arguments of the function's prototype, as ctypes passes
    them (strings are bytes or None), and with one more argument, `original`. It may call the
    function by `original`. Its result goes to C: an int, a float, bytes, None. If it raises an
    exception, the exception goes to `sys.unraisablehook`, and the original is called. A ctypes
    function object or an address needs no prototype, and is called like a C function.

    `from_` names the images whose calls are redirected, as `--from` does: `MAIN`, a soname, a
    glob, or several of them. Without `from_`, the calls of all images are redirected. The hook
    applies to all threads, and to the slots that exist when the block begins. If hooks of a
    symbol are nested, the last one is called first, and its `original` is the hook before it.

    >>> import os
    >>> with soscope.hook("getpid", lambda original: -original()):
    ...     os.getpid() < 0
    True

    Raises UsageError if `function` cannot be called. If no slot can be hooked, the `with`
    statement raises HookError.
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
