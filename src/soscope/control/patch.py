# SPDX-License-Identifier: Apache-2.0
"""Replace functions of a running process by the user's own, and undo that.

The agent keeps them in place without a living soscope. Their libraries are loaded and closed by
the process's own loader, called in a borrowed thread while the others run.
"""

from __future__ import annotations

import os

from soscope.control import takeout
from soscope.control.attach import Attachment, insisted
from soscope.control.program import SessionEvents
from soscope.control.shield import check_filters, shielded
from soscope.control.signals import Signals
from soscope.entry import loader
from soscope.entry.agent.install import Blob
from soscope.entry.agent.resident import Resident, Taken
from soscope.entry.agent.visit import Executed, Visit
from soscope.entry.guest.call import CallFault, call
from soscope.entry.guest.frames import who_stays
from soscope.errors import AttachError, NoSuchProcess, SoscopeError, UsageError
from soscope.model.record import Record, fresh
from soscope.proc import maps
from soscope.proc.status import Refused, in_full
from soscope.select.patterns import pack_patterns
from soscope.wire import layout, patches
from soscope.wire.block import ControlBlock
from soscope.wire.patches import Caller, Patch, PatchTable
from soscope.wire.plan import Plan

# Close libraries of a running process that no patch needs and no thread is inside.
#
# The process's own loader closes them, by a call in a borrowed thread. A library that cannot be
# closed stays in the agent's table, and the next soscope that takes patches out tries again.

_LOADING = 20.0  # seconds for a library's destructors to finish
_LEAVING = 1.0  # seconds that threads may take to leave a library

_CLOSED, _INSIDE, _LED, _IN_USE = "closed", "inside", "led to", "in use"


class Closing(Record):
    """What was done in process `pid`, with the libraries of patches that were closed in it.

    `closed` are the paths of libraries that were closed because no patch needs them, and
    `left_loaded` maps the path of each library that stays loaded to the reason. `longest_stop` is
    the longest time in ns that a thread was stopped.
    """

    pid: int
    closed: list[str] = fresh(list)
    left_loaded: dict[str, str] = fresh(dict)
    longest_stop: int = 0

    def close_unused(self, known: list[str]) -> None:
        """Close the libraries of the process that no patch needs.

        `known` are the paths of libraries that are known to wait for that. Nothing is raised:
        libraries that stay are in the result, with the reason.
        """
        try:
            visit = Visit(self.pid)
            try:
                check_filters(visit)
            except BaseException:
                visit.close()
                raise
        except NoSuchProcess:
            return  # the process has ended, and its libraries with it
        except Refused as refused:
            self.left_loaded |= dict.fromkeys(known, refused.reason)
            return
        except SoscopeError as error:
            self.left_loaded |= dict.fromkeys(known, error.message)
            return
        try:
            for agent in visit.agents:
                if (owner := agent.owner) not in (0, os.getpid()):
                    reason = f"soscope {owner} traces the process"
                    self.left_loaded |= dict.fromkeys(waiting(agent), reason)
                elif waiting(agent):
                    _close_of(visit, agent, self)
        except (SoscopeError, OSError):
            pass  # the process or thread has ended
        finally:
            self.longest_stop = max(self.longest_stop, visit.threads.longest)
            visit.close()


def waiting(agent: Resident) -> list[str]:
    """Return the paths of the libraries that an agent keeps open and no longer needs."""
    if not agent.is_known or not agent.fields["patches"]:
        return []
    table = agent.patches()
    libraries = [table.libraries[index] for index in table.unused()]
    return [os.path.normpath(library.path) for library in libraries if library is not None]


def _close_of(visit: Visit, agent: Resident, closing: Closing) -> None:
    blob = Blob.build()
    try:
        is_ours = agent.build_id == blob.build_id
        addresses = agent.base + blob.unload, agent.base + blob.trap
    finally:
        blob.close()
    table = agent.patches()
    for index in table.unused():
        library = table.libraries[index]
        assert library is not None
        handle, path = library.handle, os.path.normpath(library.path)
        if not is_ours:
            closing.left_loaded[path] = "another build of soscope has loaded it"
            continue
        is_shared = sum(each is not None and each.handle == handle for each in table.libraries) > 1

        def work(handle: int = handle, is_shared: bool = is_shared) -> tuple[str, int, int]:
            what, tid = _close(visit, handle, addresses, is_shared=is_shared)
            return what, tid, visit.threads.longest

        try:
            what, tid, visit.threads.longest = shielded(work)
        except Refused as refused:
            closing.left_loaded[path] = refused.reason
            continue
        except NoSuchProcess:
            raise
        except SoscopeError as error:
            closing.left_loaded[path] = error.message
            continue
        except OSError as error:
            closing.left_loaded[path] = error.strerror or str(error)
            continue
        if what == _INSIDE:
            closing.left_loaded[path] = f"thread {tid} is inside it"
            continue
        if what == _LED:
            closing.left_loaded[path] = "a slot still leads there"
            continue
        # dlclose is called once: if the process itself has it open, too, it must not lose it
        table.libraries[index] = None
        agent.write_patches(table)
        if what == _IN_USE:
            closing.left_loaded[path] = (
                "the process itself has it open, or its loader never closes it"
            )
        elif not is_shared:
            closing.closed.append(path)


