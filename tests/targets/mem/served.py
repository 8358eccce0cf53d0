# SPDX-License-Identifier: Apache-2.0
"""Web applications whose requests are looked at, in a way of several."""

import asyncio
import ctypes
import gc
import io
import os
import socketserver
import sys
import threading
import wsgiref.simple_server

import soscope_mem

WAY, OUT = sys.argv[1:3]
kept = []
both = threading.Barrier(2)
PATHS = ("/leaks", "/fails", "/writes", "/streams", "/breaks", "/garbage", "/calls", "/forks")


class Kept:
    pass


class Ring:
    def __init__(self):
        self.own = self


class Stream:
    """An answer that comes in parts, and is closed."""

    def __init__(self, parts, error=None):
        self.parts = parts
        self.error = error
        self.closed = 0

    def __iter__(self):
        for _ in range(self.parts):
            kept.append(Kept())  # streamed
            yield b"x"
        if self.error:
            raise self.error

    def close(self):
        self.closed += 1


def calls(count):
    """Make calls of known numbers and sizes, and objects that do not stay."""
    null = os.open("/dev/null", os.O_WRONLY)
    for _ in range(count):
        os.write(null, b"abc")
    os.close(null)
    [bytearray(9) for _ in range(count)]


def application(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/fails":
        raise ValueError("mine")
    write = start_response("201 Created", [("X-Own", "1")])
    if path == "/writes":
        write(b"written")
    if path == "/streams":
        return Stream(3)
    if path == "/breaks":
        return Stream(1, KeyError("late"))
    if path == "/garbage":
        for _ in range(50):
            Ring()  # garbage
    if path == "/both":
        calls(3)
        both.wait()
        both.wait()
    if path == "/calls":
        calls(7)
        return []
    if path == "/forks":
        child = os.fork()
        if child:
            os.waitpid(child, 0)
    kept.extend([Kept() for _ in range(100)])  # leaked
    return [b"hello"]


def wsgi():
    """Call it as a server does."""
    gc.disable()
    app = soscope_mem.WSGI(application, OUT, force_gc=True)
    process = os.getpid()
    for path in PATHS:
        started, written, answer = [], io.BytesIO(), None
        environ = {"REQUEST_METHOD": "GET", "SCRIPT_NAME": "/app", "PATH_INFO": path}

        def start_response(status, headers, started=started, written=written):
            started.append((status, headers))
            return written.write

        try:
            answer = app(environ, start_response)
            text = b"".join(answer)
        except Exception as error:
            text = repr(error)
        finally:
            if hasattr(answer, "close"):
                answer.close()
                answer.close()
            if os.getpid() != process:
                os._exit(0)
        print(path, started, written.getvalue(), text, hasattr(answer, "__len__"))


def taken():
    """Have somebody else take the interpreter's tracer between two requests."""
    app = soscope_mem.WSGI(application, OUT)
    said = []
    for _ in range(2):
        environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/calls"}
        answer = app(environ, lambda status, headers: said.append(status))
        answer.close()
        ctypes.pythonapi.PyRefTracer_SetTracer(None, None)
    print(*said)


def asgi():
    """The same of an asynchronous one."""
    sent = []

    async def application(scope, receive, send):
        if scope["type"] != "http":
            return scope["type"]
        if scope["path"] == "/fails":
            raise ValueError("mine")
        await send({"type": "http.response.start", "status": 204, "headers": []})
        for number in range(3):
            kept.append(Kept())  # awaited
            await asyncio.sleep(0)
            await send({"type": "http.response.body", "body": b"x", "more_body": number < 2})
        return None

    async def send(message):
        sent.append(message["type"])

    async def ask(path, kind="http"):
        try:
            return await app({"type": kind, "method": "PUT", "path": path}, None, send)
        except ValueError as error:
            return str(error)

    async def main():
        print(await ask("/streams"), await ask("/fails"))
        print(await ask("/", "lifespan"), await ask("/", "websocket"))
        await asyncio.gather(ask("/first"), ask("/second"))
        print(len(sent))

    app = soscope_mem.ASGI(application, OUT)
    asyncio.run(main())


class Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    daemon_threads = True


class Quiet(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *words):
        pass


def serve():
    """Serve it by threads until a line comes."""
    app = soscope_mem.WSGI(application, OUT)
    with wsgiref.simple_server.make_server("127.0.0.1", 0, app, Server, Quiet) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        print(server.server_port, flush=True)
        sys.stdin.readline()
        server.shutdown()
        thread.join()


globals()[WAY]()
