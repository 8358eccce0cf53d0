# SPDX-License-Identifier: Apache-2.0
"""The threads of an interpreter: thread pointer -> address of the thread state."""

from __future__ import annotations

from struct import unpack_from

from soscope.binfmt.source import ByteSource
from soscope.live.python.interpreter import Interpreter
from soscope.live.python.offsets import DEBUG_SIZE

_MOST = 1 << 16  # threads, as their list may change during the read
_MOST_INTERPRETERS = 1 << 10
# Offsets of the first interpreter in _PyRuntime, the next interpreter, its first thread, and the
# next thread: pycore_runtime.h, pycore_interp.h, pystate.h. Newer versions have them in
# _PyRuntime.
_PLACES = {
    (3, 9): (32, 0, 8, 8),
    (3, 10): (32, 0, 8, 8),
    (3, 11): (40, 0, 16, 8),
    (3, 12): (40, 0, 72, 8),
}
# indices of these offsets in `_Py_DebugOffsets`
_WORDS = {
    (3, 13): (5, 8, 9, 21),
    (3, 14): (5, 8, 9, 24),
    (3, 15): (5, 8, 9, 24),
}


def thread_states(memory: ByteSource, interpreter: Interpreter) -> dict[int, int]:
    """Return thread pointer -> address of the thread state, for all threads.

    The list may change meanwhile, so users of a state check whether it still has the same thread.
    """
    places = _places(memory, interpreter)
    if places is None:
        return {}
    first, next_interpreter, threads, next_thread = places
    at = interpreter.layout.tstate_thread_id
    states: dict[int, int] = {}
    home = word_at(memory, interpreter.runtime + first)
    for _ in range(_MOST_INTERPRETERS):
        if not home:
            break
        state = word_at(memory, home + threads)
        while state and len(states) < _MOST:
            pointer = word_at(memory, state + at)
            if pointer in states:
                break
            states[pointer] = state
            state = word_at(memory, state + next_thread)
        home = word_at(memory, home + next_interpreter)
    return states


def word_at(memory: ByteSource, addr: int) -> int:
    """Return the word at an address, 0 if there is none."""
    data = memory.read(addr, 8)
    return int.from_bytes(data, "little") if len(data) == 8 else 0


def _places(memory: ByteSource, interpreter: Interpreter) -> tuple[int, ...] | None:
    version = interpreter.layout.version
    if version in _PLACES:
        return _PLACES[version]
    head = memory.read(interpreter.runtime, DEBUG_SIZE)
    if version not in _WORDS or len(head) < DEBUG_SIZE:
        return None
    return tuple(unpack_from("<Q", head, 8 * word)[0] for word in _WORDS[version])
