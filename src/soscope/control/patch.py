# SPDX-License-Identifier: Apache-2.0
"""Functions of one's own in a running process: put in place, and taken out again.

The agent keeps them without a living soscope. Their libraries are loaded, and closed, by the
process's own loader, called in the place of one thread while the others run.
"""

from __future__ import annotations

import os

from soscope.control import takeout
from soscope.control.attach import Attachment, insisted
from soscope.control.closing import close_unused, waiting
from soscope.control.events import SessionEvents
from soscope.control.shield import shielded
from soscope.control.signals import Signals
from soscope.entry import linkmap
from soscope.entry.agent.blob import Blob
from soscope.entry.agent.resident import Resident
from soscope.entry.agent.undo import Taken
from soscope.entry.agent.visit import Executed, Visit
from soscope.entry.guest.call import CallFault, call
from soscope.errors import AttachError, NoSuchProcess, SoscopeError, UsageError
from soscope.proc.reasons import Refused, in_full
from soscope.select.automaton import pack_patterns
from soscope.wire import layout, patches
from soscope.wire.block import ControlBlock
from soscope.wire.patches import Caller, Patch, PatchTable
from soscope.wire.plan import Plan

_NAMES = 1 << 20  # bytes for the names of images
_BUSY = 15.0  # seconds to wait for a loader that is at work
_LOADING = 20.0  # seconds for a library's constructors


class Replacement:
    """Calls of `symbol` are to reach `function` of the library at `library`, an absolute path.

    `text` is how somebody asked for it, "" where it was not asked for in words.
    """

    __slots__ = ("function", "library", "symbol", "text")

    def __init__(self, symbol: str, library: str, function: str, text: str = "") -> None:
        self.symbol = symbol
        self.library = library
        self.function = function
        self.text = text


class Patched:
    """What was done in process `pid`.

    `replaced` are (library, patch) that are in place now because of it. `restored` counts words
    that have their old value again, `left` are (address, value) of those that somebody else has
    changed. `closed` are libraries that were needed no more, `left_loaded` those of them that
    stay: path -> why. `longest_stop` is for how long a thread stood still at most, in ns.
    `waiting` counts images in which nothing was done; `note` says why, and what else is to be
    known.
    """

    __slots__ = (
        "closed",
        "left",
        "left_loaded",
        "longest_stop",
        "note",
        "pid",
        "replaced",
        "restored",
        "waiting",
    )

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.replaced: list[tuple[str, Patch]] = []
        self.restored = 0
        self.left: list[tuple[int, int]] = []
        self.closed: list[str] = []
        self.left_loaded: dict[str, str] = {}
        self.longest_stop = 0
        self.waiting = 0
        self.note = ""

    def close_unused(self, known: list[str]) -> None:
        """Close libraries that no patch needs any more; `known` are such ones' paths."""
        closing = close_unused(self.pid, known)
        self.closed += closing.closed
        self.left_loaded |= closing.left
        self.longest_stop = max(self.longest_stop, closing.longest_stop)


def why(table: PatchTable) -> str:
    """Say why a table's new functions could not be put in place."""
    failed = table.failed
    if table.why in (layout.PATCHES_NO_FUNCTION, layout.PATCHES_NO_SYMBOL):
        patch = table.patches[failed] if failed < len(table.patches) else None
        if patch is None:
            return "the agent's table is damaged"
        if table.why == layout.PATCHES_NO_SYMBOL:
            return f"symbol '{patch.symbol}' not found in any image"
        library = table.libraries[patch.library]
        path = os.path.normpath(library.path) if library else "?"
        return f"{path} defines no function '{patch.name}'"
    library = table.libraries[failed] if failed < len(table.libraries) else None
    path = os.path.normpath(library.path) if library is not None else "?"
    if table.why == layout.PATCHES_NO_LOADER:
        return f"cannot load {path}: the process has no dlopen"
    if table.why == layout.PATCHES_NOT_SEEN:
        return f"{path} was loaded, and is not in the loader's list"
    return f"cannot load {path}: {table.text or 'its loader does not say why'}"


# ---- putting in ----


def patch(pid: int, wanted: list[Replacement], callers: list[Caller]) -> Patched:
    """Put all of `wanted` in place in process `pid`, for calls by `callers` (none: all images).

    Raises NoSuchProcess, NotPermitted, AgentError, and AttachError with the reason; then the
    process is as it was.
    """
    signals = Signals()
    signals.block()
    try:
        return insisted(
            lambda: _Patching(pid, wanted, callers).run(), f"cannot patch process {pid}"
        )
    finally:
        signals.drop()
        signals.restore()


