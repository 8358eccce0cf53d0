# SPDX-License-Identifier: Apache-2.0
"""A process that runs: its images, its symbols, its memory. `soscope.Process`.

    with soscope.Process(pid) as process:
        answer = process.resolve("_PyRuntime")
        if answer:
            data = process.read(answer.addr, 64)

Nothing is stopped, nothing runs in the process. Each query first makes sure that the picture
still holds: after dlopen and dlclose it is made anew, after an exec or the end NoSuchProcess is
raised, and an id that went to another process is never taken for the old one.
"""

from __future__ import annotations

import errno
import gc
import time
from collections.abc import Iterable

from soscope.errors import NoSuchProcess
from soscope.process.images.images import Images, find_images
from soscope.process.images.loadedimage import LoadedImage
from soscope.process.images.space import Space
from soscope.process.images.watch import Watch
from soscope.process.lookup.answer import Answer
from soscope.process.lookup.query import Query, parse
from soscope.process.lookup.resolver import Resolver
from soscope.process.rights import missing_right
from soscope.process.status import read_stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.process.slots.bindings import Binding

_TRIES = 5
_PATIENCE = 0.2  # seconds for an exec to end
_FEW = 8  # queries that are not worth a pass over all images


class Process:
    """The process `pid`, to be asked as often as one likes; also a context manager.

    Raises NoSuchProcess, and NotPermitted with the right that is missing.
    """

    __slots__ = ("_images", "_space", "_watch", "pid")

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._space, self._images = _opened(pid)
        self._watch = Watch(self._images)

    def __enter__(self) -> Process:  # noqa: PYI034  typing is slow to import
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close what is held open; may be called twice."""
        self._space.close()

    def __repr__(self) -> str:
        """Show which process it is."""
        return f"<Process {self.pid}>"

    # ---- the picture ----

    @property
    def space(self) -> Space:
        """Its address space."""
        return self._space

    @property
    def picture(self) -> Images:
        """Its images, as they are now. Raises NoSuchProcess."""
        self._refresh()
        return self._images

    @property
    def images(self) -> list[LoadedImage]:
        """Its images in link-map order, then those that no link map names."""
        return self.picture.all

    @property
    def threads(self) -> list[int]:
        """The ids of the threads that live."""
        self._space.check()
        return self._space.threads

    def _refresh(self) -> None:
        """Make the picture anew if it does not hold any more. Raises NoSuchProcess."""
        self._space.check()
        for _ in range(_TRIES):
            if self._watch.holds():
                return
            self._renew()

    def _renew(self) -> None:
        """Make the picture anew. Raises NoSuchProcess."""
        self._space.forget()
        self._images = find_images(self._space)
        self._watch = Watch(self._images)

    # ---- questions ----

    def resolve(
        self,
        name: str,
        *,
        version: str | None = None,
        image: str | None = None,
        thread: int | None = None,
        namespace: int | None = None,
    ) -> Answer:
        """Answer with the address of `name`: what dlsym would return in the process.

        `version` asks as dlvsym does, `image` (soname, file name or path) for a handle of that
        image, `thread` for that thread's variable, `namespace` in one that dlmopen made.
        Raises NoSuchProcess.
        """
        return self.answer(
            Query(name, name, version=version, image=image), thread=thread, namespace=namespace
        )

    def answer(
        self,
        query: Query | str,
        *,
        thread: int | None = None,
        namespace: int | None = None,
        lists: bool = False,
        seen_from: str | None = None,
    ) -> Answer:
        """Answer one query, as `soscope resolve` takes it; `lists` is its --all.

        Raises NoSuchProcess, and UsageError for what is no query.
        """
        if isinstance(query, str):
            query = parse(query)
        tid = self._space.tid if thread is None else thread
        self._space.forget()  # mappings come and go without the loader
        for turn in range(_TRIES):
            found = Resolver(
                self._images, tid, namespace=namespace, lists=lists, seen_from=seen_from
            ).answer(query)
            if self._watch.holds(thoroughly=not found and not turn):
                break
            self._renew()  # it has changed: the answer may be wrong
        self._space.check()
        return found

    def locate(self, addr: int) -> Answer:
        """Answer with the symbol that contains `addr`, and how far into it that is.

        Raises NoSuchProcess.
        """
        return self.answer(Query(hex(addr), addr=addr))

    def locate_all(self, addrs: Iterable[int]) -> list[Answer]:
        """Answer as `locate` does for many addresses, in order: one pass over each image.

        Raises NoSuchProcess.
        """
        return self._located([(hex(addr), addr) for addr in addrs])

    def _located(self, queries: list[tuple[str, int]]) -> list[Answer]:
        """Answer many (query, address) at once."""
        self._refresh()
        for _ in range(_TRIES):
            with _WithoutCollection():
                found = self._images.names.by_addrs(queries)
            if self._watch.holds():
                break
            self._refresh()  # it changed meanwhile
        self._space.check()
        return found

    def answers(
        self,
        queries: Iterable[Query | str],
        *,
        thread: int | None = None,
        namespace: int | None = None,
        lists: bool = False,
        seen_from: str | None = None,
    ) -> list[Answer]:
        """Answer many queries, in order, as `answer` does: one pass over each image.

        Raises NoSuchProcess, UsageError.
        """
        asked = list(queries)
        names = list(map(_plain, asked))
        located = self._located_of(
            [one for one, name in zip(asked, names, strict=True) if not name]
        )
        if located:
            rest = [one for one in asked if _text(one) not in located]
            found = iter(
                self.answers(
                    rest, thread=thread, namespace=namespace, lists=lists, seen_from=seen_from
                )
            )
            return [located[_text(one)] if _text(one) in located else next(found) for one in asked]
        quick: dict[str, Answer] = {}
        if seen_from is None and not lists and len(asked) > _FEW:
            self._refresh()
            tid = self._space.tid if thread is None else thread
            quick = self._named(set(names) - {""}, Resolver(self._images, tid, namespace=namespace))
        return [
            quick[name]
            if name in quick
            else self.answer(
                query, thread=thread, namespace=namespace, lists=lists, seen_from=seen_from
            )
            for query, name in zip(asked, names, strict=True)
        ]

    def _named(self, names: set[str], resolver: Resolver) -> dict[str, Answer]:
        """Answer many names at once; some may be left out, and all where the picture changed."""
        with _WithoutCollection():
            found = resolver.by_names(names)
            rest = names - found.keys()
            if len(rest) > _FEW:
                found |= resolver.by_other_names(rest)
        # what is nowhere may have come without the loader
        if not self._watch.holds(thoroughly=bool(rest)):
            found = {}
        self._space.check()
        return found

    def bindings(self, *, image: str | None = None, symbol: str | None = None) -> list[Binding]:
        """Return what the slots hold now, image by image in link-map order.

        Only those of the images called `image`, only those for `symbol`, where they are given.
        Raises NoSuchProcess, and NotPermitted where names alone may be looked up.
        """
        from soscope.process.slots.bindings import Bindings

        if self._space.is_patchwork:
            raise missing_right(self.pid, "the memory", errno.EACCES)

        for _ in range(_TRIES):
            images = self.picture
            wanted = None if image is None else {id(one) for one in images.named(image)}
            found = [
                one
                for owner, slots in Bindings(images).by_image.items()
                if wanted is None or id(owner) in wanted
                for one in slots
                if symbol is None or one.symbol == symbol
            ]
            if self._watch.holds():
                break
        self._space.check()
        return found

    def _located_of(self, queries: list[Query | str]) -> dict[str, Answer]:
        """Answer those of many queries that are addresses, by their text."""
        parsed = [
            parse(one) if isinstance(one, str) else one
            for one in queries
            if _text(one).lstrip()[:2].lower() == "0x"
        ]
        addrs = {one.text: one.addr for one in parsed if one.addr is not None}
        if len(addrs) <= _FEW:
            return {}
        return dict(zip(addrs, self._located(list(addrs.items())), strict=True))

    def read(self, addr: int, size: int) -> bytes:
        """Return up to `size` bytes at `addr`; fewer where a page is missing.

        Raises NoSuchProcess, and NotPermitted where names alone may be looked up.
        """
        self._space.check()
        if self._space.is_patchwork:  # what files hold is not what the process has made of it
            raise missing_right(self.pid, "the memory", errno.EACCES)
        return self._space.read(addr, size)


def _text(query: Query | str) -> str:
    return query if isinstance(query, str) else query.text


def _plain(query: Query | str) -> str:
    """Return the name that is asked for and nothing else, "" where there is more to it."""
    if isinstance(query, str):
        return query if query.isidentifier() else ""
    if query.name != query.text or query.image or query.version:
        return ""
    return query.text if query.text.isidentifier() else ""


class _WithoutCollection:
    """Thousands of objects are made, none of them garbage: nobody needs to look for it."""

    __slots__ = ("_was_enabled",)

    def __enter__(self) -> None:
        self._was_enabled = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_enabled:
            gc.enable()


def _opened(pid: int) -> tuple[Space, Images]:
    """Open a process and find its images; one that is just calling exec is waited for.

    Raises NoSuchProcess.
    """
    end = time.monotonic() + _PATIENCE
    while True:
        space = None
        try:
            space = Space(pid)
            return space, find_images(space)
        except NoSuchProcess:
            if space is not None:
                space.close()
            if time.monotonic() > end or read_stat(pid).state in "ZX":
                raise
            time.sleep(0.002)
        except BaseException:
            if space is not None:
                space.close()
            raise
