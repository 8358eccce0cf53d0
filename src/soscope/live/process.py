# SPDX-License-Identifier: Apache-2.0
"""A running process: its images, its symbols, its memory (`soscope.Process`).

    with soscope.Process(pid) as process:
        answer = process.resolve("_PyRuntime")
        if answer:
            data = process.read(answer.addr, 64)

The process is not stopped, and no code runs in it. Each query first checks whether the list of
images is still valid. After dlopen and dlclose it is read again. After an exec or the end of the
process, NoSuchProcess is raised. Another process that gets the same id is never mistaken for it.
"""

from __future__ import annotations

import errno
import gc
import time

from soscope.errors import NoSuchProcess
from soscope.live.images.image import LoadedImage
from soscope.live.images.images import Images, find_images
from soscope.live.images.space import Space
from soscope.live.images.watch import Watch
from soscope.live.lookup.answer import Answer, Batch, Query, parse
from soscope.live.lookup.answerer import Answerer
from soscope.proc.rights import missing_right
from soscope.proc.status import read_stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from soscope.live.lookup.names import PictureNames
    from soscope.live.slots.bindings import Binding

_TRIES = 5
_PATIENCE = 0.2  # seconds to wait for an exec to end
_FEW = 8  # queries for which a pass over all images does not pay off