def _close(
    visit: Visit, handle: int, addresses: tuple[int, int], *, is_shared: bool
) -> tuple[str, int]:
    """Close a library if no thread is inside it. Return the result, and the thread that is inside.

    With `is_shared` the library was opened more than once, so that this call only decrements its
    count.
    """
    span = _range_of(visit, handle)
    if span is None:
        return _CLOSED, 0
    if not is_shared and (tid := who_stays(visit, *span, _LEAVING)):
        return _INSIDE, tid
    if any(agent.is_known and agent.leads_into(*span) for agent in visit.agents):
        return _LED, 0
    unload, trap = addresses
    call(visit, unload, handle.to_bytes(8, "little"), trap, limit=_LOADING)
    return (_IN_USE if not is_shared and _range_of(visit, handle) else _CLOSED), 0


def _range_of(visit: Visit, handle: int) -> tuple[int, int] | None:
    """Return the half-open address range of a library, or None if it is not loaded any more.

    `handle` is the address of its `struct link_map`.
    """
    debug = loader.read_debug(visit.memory, visit.facts.r_debug)
    if debug is None:
        return None
    entries = loader.walk(visit.memory, debug.first)
    entry = next((entry for entry in entries if entry.addr == handle), None)
    if entry is None:
        return None
    mappings = maps.read(visit.tid)
    at = next(
        (
            index
            for index, mapping in enumerate(mappings)
            if mapping.start <= entry.dynamic < mapping.end
        ),
        None,
    )
    if at is None:
        return None
    first = last = at
    path = mappings[at].path
    while first and _continues(mappings[first - 1], mappings[first], path):
        first -= 1
    while last + 1 < len(mappings) and _continues(mappings[last], mappings[last + 1], path):
        last += 1
    return mappings[first].start, mappings[last].end


def _continues(lower: maps.Mapping, upper: maps.Mapping, path: str) -> bool:
    return lower.end == upper.start and lower.path == upper.path == path


_NAMES = 1 << 20  # bytes for the names of images
_BUSY = 15.0  # seconds to wait for a loader that is at work


class Replacement(Record):
    """A request: calls of `symbol` shall reach `function` of the file `library` (absolute path).

    `text` is the user's spelling of the request, or "" if it did not come as text.
    """

    symbol: str
    library: str
    function: str
    text: str = ""


class Patched(Closing):
    """The result of patching process `pid`.

    `replaced` are pairs (library, patch) that are in place now. `restored` counts words that have
    their old value again, `left` are pairs (address, value) of words that other code has changed.
    `waiting` counts images in which nothing was done, and `note` has the reason or another remark.
    """

    replaced: list[tuple[str, Patch]] = fresh(list)
    restored: int = 0
    left: list[tuple[int, int]] = fresh(list)
    waiting: int = 0
    note: str = ""


def why(table: PatchTable) -> str:
    """Return why a table's new functions could not be put in place."""
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


# ---- putting patches in ----


