# SPDX-License-Identifier: Apache-2.0
"""The words that an agent has changed, prepared to be restored page by page.

The plan is made while the process runs. Restoring then costs some ten nanoseconds a word.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from soscope.entry.memory import RemoteMemory
from soscope.wire import layout

_PAGE = layout.PAGE
_WORD = 8  # bytes
_ENTRY = 16  # bytes of an entry trampoline

Change = tuple[int, int, int, int]  # address, before, after, bytes


class Taken:
    """The result of undoing changes: words restored, and words that other code has changed.

    `left` are (address, value) of the latter. `returns` counts return addresses that were
    restored, and `kept` the words by which unwinders still ask the agent. `stays` tells why the
    memory of sessions was not freed, "" if it was.
    """

    __slots__ = ("kept", "left", "restored", "returns", "stays")

    def __init__(self) -> None:
        self.restored = 0
        self.left: list[tuple[int, int]] = []
        self.returns = 0
        self.kept = 0
        self.stays = ""


class Page:
    """Changes within one page, or one change across its end.

    Words that were changed once are restored together, and `indexes` count words from `start`.
    The other changes are in `odd`, newest first. They were changed more than once, have another
    size, or are not aligned.
    """

    __slots__ = ("after", "before", "end", "indexes", "odd", "start")

    def __init__(self, start: int) -> None:
        self.start = self.end = start
        self.indexes: list[int] = []
        self.after: list[int] = []
        self.before: list[int] = []
        self.odd: list[Change] = []

    def restore(self, memory: RemoteMemory, taken: Taken) -> None:
        """Restore each word that still has the agent's value.

        Raises OSError if memory cannot be written.
        """
        size = self.end - self.start
        content = memory.read(self.start, size)
        if len(content) < size:  # the image was unloaded
            return
        data = bytearray(content)
        whole = size // _WORD * _WORD
        with memoryview(data)[:whole] as part, part.cast("Q") as words:
            now = [words[at] for at in self.indexes]
            if now == self.after:
                for at, old in zip(self.indexes, self.before, strict=True):
                    words[at] = old
                taken.restored += len(self.indexes)
                odd: Iterable[Change] = self.odd
            elif now == self.before and not self.odd:
                return
            else:
                odd = [*self.odd, *self._single()]
        for addr, old, new, width in odd:
            at = addr - self.start
            old_bytes = old.to_bytes(_WORD, "little")[:width]
            word = data[at : at + width]
            if word == new.to_bytes(_WORD, "little")[:width]:
                data[at : at + width] = old_bytes
                taken.restored += 1
            elif word != old_bytes:
                taken.left.append((addr, int.from_bytes(word, "little")))
        if data != content:
            memory.write(self.start, bytes(data))

    def _single(self) -> Iterable[Change]:
        for at, old, new in zip(self.indexes, self.before, self.after, strict=True):
            yield self.start + at * _WORD, old, new, _WORD


class UndoPlan:
    """The pages to restore: `pages`, and `asked` with the words by which unwinders ask the agent.

    `kept` is what stays in the journal: the changes of patches that stay.
    """

    __slots__ = ("asked", "asked_count", "journal", "kept", "pages")

    def __init__(
        self, journal: bytes, base: int, cells: int, patches: frozenset[int] = frozenset()
    ) -> None:
        """Plan for an agent at `base` with `cells` cells of slots. `journal` is its journal.

        `patches` are the indices of the patches that stay.
        """
        self.journal = journal
        size = layout.CHANGE.size
        fields = array("Q", journal[: len(journal) // size * size])
        staying = _staying(fields, patches)
        self.kept = b"".join(fields[4 * at : 4 * at + 4].tobytes() for at in staying)
        addrs, afters, lasts = fields[0::4], fields[2::4], fields[3::4]
        first = base + layout.BLOB_ENTRIES
        others = first + cells * _ENTRY  # end of the slots' cells
        last = base + layout.BLOB_SITES
        asked = {
            at
            for at, after in enumerate(afters)
            if not lasts[at] >> 8 & layout.CHANGE_CODE
            and not first <= after < others
            and (others <= after < last or 0 <= after - base < layout.BLOB_TEXT_MAX)
        }
        order = sorted(set(range(len(addrs))).difference(staying), key=addrs.__getitem__)
        self.pages = _pages(fields, [at for at in order if at not in asked])
        self.asked = _pages(fields, [at for at in order if at in asked])
        self.asked_count = len(asked)

    def addresses_of_asked(self) -> list[int]:
        """Return the addresses of the words by which unwinders ask the agent."""
        return [
            addr
            for page in self.asked
            for addr in (
                *(page.start + at * _WORD for at in page.indexes),
                *(change[0] for change in page.odd),
            )
        ]


def count_staying(journal: bytes, patches: frozenset[int]) -> int:
    """Return how many changes of a journal stay as long as `patches` do."""
    size = layout.CHANGE.size
    return len(_staying(array("Q", journal[: len(journal) // size * size]), patches))


def _staying(fields: array[int], patches: frozenset[int]) -> list[int]:
    """Return the indices in the journal of the changes that stay, which belong to `patches`.

    As long as there are any, the loader's event must lead to the agent, so that images that are
    loaded later are patched, too.
    """
    if not patches:
        return []
    return [
        at
        for at, last in enumerate(fields[3::4])
        if last >> 8 & layout.CHANGE_LOADER
        or (last >> 8 & layout.CHANGE_STANDS and fields[4 * at] and last >> 16 & 0xFFFF in patches)
    ]


def _pages(fields: array[int], order: list[int]) -> list[Page]:
    """Return the pages of the changes at these indices of the journal, sorted by address."""
    pages: list[Page] = []
    limit = last = 0
    page = Page(0)
    for at in order:
        addr, before, after, size = fields[4 * at : 4 * at + 4]
        size &= 0xFF
        if not addr:  # the image was unloaded
            continue
        if addr + size > limit and addr != last:
            page = Page(addr & -_WORD)
            pages.append(page)
            limit = (addr & -_PAGE) + _PAGE
            last = -1
        page.end = max(page.end, addr + size)
        if addr == last and page.indexes and page.start + page.indexes[-1] * _WORD == addr:
            page.odd.append((addr, page.before.pop(), page.after.pop(), _WORD))
            page.indexes.pop()
        if addr == last or size != _WORD or addr % _WORD:
            page.odd.append((addr, before, after, size))
        else:
            page.indexes.append((addr - page.start) // _WORD)
            page.before.append(before)
            page.after.append(after)
        last = addr
    for page in pages:
        page.odd.reverse()  # newest first
    return pages
