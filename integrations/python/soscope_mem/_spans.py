# SPDX-License-Identifier: Apache-2.0
"""Spans of a program: in one another, in threads and tasks that begin and end as they like."""

from __future__ import annotations

import functools
import os
from _thread import RLock, get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from typing import Any, TypeVar

    Function = TypeVar("Function", bound=Callable[..., Any])
    Span = Callable[[tuple[int, ...]], AbstractContextManager[None]]

_GENERATOR, _COROUTINE = 0x20, 0x80  # of a code object's flags


class OpenSpans:
    """The spans that are open, and the threads that have begun them."""

    __slots__ = ("_lock", "_pid", "_threads")

    def __init__(self) -> None:
        self._threads: dict[int, int] = {}
        self._pid = os.getpid()
        self._lock = RLock()  # a signal handler may begin a span while one begins

    def begin(self, span: object, start: Callable[[], object]) -> None:
        """Start what `span` needs, and take note of it. Raises what `start` raises."""
        self._look_for_fork()
        with self._lock:
            start()
            self._threads[id(span)] = get_ident()

    def end(self, span: object, stop: Callable[[], object]) -> None:
        """Stop what spans need, if this was the last one."""
        self._look_for_fork()
        with self._lock:
            self._threads.pop(id(span), None)
            if not self._threads:
                stop()

    def _look_for_fork(self) -> None:
        """In the child of a fork, forget the spans of threads that it has not."""
        if os.getpid() == self._pid:
            return
        self._pid = os.getpid()
        self._lock = RLock()  # one of them may have held it
        own = get_ident()
        self._threads = {span: thread for span, thread in self._threads.items() if thread == own}


def decorated(function: Function, span: Span) -> Function:
    """Return a function whose calls are spans, to the end of a coroutine or a generator, too.

    `span` makes one; it is told the addresses of objects that are made for the call.
    """
    flags = getattr(getattr(function, "__code__", None), "co_flags", 0)
    made: Any
    if flags & _COROUTINE:

        @functools.wraps(function)
        async def made(*args: Any, **kwargs: Any) -> Any:
            with span((id(args), id(kwargs))):
                return await function(*args, **kwargs)

    elif flags & _GENERATOR:

        @functools.wraps(function)
        def made(*args: Any, **kwargs: Any) -> Any:
            with span((id(args), id(kwargs))):
                return (yield from function(*args, **kwargs))

    else:

        @functools.wraps(function)
        def made(*args: Any, **kwargs: Any) -> Any:
            with span((id(args), id(kwargs))):
                return function(*args, **kwargs)

    return made  # type: ignore[no-any-return]  # it has the function's own signature
