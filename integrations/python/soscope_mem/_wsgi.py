# SPDX-License-Identifier: Apache-2.0
"""A middleware for WSGI (PEP 3333): a line for each request of an application."""

from __future__ import annotations

from soscope_mem import _made
from soscope_mem._count import begin_anew, ours
from soscope_mem._request import Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from soscope_mem._count import File


class WSGI:
    """An application that writes what each request of another one costs, and leaves alive.

    >>> from soscope_mem import WSGI
    >>> def application(environ, start_response):
    ...     start_response("200 OK", [])
    ...     return [b"hello"]
    >>> application = WSGI(application, file="/tmp/requests.json")

    Each line is a document of JSON. `file` is a path, to whose file lines are added, or an open
    text file; None: standard output. `force_gc`: garbage is collected at the end of each request.
    Raises CountingError where objects cannot be counted.
    """

    __slots__ = ("_application", "_file", "_force_gc")

    def __init__(
        self, application: Callable[..., Any], file: File = None, *, force_gc: bool = False
    ) -> None:
        begin_anew()
        self._application = application
        self._file = file
        self._force_gc = force_gc

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """Answer one request. It ends when the server closes the answer."""
        about = {
            "method": environ.get("REQUEST_METHOD"),
            "path": environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", ""),
            "status": None,
        }
        request = Request(about, self._file, self._force_gc)

        def started(status: str, headers: list[tuple[str, str]], *error: Any) -> Any:
            about["status"] = int(status[:3]) if status[:3].isdigit() else None
            return start_response(status, headers, *error)

        try:
            answer = self._application(environ, started)
            return (_Sized if hasattr(answer, "__len__") else _Body)(answer, request)
        except BaseException as error:
            request.end(error)
            raise


class _Body:
    """What the application answers. The request ends with it."""

    __slots__ = ("_answer", "_blocks", "_error", "_request")

    def __init__(self, answer: Any, request: Request) -> None:
        self._answer = answer
        self._request: Request | None = request
        self._error: BaseException | None = None
        self._blocks: Iterator[bytes] = iter(answer)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            return next(self._blocks)
        except StopIteration:
            raise
        except BaseException as error:
            self._error = error
            raise

    def close(self) -> None:
        """End the request; servers call this once, whatever has happened."""
        try:
            if hasattr(self._answer, "close"):
                self._answer.close()
        except BaseException as error:
            self._error = self._error or error
            raise
        finally:
            request, self._request = self._request, None
            error_then, self._error = self._error, None
            if request is not None:
                request.end(error_then)


class _Sized(_Body):
    """One that says how many blocks it has: servers work out a length where there is one."""

    __slots__ = ()

    def __len__(self) -> int:
        return len(self._answer)


ours(WSGI.__call__)
_made.own(WSGI.__call__.__code__.co_filename)