class Process:
    """The process `pid`, for any number of queries; also a context manager.

    >>> with soscope.Process(pid) as process:
    ...     [image.name for image in process.images][:3]
    ['sleep', 'linux-vdso.so.1', 'libc.so.6']

    It is read through /proc/PID/mem (proc(5)). If that is forbidden, but its files can be read,
    names can still be looked up. `close` closes the files. With `is_gentle`, reading does not
    change the resident memory of the process, and takes longer.

    Raises NoSuchProcess, and NotPermitted with the right that is missing.

    >>> process.close()  # a second time: it does nothing
    >>> soscope.Process(1 << 30)
    Traceback (most recent call last):
    ...
    soscope.errors.NoSuchProcess: no process 1073741824
    """

    __slots__ = ("_images", "_known", "_space", "_watch", "pid")

    def __init__(self, pid: int, *, is_gentle: bool = False) -> None:
        self.pid = pid
        self._space, self._images = _opened(pid, is_gentle=is_gentle)
        self._watch = Watch(self._images)
        self._known: PictureNames | None = None

    def __enter__(self) -> Process:  # noqa: PYI034  typing is slow to import
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all open files; may be called twice. Queries then raise SoscopeError."""
        self._space.close()

    def __repr__(self) -> str:
        """Show the process id."""
        return f"<Process {self.pid}>"

    # ---- the images ----

    @property
    def space(self) -> Space:
        """Its address space: the memory that soscope reads, its mappings, its auxiliary vector.

        >>> with soscope.Process(pid) as process:
        ...     process.space.bits  # of an address
        64
        """
        return self._space

    @property
    def picture(self) -> Images:
        """Its current images, and the data of the loader's lists. Raises NoSuchProcess.

        >>> with soscope.Process(pid) as process:
        ...     process.picture.main.name
        'sleep'
        """
        self._refresh()
        return self._images

    @property
    def images(self) -> list[LoadedImage]:
        """Its images in link-map order, then images in no link map. Raises NoSuchProcess.

        The order is the order of `struct r_debug` (<link.h>), one namespace after the other.

        >>> with soscope.Process(pid) as process:
        ...     first = process.images[0]
        ...     (first.name, first.is_main, first.index, first.load_bias % 4096)
        ('sleep', True, 0, 0)
        """
        return self.picture.all

    @property
    def threads(self) -> list[int]:
        """The ids of the living threads. Raises NoSuchProcess.

        >>> with soscope.Process(pid) as process:
        ...     process.threads == [pid]
        True
        """
        self._space.check()
        return self._space.threads

    def _refresh(self) -> None:
        """Read the list of images again if it is no longer valid. Raises NoSuchProcess."""
        self._space.check()
        for _ in range(_TRIES):
            if self._watch.holds():
                return
            self._renew()

    def _renew(self) -> None:
        """Read the list of images again. Raises NoSuchProcess."""
        self._space.forget()
        self._images = find_images(self._space)
        self._watch = Watch(self._images)
        self._known = None

    def _names(self) -> PictureNames:
        """Return the look-up for names that are not dynamic symbols, and for addresses."""
        if self._known is None:
            from soscope.live.lookup.names import PictureNames  # if a loader finds nothing

            self._known = PictureNames(self._images)
        return self._known

    # ---- requests ----

    def resolve(
        self,
        name: str,
        *,
        version: str | None = None,
        image: str | None = None,
        thread: int | None = None,
        namespace: int | None = None,
    ) -> Answer:
        """Answer with the address of `name` that dlsym would return in the process.

        With `version`, it looks up as dlvsym does. With `image` (soname, file name or path),
        it is for a handle of that image. `thread` is the thread whose variable is meant,
        `namespace` the number of a namespace that dlmopen made (dlsym(3), dlmopen(3)). A name
        that is not found gets an answer, too. Raises NoSuchProcess.

        >>> with soscope.Process(pid) as process:
        ...     malloc = process.resolve("malloc", version="GLIBC_2.2.5")
        ...     none = process.resolve("nobody")
        >>> (malloc.status, malloc.image.name, none.status, none.addr)
        ('ok', 'libc.so.6', 'none', None)
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
        """Answer one query of `soscope resolve`; `lists` is its option --all.

        A query is NAME, NAME@VERSION, IMAGE!NAME or 0xADDR. `seen_from` names an image: the
        answer is what its slot holds. Raises NoSuchProcess, and UsageError for an invalid query.

        >>> with soscope.Process(pid) as process:
        ...     process.answer("libc.so.6!free").symbol
        ...     process.answer("free", seen_from="sleep").status in ("ok", "unbound")
        'free'
        True
        """
        if isinstance(query, str):
            query = parse(query)
        self._space.check_open()
        tid = self._space.tid if thread is None else thread
        self._space.forget()  # mappings also change without the loader
        for turn in range(_TRIES):
            answer = Answerer(
                self._images,
                tid,
                self._names,
                namespace=namespace,
                lists=lists,
                seen_from=seen_from,
            ).answer(query)
            if self._watch.holds(thoroughly=not answer and not turn):
                break
            self._renew()  # the images have changed: the answer may be wrong
        self._space.check()
        return answer

    def locate(self, addr: int) -> Answer:
        """Answer with the symbol that contains the run-time address, and the offset in the symbol.

        Raises NoSuchProcess.

        >>> with soscope.Process(pid) as process:
        ...     place = process.locate(process.resolve("malloc").addr + 3)
        >>> f"{place.symbol}+{place.offset:#x}"
        'malloc+0x3'
        """
        return self.answer(Query(hex(addr), addr=addr))

    def locate_all(self, addrs: Iterable[int]) -> list[Answer]:
        """Answer as `locate` does for many addresses in order, in one pass over each image.

        Raises NoSuchProcess.

        >>> with soscope.Process(pid) as process:
        ...     malloc = process.resolve("malloc").addr
        ...     [place.symbol for place in process.locate_all([malloc, malloc + 8, 0])]
        ['malloc', 'malloc', None]
        """
        return self._located([(hex(addr), addr) for addr in addrs])

    def _located(self, queries: list[tuple[str, int]]) -> list[Answer]:
        """Answer many pairs (query, address) at once."""
        self._refresh()
        for _ in range(_TRIES):
            with _WithoutCollection():
                answers = self._names().by_addrs(queries)
            if self._watch.holds():
                break
            self._refresh()  # the images changed meanwhile
        self._space.check()
        return answers

    def answers(
        self,
        queries: Iterable[Query | str],
        *,
        thread: int | None = None,
        namespace: int | None = None,
        lists: bool = False,
        seen_from: str | None = None,
    ) -> list[Answer]:
        """Answer many queries in order as `answer` does, in one pass over each image.

        Raises NoSuchProcess, UsageError.

        >>> with soscope.Process(pid) as process:
        ...     [each.status for each in process.answers(["malloc", "libc.so.6!free", "nobody"])]
        ['ok', 'ok', 'none']
        """
        batch = Batch(queries)
        quick: dict[str, Answer] = {}
        if len(batch.addrs) > _FEW:
            quick = dict(zip(batch.addrs, self._located(list(batch.addrs.items())), strict=True))
        rest = sum(key not in quick for key in batch.keys) if quick else len(batch.keys)
        if seen_from is None and not lists and rest > _FEW:
            self._refresh()
            tid = self._space.tid if thread is None else thread
            answerer = Answerer(self._images, tid, self._names, namespace=namespace)
            quick |= self._named(batch.names, answerer)
        return [
            quick[key]
            if key in quick
            else self.answer(
                query, thread=thread, namespace=namespace, lists=lists, seen_from=seen_from
            )
            for key, query in zip(batch.keys, batch.queries, strict=True)
        ]

    def _named(self, names: set[str], answerer: Answerer) -> dict[str, Answer]:
        """Answer many names at once; some may be missing, and all if the images have changed."""
        with _WithoutCollection():
            answers = answerer.by_names(names)
            rest = names - answers.keys()
            if len(rest) > _FEW:
                answers |= answerer.by_other_names(rest)
        # for names that were not found, mapped images without a loader may be new
        if not self._watch.holds(thoroughly=bool(rest)):
            answers = {}
        self._space.check()
        return answers

    def bindings(self, *, image: str | None = None, symbol: str | None = None) -> list[Binding]:
        """Return the current contents of slots, image by image in link-map order.

        If `image` or `symbol` is given, only slots of images with that name, or for that symbol,
        are returned. Raises NoSuchProcess, and NotPermitted if soscope may only look up names.

        >>> with soscope.Process(pid) as process:
        ...     start = process.bindings(image="sleep", symbol="__libc_start_main")
        >>> [(slot.state, slot.to_image.name) for slot in start]
        [('bound', 'libc.so.6')]
        """
        from soscope.live.slots.bindings import Bindings

        if self._space.is_patchwork:
            raise missing_right(self.pid, "the memory", errno.EACCES)

        for _ in range(_TRIES):
            images = self.picture
            wanted = None if image is None else {id(owner) for owner in images.named(image)}
            bindings = [
                binding
                for owner, slots in Bindings(images).by_image.items()
                if wanted is None or id(owner) in wanted
                for binding in slots
                if symbol is None or binding.symbol == symbol
            ]
            if self._watch.holds():
                break
        self._space.check()
        return bindings

    def read(self, addr: int, size: int) -> bytes:
        """Return up to `size` bytes at the run-time address; fewer if a page is missing.

        Raises NoSuchProcess, and NotPermitted if only names may be looked up.

        >>> with soscope.Process(pid) as process:
        ...     process.read(process.images[0].load_bias, 4)
        ...     process.read(0, 4)
        b'\\x7fELF'
        b''
        """
        self._space.check()
        if self._space.is_patchwork:  # files do not show what the process has written
            raise missing_right(self.pid, "the memory", errno.EACCES)
        return self._space.read(addr, size)


class _WithoutCollection:
    """Disables garbage collection while thousands of objects are made, none of them garbage."""

    __slots__ = ("_was_enabled",)

    def __enter__(self) -> None:
        self._was_enabled = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_enabled:
            gc.enable()


def _opened(pid: int, *, is_gentle: bool) -> tuple[Space, Images]:
    """Open a process and find its images; wait if it is just executing a program.

    Raises NoSuchProcess.
    """
    end = time.monotonic() + _PATIENCE
    while True:
        space = None
        try:
            space = Space(pid, is_gentle=is_gentle)
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