class _Patching:
    """One try."""

    def __init__(self, pid: int, wanted: list[Replacement], callers: list[Caller]) -> None:
        self.pid = pid
        self.wanted = wanted
        self.callers = callers
        self.before = PatchTable()
        self.table = PatchTable()
        self.unused: list[str] = []

    def run(self) -> Patched:
        for each in self.wanted:
            _check_seen(self.pid, each.library)
        attachment = Attachment(
            self.pid, self._make_block, look=self._look, between=self._load_libraries
        )
        result = Patched(self.pid)
        # `go_in` closes everything where it fails
        agent, hooks_loader, _, waiting, reason = attachment.go_in(SessionEvents())
        try:
            self._report(agent, result)
            if waiting:
                result.waiting = waiting
                result.note = f"{waiting} of its images are as they were: {in_full(reason)}"
            elif not hooks_loader:
                result.note = "images that it loads later are not seen: unknown loader"
            result.longest_stop = attachment.visit.threads.longest
            # no other soscope is to come before: what it puts in place is in no table that we know
            if self.unused:
                result.close_unused(self.unused)
            let_go(agent)
        finally:
            if attachment.program.block is not None:
                attachment.program.block.close()
            attachment.close()
        return result

    def _look(self, visit: Visit, old: Resident | None) -> None:
        """Add to what stands there already."""
        if old is not None and old.has_patches:
            self.before, self.table = old.patches(), old.patches()
        try:
            for each in self.wanted:
                path = _path_to_load(visit, each.library)
                self.table.add(each.symbol, each.function, path, self.callers)
            self.table.pack()
        except ValueError as error:
            raise UsageError(f"process {self.pid}: {error}") from error

    def _make_block(self, path: str, descriptors: tuple[int, ...] | None, _: int) -> ControlBlock:
        plan = Plan(
            instruments=[],
            patterns=pack_patterns([]),
            main_path=path,
            strings_size=_NAMES,
            patches=self.table.pack(),
        )
        return ControlBlock.create(plan, descriptors)

    def _load_libraries(self, visit: Visit, agent: Resident, blob: Blob) -> None:
        """Load them before anything leads there. Raises Refused with everything undone."""
        agent.look()
        try:
            trap = agent.base + blob.trap
            state, _ = call(visit, agent.base + blob.load, b"", trap, limit=_LOADING)
            reason = "" if state == layout.PATCHES_STAND else why(agent.patches())
        except Executed:
            raise
        except CallFault as fault:
            paths = " and ".join(dict.fromkeys(each.library for each in self.wanted))
            reason = f"loading {paths}: {fault.reason}"
        except Refused as refused:
            reason = refused.reason
        if not reason:
            return
        agent.write_patches(self.before)
        try:
            takeout.take_out_here(visit, agent)
        except Refused:  # the loader is still at work: what is left does nothing
            agent.disown()
        raise Refused(reason)

    def _report(self, agent: Resident, result: Patched) -> None:
        """Let the agent record nothing; say what is in place."""
        agent.hold()
        agent.stop()
        table = agent.patches()
        self.unused = waiting(agent)
        for each in {replacement.symbol: replacement for replacement in self.wanted}.values():
            index = table.index(each.symbol)
            now = table.patches[index] if index is not None else None
            if now is None or not now.function:
                raise NoSuchProcess(f"process {self.pid} has ended")
            result.replaced.append((each.library, now))


def _check_seen(pid: int, path: str) -> None:
    """Make sure that a process sees the file at `path` that we see. Raises Refused."""
    try:
        if os.path.samefile(f"/proc/{pid}/root{path}", path):
            return
    except OSError:
        pass  # it does not
    if os.path.exists(f"/proc/{pid}/root"):
        raise Refused(f"it does not see the file '{path}' (another mount namespace)")


def _path_to_load(visit: Visit, path: str) -> str:
    """Return a name of the file at `path` that a loader takes for no other file.

    glibc's looks for a library by its name first, and so finds the one that was at `path` before
    it was built anew. Where another file of that name is loaded, this one gets another name.
    """
    debug = linkmap.read_debug(visit.memory, visit.facts.r_debug)
    entries = linkmap.walk(visit.memory, debug.first if debug else 0)
    loaded = {entry.path(visit.memory): entry.dynamic for entry in entries}
    try:
        inode = os.stat(f"/proc/{visit.pid}/root{path}").st_ino
    except OSError as error:
        raise Refused(f"it does not see the file '{path}' any more") from error
    for spelled, addr in loaded.items():
        if os.path.normpath(spelled) == path and any(
            each.start <= addr < each.end and each.inode == inode for each in visit.mappings
        ):
            return spelled  # a second name would stay with the file, too
    folder, name = os.path.split(path)
    while os.path.join(folder, name) in loaded:
        name = os.path.join(os.curdir, name)
    return os.path.join(folder, name)