def patch(pid: int, wanted: list[Replacement], callers: list[Caller]) -> Patched:
    """Put all `wanted` replacements into process `pid`, for calls by `callers`.

    If `callers` is empty, calls of all images are redirected.

    Raises NoSuchProcess, NotPermitted, AgentError, and AttachError with the reason. The process
    is then unchanged.
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
    """One attempt to put replacements into a process."""

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
        # `go_in` closes everything if it fails
        agent, hooks_loader, _, waiting, reason = attachment.go_in(SessionEvents())
        try:
            self._report(agent, result)
            if waiting:
                result.waiting = waiting
                result.note = f"{waiting} of its images are as they were: {in_full(reason)}"
            elif not hooks_loader:
                result.note = "images that it loads later are not seen: unknown loader"
            result.longest_stop = attachment.visit.threads.longest
            # The agent is released last: patches that another soscope adds before would not be in
            # our table.
            if self.unused:
                result.close_unused(self.unused)
            let_go(agent)
        finally:
            if attachment.program.block is not None:
                attachment.program.block.close()
            attachment.close()
        return result

    def _look(self, visit: Visit, old: Resident | None) -> None:
        """Add the wanted replacements to the existing ones."""
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
        """Load the libraries before any slot leads there. Raises Refused with everything undone."""
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
        except Refused:  # the loader is still at work; what stays has no effect
            agent.disown()
        raise Refused(reason)

    def _report(self, agent: Resident, result: Patched) -> None:
        """Stop the agent's recording, and fill the result with what is in place."""
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
    """Check that the process sees the same file at `path` as soscope. Raises Refused."""
    try:
        if os.path.samefile(f"/proc/{pid}/root{path}", path):
            return
    except OSError:
        pass  # the process does not see it
    if os.path.exists(f"/proc/{pid}/root"):
        raise Refused(f"it does not see the file '{path}' (another mount namespace)")


def _path_to_load(visit: Visit, path: str) -> str:
    """Return a name for the file at `path` that the loader takes for no other file.

    glibc's loader first looks for a loaded library by its name, and so it would find a library
    that was at `path` before the file was rebuilt. If another file of that name is loaded, this
    one gets a name with `./` components.
    """
    debug = loader.read_debug(visit.memory, visit.facts.r_debug)
    entries = loader.walk(visit.memory, debug.first if debug else 0)
    loaded = {entry.path(visit.memory): entry.dynamic for entry in entries}
    try:
        inode = os.stat(f"/proc/{visit.pid}/root{path}").st_ino
    except OSError as error:
        raise Refused(f"it does not see the file '{path}' any more") from error
    for spelled, addr in loaded.items():
        if os.path.normpath(spelled) == path and any(
            each.start <= addr < each.end and each.inode == inode for each in visit.mappings
        ):
            return spelled  # another name would remain with the file
    folder, name = os.path.split(path)
    while os.path.join(folder, name) in loaded:
        name = os.path.join(os.curdir, name)
    return os.path.join(folder, name)


def let_go(agent: Resident) -> None:
    """Release an agent that was held, so that another soscope can use it."""
    try:
        agent.let_go()
    except OSError:
        pass  # the process or thread has ended


# ---- taking patches out ----


def undo(pid: int, symbols: list[str]) -> Patched:
    """Restore the slots of these symbols, or of all patched symbols if none are given.

    Raises NoSuchProcess, NotPermitted, UsageError for a symbol that is not replaced, and
    AttachError if a living soscope holds the process or if it cannot be visited.
    """
    result = Patched(pid)
    unused: list[str] = []
    try:
        visit = Visit(pid)
        try:
            is_patched = False
            kept: list[Resident] = []  # changed slots may still lead into it
            for agent in visit.agents:
                if owner := agent.owner:
                    raise Refused(f"its agent says that soscope {owner} traces it; stop that one")
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
    """Keep other soscopes from beginning until `let_go`, if there may be patches to take out.

    Raises what `Visit.stop` raises, and Refused if another soscope has begun.
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


class Undone(Record):
    """The result of taking patches out.

    `taken` concerns all words of the agent. `restored` counts slots, and `left` are pairs
    (address, value) of slots that other code has changed. `kept` maps the path of each library
    that is never closed to the reason.
    """

    taken: Taken
    restored: int = 0
    left: list[tuple[int, int]] = fresh(list)
    kept: dict[str, str] = fresh(dict)


def take_out(visit: Visit, agent: Resident, symbols: list[str]) -> Undone:
    """Take patches out of a visited process, with everything that a dead soscope left there.

    Their libraries stay loaded. Raises what `takeout.take_out` raises, and UsageError for a
    symbol that is not replaced.
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
        agent.end_patch(index)  # images loaded from now on are not patched
    agent.taken_patches = frozenset(chosen)
    slots = {index: agent.words_of([index]) for index in chosen}
    undone = Undone(takeout.take_out(visit, agent))
    for index in chosen:
        each = table.patches[index]
        # A lazy binding that was under way may have put the right address into a slot since.
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
            undone.kept |= dict.fromkeys(paths, "another tool has changed a slot that led there")
        table.patches[index] = None
    agent.write_patches(table)
    return undone
