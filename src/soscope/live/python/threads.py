# SPDX-License-Identifier: Apache-2.0
"""The threads that an interpreter knows: the address of each one's state, by thread pointer."""

from __future__ import annotations

from struct import unpack_from

from soscope.binfmt.source import ByteSource
from soscope.live.python.interpreter import Interpreter
from soscope.live.python.offsets import DEBUG_SIZE

_MOST = 1 << 16  # threads: their list is read while it changes
_MOST_INTERPRETERS = 1 << 10
# Where _PyRuntime has the first interpreter, that one the next, and its first thread, and that one
# the next: pycore_runtime.h, pycore_interp.h, pystate.h. Newer ones say it themselves.
_PLACES = {
    (3, 9): (32, 0, 8, 8),
    (3, 10): (32, 0, 8, 8),
    (3, 11): (40, 0, 16, 8),
    (3, 12): (40, 0, 72, 8),
}
# the same as words of `_Py_DebugOffsets`
_WORDS = {
    (3, 13): (5, 8, 9, 21),
    (3, 14): (5, 8, 9, 24),
    (3, 15): (5, 8, 9, 24),
}


def thread_states(memory: ByteSource, interpreter: Interpreter) -> dict[int, int]:
    """Return the addresses of the states of all threads, by what identifies each: its pointer.

    The list may change meanwhile: who uses a state looks whether it still says the same.
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
    """Return the word at an address, 0 where there is none."""
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
