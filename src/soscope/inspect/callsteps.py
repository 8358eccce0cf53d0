# SPDX-License-Identifier: Apache-2.0
"""What the life of a call consists of: its steps, who calls, what the resolver is given."""

from __future__ import annotations

from typing import NamedTuple

from soscope.binfmt.listing.base import Call, Line, Value
from soscope.inspect.resolvers import Resolver
from soscope.model.filemap import Slot

# The steps, in the order of a first call.
CALL_SITE = "call"
THUNK = "thunk"
STUB = "stub"
SLOT = "slot"
BEFORE = "before"
HELPER = "helper"
FIRST = "plt0"
RESOLVER = "resolver"
AFTER = "after"
SECOND = "second"
STEPS = (CALL_SITE, THUNK, STUB, SLOT, BEFORE, HELPER, FIRST, RESOLVER, AFTER, SECOND)


class Site(NamedTuple):
    """One instruction that calls: where, and in which function.

    `lines` is what stands around it, of the first one of a way alone.
    """

    call: Call
    section: str
    function: str
    lines: tuple[Line, ...]


class Given(NamedTuple):
    """What a resolver finds at `place`; `value` is the number or the cell's address."""

    place: str
    value: Value
    text: str
    meaning: str


class Step(NamedTuple):
    """One step: `title` is its name, `where` the section or function, `notes` are sentences."""

    step: str
    title: str
    where: str
    lines: tuple[Line, ...]
    notes: tuple[str, ...]


class Way(NamedTuple):
    """The way of calls through one slot.

    `sites` are all instructions that call, whatever is shown of them. `given` is what the resolver
    is given and `generations` those that this loader had, empty where nothing is lazy or known.
    `instructions` are how many a call takes to the function: the first up to the resolver, and
    every later one. `wrong` says what does not fit together in the file.
    """

    slot: Slot
    provider: str | None
    provider_reason: str | None
    sites: tuple[Site, ...]
    steps: tuple[Step, ...]
    given: tuple[Given, ...]
    generations: tuple[Resolver, ...]
    instructions: tuple[int, int]
    wrong: tuple[str, ...]

    def step(self, name: str) -> Step | None:
        """Return a step, None where this way has none of that name."""
        return next((one for one in self.steps if one.step == name), None)
