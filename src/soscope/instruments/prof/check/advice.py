# SPDX-License-Identifier: Apache-2.0
"""Advice about profiling a file, and the compiler options that it should be built with."""

from __future__ import annotations

from collections.abc import Iterator

from soscope.instruments.prof.check.hooks import CYG, FENTRY, MCOUNT, PATCHABLE
from soscope.instruments.prof.check.look import CALL_ROOM, Instrumentation

_BEST = "gcc -pg -mfentry"
_FOR_CLANG = "clang -finstrument-functions-after-inlining"
_EXCLUDE = "gcc's -finstrument-functions-exclude-file-list= and -exclude-function-list="


def advice_for(library: Instrumentation) -> list[str]:
    """Return a sentence for each piece of advice, the most important first."""
    return [
        *_built(library),
        *_unsure(library),
        *(
            f"{_counted(count, 'site')} of another kind of hook: {kind}"
            if kind != PATCHABLE
            else f"{_counted(count, 'function')} with room for a hook at the entry, too"
            for kind, count in sorted(library.others.items())
        ),
        *_odd(library),
    ]


def _built(library: Instrumentation) -> Iterator[str]:
    is_clang, is_gcc = "clang" in library.compilers, "gcc" in library.compilers
    if library.kind is None:
        if library.has_xray:
            yield (
                "it is built with -fxray-instrument, which soscope does not use: build with"
                f" {_FOR_CLANG}, or clang -pg -mfentry"
            )
        elif library.mapped.kind.startswith("static"):
            yield (
                "no hook is found in it: a static program has the functions that it was built with,"
                " and only its symbols tell them"
            )
        else:
            yield (
                f"not instrumented: build with {'clang' if is_clang else 'gcc'} -pg -mfentry for"
                " exact calls and times; as it is, its boundary can be recorded, and samples show"
                " what is inside"
            )
    elif library.kind == MCOUNT and not is_clang:
        yield (
            f"{_BEST} has the hook called first of all, without a frame pointer: less code, and"
            " every function can be timed"
        )
    elif library.kind == CYG:
        yield from _of_cyg(library, is_clang=is_clang, is_gcc=is_gcc)


def _of_cyg(library: Instrumentation, *, is_clang: bool, is_gcc: bool) -> Iterator[str]:
    if library.only_bare:
        yield "-finstrument-function-entry-bare shows no times: build with clang -pg -mfentry"
        return
    if library.inlined is None or library.inlined:
        how = "inlined functions call the hook, too"
        if library.inlined:
            how = f"{library.inlined:,} of {library.sites:,} sites are those of inlined functions"
        elif library.inlined_span is not None:
            least, most = library.inlined_span
            how = f"{least:,} to {most:,} of {library.sites:,} sites are those of inlined functions"
        better = _FOR_CLANG if is_clang else f"{_BEST}, or {_FOR_CLANG}"
        yield f"{how}: build with {better}, which leave them out"
        if not is_clang:
            yield f"{_EXCLUDE} leave out what is called most"
    if not is_clang:
        yield (
            "gcc may move the code of a small function behind its exit hook: its own time is the"
            " least that it can be"
        )
    if not is_gcc:
        yield "clang calls no exit hook where an exception leaves a function"


def _unsure(library: Instrumentation) -> Iterator[str]:
    if library.kind is None:
        return
    if library.sites is None:
        why = (
            "its code calls the hook by a register"
            if library.has_code
            else f"code for {library.mapped.arch} is not read"
        )
        yield f"{why}: how many sites there are is not known"
        return
    if library.loads:
        yield (
            f"code loads the address of the hook, at {_counted(library.loads, 'place')}: calls by a"
            " register are not among the sites"
        )
    if library.kind == CYG and library.inlined_span is None:
        yield "how many sites are those of inlined functions cannot be told from its code"


def _odd(library: Instrumentation) -> Iterator[str]:
    if library.realigned:
        yield (
            f"{_counted(library.realigned, 'function')} with an aligned stack, and a copy of the"
            " return address: calls are only counted, and not timed"
        )
    if library.resolvers:
        yield (
            f"the resolver of the IFUNC {library.resolvers[0]} calls the hook while the loader"
            " still relocates, and may crash: __attribute__((no_instrument_function)) keeps it from"
            " that"
        )
    if library.has_mcount_table:
        yield "-mrecord-mcount has the loader write into code: build without it"
    if library.has_xray and library.kind is not None:
        yield "its -fxray-instrument is not used"
    if library.kind == PATCHABLE:
        small = sum(library.nops.values()) - library.rooms
        if small:
            yield (
                f"no room for a call at {_counted(small, 'entry', 'entries')}: build with"
                f" -fpatchable-function-entry={CALL_ROOM}"
            )
    if library.kind in (MCOUNT, FENTRY, CYG) and not library.has_slot:
        how = "dynamically" if library.mapped.kind.startswith("static") else "without its own hook"
        yield f"link it {how}: the hook is then called through a slot"


def _counted(count: int, singular: str, plural: str = "") -> str:
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"