def let_go(agent: Resident) -> None:
    """Let others have an agent again that was held."""
    try:
        agent.let_go()
    except OSError:
        pass  # it has ended


# ---- taking out ----


def undo(pid: int, symbols: list[str]) -> Patched:
    """Give the slots of these symbols, of all where there are none, their old bytes.

    Raises NoSuchProcess, NotPermitted, UsageError for a symbol that is not replaced, and
    AttachError: a living soscope holds the process, or it cannot be visited.
    """
    result = Patched(pid)
    unused: list[str] = []
    try:
        visit = Visit(pid)
        try:
            is_patched = False
            kept: list[Resident] = []  # what somebody else has put in slots may lead there
            for agent in visit.agents:
                if owner := agent.owner:
                    raise Refused(f"it says that soscope {owner} traces it; stop that one")
                own(visit, agent)
                if agent.has_patches:
                    is_patched = True
                    undone = take_out(visit, agent, symbols)
                    if undone.taken.left:
                        kept.append(agent)
                    result.left += undone.left
                    result.restored += undone.restored
                    result.left_loaded |= undone.kept
                unused += waiting(agent)
            if symbols and not is_patched:
                raise UsageError(f"symbol '{symbols[0]}' is not replaced in process {pid}")
            if unused:
                result.close_unused(unused)
            for agent in visit.agents:
                if agent.is_held and agent not in kept:
                    let_go(agent)
                    takeout.give_rest_back(visit, agent)
        finally:
            for agent in visit.agents:
                let_go(agent)
            result.longest_stop = max(result.longest_stop, visit.threads.longest)
            visit.close()
    except Refused as refused:
        raise AttachError(f"cannot patch process {pid}: {in_full(refused.reason)}") from refused
    except OSError as error:
        if isinstance(error, SoscopeError):
            raise
        reason = error.strerror or str(error)
        raise AttachError(f"cannot patch process {pid}: {reason.lower()}") from error
    if unused:
        result.close_unused(unused)
    return result


def own(visit: Visit, agent: Resident) -> None:
    """Let no other soscope begin until `let_go`, where there may be patches to take out.

    Raises as `Visit.stop`, and Refused where another one has begun.
    """
    if not agent.has_patches and not waiting(agent):
        return
    soscope = os.getpid()

    def work() -> tuple[int]:
        life = agent.life
        visit.mind_filters()
        visit.tries = 0
        visit.stop(limit=_BUSY)
        try:
            agent.look()
            if agent.life != life or agent.owner:
                raise Refused("another soscope has begun to trace it meanwhile")
            agent.own(soscope)
        finally:
            visit.threads.resume()
        return (visit.threads.longest,)

    (visit.threads.longest,) = shielded(work)
    agent.hold()


class Undone:
    """What came of taking patches out.

    `taken` is of all words of the agent; `restored` counts slots, `left` are (address, value) of
    slots that somebody else has changed. `kept` are libraries that are never closed: path -> why.
    """

    __slots__ = ("kept", "left", "restored", "taken")

    def __init__(self, taken: Taken) -> None:
        self.taken = taken
        self.restored = 0
        self.left: list[tuple[int, int]] = []
        self.kept: dict[str, str] = {}


def take_out(visit: Visit, agent: Resident, symbols: list[str]) -> Undone:
    """Take patches out of a process that is visited, with what a dead soscope has left there.

    Their libraries stay loaded. Raises as `takeout.take_out`, and UsageError for a symbol that
    is not replaced.
    """
    table = agent.patches()
    try:
        chosen = patches.indices(table, symbols)
    except KeyError as error:
        raise UsageError(
            f"symbol '{error.args[0]}' is not replaced in process {visit.pid}",
            hint=f"replaced: {', '.join(each.symbol for each in table.standing())}",
        ) from error
    if not symbols:
        chosen = list(range(len(table.patches)))
    for index in chosen:
        agent.end_patch(index)  # images that come from now on are left alone
    agent.taken_patches = frozenset(chosen)
    slots = {index: agent.words_of([index]) for index in chosen}
    undone = Undone(takeout.take_out(visit, agent))
    for index in chosen:
        each = table.patches[index]
        # the loader may have bound a slot after all that it had begun to bind before
        right = each.original if each is not None else 0
        changed = [
            (addr, value)
            for addr, value in undone.taken.left
            if addr in slots[index] and value != right
        ]
        undone.left += changed
        undone.restored += len(slots[index]) - len(changed)
        if changed and each is not None:
            paths = map(os.path.normpath, table.keep(each.library))
            undone.kept |= dict.fromkeys(
                paths, "somebody else has taken over a slot that led there"
            )
        table.patches[index] = None
    agent.write_patches(table)
    return undone
