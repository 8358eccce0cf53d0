# SPDX-License-Identifier: Apache-2.0
"""A middleware for ASGI 3: a line for each HTTP request of an application."""

from __future__ import annotations

import inspect

from soscope_mem import _made
from soscope_mem._count import begin_anew, ours
from soscope_mem._request import Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from soscope_mem._count import File

    Message = dict[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]


class ASGI:
    """An application that writes what each HTTP request of another one costs, and leaves alive.

    >>> from soscope_mem import ASGI
    >>> async def application(scope, receive, send):
    ...     await send({"type": "http.response.start", "status": 204, "headers": []})
    ...     await send({"type": "http.response.body"})
    >>> application = ASGI(application, file="/tmp/requests.json")

    Arguments and lines are those of WSGI. A request ends when the application returns; other
    scopes (websocket, lifespan) are the application's alone.
    """

    __slots__ = ("_application", "_file", "_force_gc")

    def __init__(
        self,
        application: Callable[[Message, Receive, Send], Awaitable[None]],
        file: File = None,
        *,
        force_gc: bool = False,
    ) -> None:
        begin_anew()
        self._application = application
        self._file = file
        self._force_gc = force_gc

    # No `async def`: its coroutine would be made by a line of the server's, and counted there.
    def __call__(self, scope: Message, receive: Receive, send: Send) -> Awaitable[None]:
        """Answer one request, or pass another scope on."""
        if scope["type"] != "http":
            return self._application(scope, receive, send)
        return self._answer(scope, receive, send)

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> None:
        about = {"method": scope.get("method"), "path": scope.get("path"), "status": None}
        request = Request(about, self._file, self._force_gc)

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                about["status"] = message["status"]
            await send(message)

        try:
            await self._application(scope, receive, sent)
        except BaseException as error:
            request.end(error)
            raise
        request.end()


def _mark(function: Any) -> None:
    """Have servers take it for what it is: something to be awaited."""
    if hasattr(inspect, "markcoroutinefunction"):
        inspect.markcoroutinefunction(function)
    else:
        import asyncio.coroutines

        # asyncio's own mark before 3.12, of which no type is declared
        function._is_coroutine = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]


_mark(ASGI.__call__)
ours(ASGI.__call__)
_made.own(ASGI.__call__.__code__.co_filename)
