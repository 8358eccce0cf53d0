# SPDX-License-Identifier: Apache-2.0
"""Print the calls of a function whose declaration is partly a guess."""

from __future__ import annotations

from soscope.model.call import ENDED_RETURN, Captured, Exit
from soscope.model.image import ERROR_NONE
from soscope.prototypes import row
from soscope.prototypes.argument import REST, UNKNOWN_TYPE, Argument
from soscope.prototypes.printer import Printer, unknown_result, unknown_words
from soscope.prototypes.show import NamedTypes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.model.call import Fields
    from soscope.prototypes.byfields import Text, Texts

_LOWEST, _HIGHEST = 0x10000, 1 << 47  # range of a process's addresses
_WORD_SIZE = 8


class GuessedPrinter(Printer):
    """Prints such calls; `guessed` is one of row.GUESSED_…, which tells what is not known."""

    def __init__(self, of: row.FunctionRow, names: NamedTypes, guessed: str) -> None:
        super().__init__(of, names)
        self._guessed = guessed
        if guessed == row.GUESSED_RESULT or not self._may_be_returned():
            self.known_at_entry = 0  # known only when the call returns

    def arguments(self, captured: Captured, limit: int, after: Exit | None) -> list[Argument]:
        """Return the arguments, with a mark if they may be other ones."""
        if self._is_shifted(captured, after):
            return unknown_words(captured)
        shown = super().arguments(captured, limit, after)
        if shown and not self._is_proved(captured, after):
            if shown[-1].type == REST:  # shared by all calls
                shown[-1] = Argument(REST, REST, None)
            for argument in shown:
                argument.guess = True
            shown[-1].marked(f" {UNKNOWN_TYPE}")
        return shown

    def texts(self, captured: Captured, limit: int, after: Exit | None) -> list[str]:
        """Return only the `shown` of `arguments`, for lines of a trace."""
        return [argument.shown for argument in self.arguments(captured, limit, after)]

    def result(self, after: Exit, limit: int) -> Argument | None:
        """Return the result, whose type is not known."""
        del limit
        return unknown_result(after.result)

    def by_fields(self, fields: Fields, limit: int) -> Texts | None:
        """Return None, because an argument depends on more than its register."""
        del fields, limit
        return None

    def result_text(self) -> tuple[Text | None, int]:
        """Return None, because a guessed result is printed with a mark that arguments may lack."""
        return None, ERROR_NONE

    def _is_proved(self, captured: Captured, after: Exit | None) -> bool:
        """Return whether the arguments are certainly in the expected locations.

        If a result has a hidden pointer, it is the first word, and the function returns it
        (System V psABI 3.2.3).
        """
        if self._guessed == row.GUESSED_ALL or after is None or after.ended != ENDED_RETURN:
            return False
        passed = captured.words[0]
        return after.result is not None and (
            after.result != passed or not _LOWEST <= passed < _HIGHEST
        )

    def _is_shifted(self, captured: Captured, after: Exit | None) -> bool:
        """Return whether the first word seems to be a hidden pointer to the result.

        That is so if it is an address where a small number is expected. And if the function
        returns the first word, it is a hidden pointer, or a pointer to something that the
        function may change (`*this`, a stream), but hardly anything else.
        """
        passed = captured.words[0]
        if not self._arguments or not _LOWEST <= passed < _HIGHEST:
            return False
        first = self._arguments[0]
        if first.place == row.PLACE_INT and first.size < _WORD_SIZE:
            return bool(passed >> 32)  # -5 looks like an address, and may be returned, too
        return after is not None and after.result == passed and not self._may_be_returned()

    def _may_be_returned(self) -> bool:
        """Return whether the first argument points to something that the function may change."""
        first = self._arguments[0].type if self._arguments else ""
        return first.endswith("*") and not first.startswith("const ")
