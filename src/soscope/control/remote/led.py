# SPDX-License-Identifier: Apache-2.0
"""Choose how the memory behind a function's pointer arguments is converted."""

from __future__ import annotations

from soscope.control.breakpoints.layouts import AS_IT_IS, Planner, Relaying
from soscope.control.breakpoints.values import PassedArguments
from soscope.model.call import RESULT_ITEM
from soscope.prototypes import compiled

_Choice = tuple[compiled.Conditions, Relaying | None]


class Led:
    """The conversion plans of one function, by the numbers of its arguments in data items."""

    __slots__ = ("_choices", "_deciders")

    def __init__(
        self,
        declared: compiled.FunctionRow | None,
        planner: Planner | None,
        structs: compiled.Structs,
    ) -> None:
        self._choices: dict[int, list[_Choice]] = {}
        self._deciders: dict[int, tuple[int, int]] = {}  # index of the argument's word, and a mask
        if declared is None or planner is None:
            return
        fixed = declared[1]
        rows: list[tuple[int, compiled.Conditions, compiled.ArgumentRow]] = list(declared[7])
        for conditions, tail in declared[2]:
            rows += [(item, conditions, each) for item, each in enumerate(tail, len(fixed))]
        rows += [(item, (), each) for item, each in enumerate(fixed)]
        if declared[4] is not None:
            rows.append((RESULT_ITEM, (), declared[4]))
        for item, conditions, each in rows:
            choice = conditions, planner.plan(each, structs)
            self._choices.setdefault(item, []).append(choice)
        for number, argument in enumerate(fixed):
            if argument[1] == compiled.PLACE_INT:
                self._deciders[number] = argument[2], (1 << 8 * argument[3][1]) - 1

    def plan(self, item: int, taken: PassedArguments) -> Relaying | None:
        """Return the plan for the memory that an item points to, None if it stays an address."""
        for conditions, plan in self._choices.get(item, ()):
            if all(self._holds(each, taken) for each in conditions):
                return plan
        return AS_IT_IS

    def _holds(self, condition: tuple[int, str, tuple[int, ...]], taken: PassedArguments) -> bool:
        number, operator, values = condition
        index, mask = self._deciders.get(number, (len(taken.words), 0))
        if index >= len(taken.words):
            return False
        word = taken.words[index] & mask
        if operator == "&":
            return any(word & value for value in values)
        return word in [value & mask for value in values]


NOTHING_LED = Led(None, None, {})
