# SPDX-License-Identifier: Apache-2.0
"""The layout of a control block and its plan, and the first content of the plan."""

from __future__ import annotations

import os

from soscope.wire import countarrays, layout
from soscope.wire.plan import Plan
from soscope.wire.planfile import PlanFile


class LaidOut:
    """The layout of the files for a plan.

    `size` is the size of the control block in bytes. `target_size` is the size of the part that
    the target maps at first, without most of the count arrays. `plan_size` is the size of the
    plan's file in bytes.
    """

    __slots__ = (
        "_functions",
        "_given",
        "_main_name",
        "_main_path",
        "_own",
        "_plan",
        "_sections",
        "plan_size",
        "size",
        "target_size",
    )

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._sections = [0] * (2 * layout.SECTIONS)
        functions = bytearray()
        for instrument in plan.instruments:
            functions += instrument.functions
            functions += bytes(-len(functions) % 8)
        self._main_name = len(functions)
        functions += os.fsencode(os.path.basename(plan.main_path)) + b"\0"
        self._main_path = len(functions)
        functions += os.fsencode(plan.main_path) + b"\0"
        self._functions = bytes(functions)
        rules = sum(len(instrument.rules) for instrument in plan.instruments)
        self._own: list[tuple[int, int]] = []
        self._given: list[tuple[int, int]] = []
        self.size = self._place_in_block(rules // layout.RULE.size)
        self.plan_size = self._place_in_plan(rules)
        later = plan.count_arrays - plan.ready_arrays
        self.target_size = self.size - later * countarrays.size_of(plan)

    def _place_in_block(self, rules: int) -> int:
        plan = self._plan
        chunks = plan.chunks + plan.spare_chunks
        numbers = layout.MAX_CALL_SITES if chunks or countarrays.by_call_site(plan) else 0
        chains = 0
        if numbers and plan.flags & layout.FLAG_FOLLOW:
            chains = layout.CALL_SITE_HEADS + numbers
        sizes = {
            layout.SEC_IMAGES: layout.MAX_IMAGES * layout.IMAGE.size,
            layout.SEC_SLOTS: layout.MAX_SLOTS * layout.SLOT.size,
            layout.SEC_STRINGS: plan.strings_size,
            layout.SEC_CHUNK_STATES: chunks * 4,
            layout.SEC_RING: chunks * layout.CHUNK_SIZE,
            layout.SEC_PLACES: plan.slot_places * 4,
            layout.SEC_MOVES: layout.MAX_MOVES * layout.MOVE.size,
            layout.SEC_CALL_SITES: numbers * layout.CALL_SITE.size,
            layout.SEC_CALL_SITE_CHAINS: chains * 4,
            layout.SEC_MATCHES: rules * 4,
            layout.SEC_PATCHED: len(plan.patches),
            layout.SEC_GATES: 0 if plan.gate is None else layout.GATES * 4,
            layout.SEC_COUNTS: plan.count_arrays * countarrays.size_of(plan),  # must be the last
        }
        end = layout.PAGE
        for instrument in plan.instruments:
            self._own.append((end, instrument.own_size))
            end += instrument.own_size
            end += -end % layout.PAGE
        for section, size in sizes.items():
            alignment = layout.CHUNK_SIZE if section == layout.SEC_RING else layout.PAGE
            end += -end % alignment
            self._sections[2 * section : 2 * section + 2] = end, size
            end += size
        return end + -end % layout.PAGE

    def _place_in_plan(self, rules: int) -> int:
        plan = self._plan
        sizes = {
            layout.SEC_PATTERNS: len(plan.patterns),
            layout.SEC_RULES: rules,
            layout.SEC_PATCHES: len(plan.patches),
            layout.SEC_FUNCTIONS: len(self._functions) + plan.function_room,  # the end stays sparse
        }
        end = layout.PAGE
        for instrument in plan.instruments:
            self._given.append((end, len(instrument.own)))
            end += len(instrument.own) + -len(instrument.own) % 64
        for section, size in sizes.items():
            self._sections[2 * section : 2 * section + 2] = end, size
            end += size + -size % 8
        return end + -end % layout.PAGE

    def fill(self, file: PlanFile) -> None:
        """Write the content of the plan to its file."""
        plan, head = self._plan, layout.PLAN_HEAD
        rows = []
        first_rule = tables = 0
        for instrument, own, given in zip(plan.instruments, self._own, self._given, strict=True):
            count = len(instrument.rules) // layout.RULE.size
            words = (instrument.instrument, instrument.flags, first_rule, count, tables, 0)
            rows.append(layout.PLAN.struct.pack(*words, *own, *given))
            file.write(given[0], instrument.own)
            first_rule += count
            tables += len(instrument.functions)
            tables += -tables % 8
        for section, content in (
            (layout.SEC_PATTERNS, plan.patterns),
            (layout.SEC_RULES, b"".join(each.rules for each in plan.instruments)),
            (layout.SEC_FUNCTIONS, self._functions),
            (layout.SEC_PATCHES, plan.patches),
        ):
            file.write(self._sections[2 * section], content)
        for name, value in (
            ("head_size", head.size),
            ("plans", len(plan.instruments)),
            ("flags", plan.flags),
            ("string_limit", plan.string_limit),
            ("chunks", plan.chunks + plan.spare_chunks),
            ("spare_chunks", plan.spare_chunks),
            ("count_arrays", plan.count_arrays),
            ("main_name", self._main_name),
            ("main_path", self._main_path),
            ("functions_used", len(self._functions)),
            ("magic", layout.PLAN_MAGIC),
        ):
            file.set_field(name, value)
        sections = b"".join(word.to_bytes(8, "little") for word in self._sections)
        file.write(head.offset("section"), sections)
        file.write(head.offset("plan"), b"".join(rows))
