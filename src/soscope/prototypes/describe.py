# SPDX-License-Identifier: Apache-2.0
"""Turn a declaration into data for printing (catalog.py) and capturing (capture.py).

The psABI determines where each argument is. The fields of structures are shown in order.
"""

from __future__ import annotations

from soscope.binfmt.isa.x86 import passing
from soscope.errors import FormatError
from soscope.model import call
from soscope.model.call import (
    FLOATING,
    INTEGER,
    MEMORY,
    RECORD,
    SSE,
    UNKNOWN,
    WORD,
    X87,
    X87UP,
    PassedType,
    Piece,
    Signature,
)
from soscope.model.call import VOID as NOTHING
from soscope.model.record import Record
from soscope.prototypes import catalog
from soscope.prototypes.ctype import (
    ARRAY,
    COMPLEX,
    FLOAT,
    INT,
    LONG_DOUBLE,
    POINTER,
    STRUCT,
    VA_LIST,
    VECTOR,
    VOID,
    Decision,
    Function,
    Optional,
    Parameter,
    Struct,
    Type,
)
from soscope.prototypes.show import ConstantSets
from soscope.prototypes.typereader import how_shown, set_named, value_named
from soscope.wire import layout

# The printed fields of a structure in order, including the fields of nested structures.

# For these, other machines have other bits, or the same number in another order.
_UNLIKE = (catalog.SHOW_LONG_DOUBLE, catalog.SHOW_BITS, catalog.SHOW_COMPLEX)


class Leaf(Record):
    """One field: its name in C, its offset on x86-64, its format, and its conditions."""

    path: str
    at: int
    show: catalog.Show
    when: catalog.When


def leaves_of(name: str, structs: catalog.Structs) -> list[Leaf] | None:
    """Return the leaves of a structure, None if machines differ in more than the layout."""
    leaves: list[Leaf] = []
    return leaves if _add(leaves, name, structs, "", 0, ()) else None


def _add(
    leaves: list[Leaf],
    name: str,
    structs: catalog.Structs,
    path: str,
    at: int,
    when: catalog.When,
) -> bool:
    for number, (field, offset, show, own) in enumerate(structs.get(name, ())):
        if field == catalog.MORE:
            continue
        if show[0] in _UNLIKE:
            return False
        moved = tuple((at + place, size, how, values) for place, size, how, values in own)
        full = f"{path}.{field}".lstrip(".") if field else f"{path}[{number}]"
        if show[0] == catalog.SHOW_STRUCT:
            if show[3] not in structs:
                return False
            if not _add(leaves, show[3], structs, full, at + offset, when + moved):
                return False
        else:
            leaves.append(Leaf(full, at + offset, show, when + moved))
    return name in structs


def is_whole(name: str, structs: catalog.Structs) -> bool:
    """Return whether all fields of a structure, and of structures in it, are printed."""
    return all(
        field != catalog.MORE and (show[0] != catalog.SHOW_STRUCT or is_whole(show[3], structs))
        for field, _, show, _ in structs.get(name, ())
    )


# Locations of arguments and results, by the System V psABI for x86-64 (3.2.3).
#
# Integers and pointers are in six registers, float and double in eight, structures of up to 16
# bytes in two of either kind. long double, larger structures, and arguments for which no register
# is left are on the stack, in words of eight bytes above the return address.

_INT_REGISTERS = 6
_FLOAT_REGISTERS = 8
_EIGHT = 8
_MOST_ON_STACK = 255  # words that the agent can capture
_MOST_PIECES = 64
_VECTORS = (16, 32, 64)  # sizes of one register in bytes


class ArgumentPlaces(Record):
    """Assigns locations, argument by argument."""

    structs: dict[str, Struct]
    integers: int = 0
    floats: int = 0
    stack: int = 0

    def copy(self) -> ArgumentPlaces:
        """Return a copy of the state, for an alternative list of arguments."""
        other = ArgumentPlaces(self.structs)
        other.integers, other.floats, other.stack = self.integers, self.floats, self.stack
        return other

    def later(self, other: ArgumentPlaces) -> None:
        """Continue behind the arguments of both states."""
        self.integers = max(self.integers, other.integers)
        self.floats = max(self.floats, other.floats)
        self.stack = max(self.stack, other.stack)

    def argument(self, of: Type) -> tuple[int, int]:
        """Return the location of the next argument, and its index there. Raises FormatError."""
        whole = whole_vector(of, self.structs)
        if whole is not None:
            return self._vector(whole)
        if of.kind in (STRUCT, COMPLEX):
            return self._record(of)
        if of.kind == LONG_DOUBLE:
            return catalog.PLACE_STACK, self._on_stack(2, 2)
        if of.kind == FLOAT and self.floats < _FLOAT_REGISTERS:
            self.floats += 1
            return catalog.PLACE_FLOAT, self.floats - 1
        if of.kind != FLOAT and self.integers < _INT_REGISTERS:
            self.integers += 1
            return catalog.PLACE_INT, self.integers - 1
        return catalog.PLACE_STACK, self._on_stack(1, 1)

    def result(self, of: Type) -> tuple[int, int]:
        """Return the location of the result; one in memory uses the first integer register.

        Raises FormatError.
        """
        whole = whole_vector(of, self.structs)
        if whole is not None and whole.size in _VECTORS:
            return catalog.PLACE_VECTOR, 0
        if of.kind == FLOAT or whole is not None:
            return catalog.PLACE_FLOAT, 0
        if of.kind == LONG_DOUBLE:
            return catalog.PLACE_RESULT, catalog.SECOND_X87
        if of.kind not in (STRUCT, COMPLEX):
            return catalog.PLACE_INT, 0
        classes = classes_of(of, self.structs)
        if classes == (INTEGER,):
            return catalog.PLACE_INT, 0
        if MEMORY in classes:
            self.integers += 1
            return catalog.PLACE_MEMORY, 0
        if X87 in classes or call.COMPLEX_X87 in classes:
            return catalog.PLACE_RESULT, catalog.SECOND_X87
        integers = floats = 0
        codes = []
        for each in classes:
            if each == INTEGER:
                codes.append(integers)
                integers += 1
            else:
                codes.append(catalog.SECOND_FLOAT + floats)
                floats += 1
        return catalog.PLACE_RESULT, catalog.packed(codes)

    def _vector(self, of: Type) -> tuple[int, int]:
        if self.floats == _FLOAT_REGISTERS:
            words = of.size // _EIGHT
            return catalog.PLACE_STACK, self._on_stack(words, words)
        self.floats += 1
        place = catalog.PLACE_VECTOR if of.size in _VECTORS else catalog.PLACE_FLOAT
        return place, self.floats - 1

    def _record(self, of: Type) -> tuple[int, int]:
        classes = classes_of(of, self.structs)
        integers, floats = classes.count(INTEGER), classes.count(SSE)
        in_registers = (
            integers + floats == len(classes)
            and self.integers + integers <= _INT_REGISTERS
            and self.floats + floats <= _FLOAT_REGISTERS
        )
        if not in_registers:
            alignment = 2 if alignment_of(of, self.structs) > _EIGHT else 1
            return catalog.PLACE_STACK, self._on_stack(-(-of.size // _EIGHT), alignment)
        codes = []
        for each in classes:
            if each == INTEGER:
                codes.append(self.integers)
                self.integers += 1
            else:
                codes.append(catalog.SECOND_FLOAT + self.floats)
                self.floats += 1
        if classes == (INTEGER,):
            return catalog.PLACE_INT, codes[0]
        return catalog.PLACE_REGISTERS, catalog.packed(codes)

    def _on_stack(self, words: int, alignment: int) -> int:
        # 16-byte alignment counts from the first stack argument, which has it
        at = self.stack + -self.stack % alignment
        self.stack = at + words
        if self.stack > _MOST_ON_STACK:
            raise FormatError("more than 2 KiB of arguments")
        return at


def whole_vector(of: Type, structs: dict[str, Struct]) -> Type | None:
    """Return the vector type of a type, or of a structure with only a vector; None for others.

    Vectors larger than an SSE register are in AVX registers, which assumes that the compiler may
    use AVX. Raises FormatError for vectors of a size that no register has.
    """
    whole: Type | None = of
    while whole is not None and whole.kind == STRUCT:
        fields = structs[whole.struct].fields if whole.struct in structs else []
        whole = fields[0].type if len(fields) == 1 and fields[0].type.size == of.size else None
    if whole is None or whole.kind != VECTOR:
        return None
    if whole.size != _EIGHT and whole.size not in _VECTORS:
        raise FormatError(f"a vector of {whole.size} bytes by value")
    return whole


def classes_of(of: Type, structs: dict[str, Struct]) -> tuple[str, ...]:
    """Return the classes of the eightbytes of a structure or complex number.

    Raises FormatError if its fields are not known.
    """
    if of.kind == COMPLEX:
        return passing.scalar_classes(call.COMPLEX, of.size, of.text)
    if passing.is_in_memory(of.size):
        return (MEMORY,)
    pieces: list[Piece] = []
    _collect(of, 0, structs, pieces)
    classes = passing.record_classes(of.size, pieces)
    if not classes:
        raise FormatError(f"a '{of.text}' by value, which is empty")
    return classes


def alignment_of(of: Type, structs: dict[str, Struct]) -> int:
    """Return the alignment of a structure or complex number in bytes."""
    if of.kind == COMPLEX:
        return of.size // 2
    return structs[of.struct].alignment if of.struct in structs else 1


def _collect(of: Type, base: int, structs: dict[str, Struct], pieces: list[Piece]) -> None:
    if len(pieces) > _MOST_PIECES:
        return
    if of.kind == ARRAY and of.target is not None:
        for number in range(min(of.count, 16)):
            _collect(of.target, base + number * of.target.size, structs, pieces)
        return
    if of.kind == STRUCT:
        if of.struct not in structs:
            raise FormatError(f"'{of.text}' is not known")
        for field in structs[of.struct].fields:
            if field.bits is None:
                _collect(field.type, base + field.offset, structs, pieces)
            else:  # by its own width, in any unit
                first, width = field.bits
                start = base + field.offset + first // 8
                end = base + field.offset + (first + width + 7) // 8
                pieces.append((start, end - start, (INTEGER,), 1))
        return
    if of.kind == VOID:
        return
    kind = {
        VECTOR: call.VECTOR,
        FLOAT: call.FLOATING,
        LONG_DOUBLE: call.FLOATING,
        COMPLEX: call.COMPLEX,
    }
    name = "long double" if of.kind == LONG_DOUBLE else of.text
    classes = passing.scalar_classes(kind.get(of.kind, call.WORD), of.size, name)
    alignment = of.size // 2 if of.kind == COMPLEX else of.size
    pieces.append((base, of.size, classes, alignment))


# The locations above and the formats of `typereader.py` are combined to one row for each function.

_SMALL = 128  # bytes of a structure that is printed without an annotation
_MOST_FOLLOWED = layout.ARG_STACK_END - layout.ARG_STACK  # words of the stack that can be followed
_RULES = {
    ("<", "0", 4): layout.ERROR_INT_NEGATIVE,
    ("<", "0", 8): layout.ERROR_LONG_NEGATIVE,
    ("==", "NULL", 8): layout.ERROR_NULL,
    ("==", "-1", 8): layout.ERROR_MINUS_ONE,
    ("!=", "0", 4): layout.ERROR_INT_NONZERO,
    ("==", "0", 4): layout.ERROR_INT_ZERO,
    ("==", "-1", 4): layout.ERROR_INT_MINUS_ONE,
}
_COMPARISONS = (">", ">=", "!=", "==")
_ZEROS = ("0", "NULL")
# Structures whose contents depend on their own data; the printer knows them.
_SOCKET_ADDRESS = "sockaddr"

# Annotations about the data to which a pointer points.
_FOLLOWED = {"IN", "OUT", "BYTES", "LIMIT", "ELEMENTS", "STRING", "FOLLOW", "FOLLOW_UNLESS_0",
             "DESCRIPTORS"}  # fmt: skip
_DESCRIPTORS = 1024  # FD_SETSIZE
_FOLLOWED_RESULTS = (catalog.POINTS_TO_STRING, catalog.POINTS_TO_WIDE, catalog.POINTS_TO_STRUCT)
_MOST_ELEMENTS = 8  # elements captured if a parameter has their number
_GUESSES = (catalog.GUESSED_RESULT, catalog.GUESSED_ALL)


class DescribedArgument:
    """An argument, or a result, with everything that decides how it is captured.

    `length` has the tokens of BYTES, `most` has the tokens of LIMIT. `size` is the size of one
    element at the pointer's target. `writes` is the condition under which the call has written
    there, None if it never writes. If `is_in_out` is true, the old data there is printed, too. If
    `is_text_at` is true, the pointer leads to the address and length of a text. `counted_by` is the
    number of the argument that has the number of elements, None if there is none.
    """

    __slots__ = (
        "count",
        "counted_by",
        "follow",
        "follow_named",
        "format",
        "index",
        "is_in_out",
        "is_text_at",
        "leads",
        "length",
        "most",
        "name",
        "place",
        "show",
        "size",
        "target",
        "type",
        "unless_0",
        "unless_same",
        "writes",
    )

    def __init__(self, name: str, of: Type, place: int, index: int) -> None:
        self.name = name
        self.type = of
        self.place = place
        self.index = index
        self.show: catalog.Show = (catalog.SHOW_WORD, 8, False, "")
        self.leads = catalog.POINTS_NOWHERE
        self.target: catalog.Show | None = None
        self.count = 0
        self.counted_by: int | None = None
        self.size = 0
        self.writes: catalog.Writes = None
        self.is_in_out = False
        self.is_text_at = False
        self.follow = False
        self.follow_named = False
        self.unless_0: list[str] = []
        self.unless_same = False
        self.format = ""
        self.length: list[str] = []
        self.most: list[str] = []

    def kept(self) -> catalog.ArgumentRow:
        """Return the data for printing."""
        return (
            self.type.text,
            self.place,
            self.index,
            self.show,
            self.leads,
            self.target,
            0 if self.counted_by is None else ~self.counted_by,
            self.writes,
            self.is_in_out,
            self.name,
        )


class Description:
    """A function with locations, formats, and rules; `kept()` is the row for the compiled file."""

    def __init__(
        self,
        function: Function,
        sets: ConstantSets,
        structs: dict[str, Struct],
        *,
        shows_const: bool = False,
    ) -> None:
        """Describe a function; `shows_const`: print small structures at a pointer to const."""
        self.function = function
        self._shows_const = shows_const
        self._sets = sets
        self._structs = structs
        self._places = ArgumentPlaces(structs)
        self.result = self._result()
        self.arguments = [self._argument(declared) for declared in function.parameters]
        for argument, parameter in zip(self.arguments, function.parameters, strict=True):
            self._fill_out(argument, parameter)
            self._fill_elements(argument, parameter)
        # (conditions, arguments) behind the fixed ones, and (number, conditions, argument) for
        # arguments whose type depends on a condition
        self.optionals = self._optionals()
        self.others = [
            self._other(number, other)
            for number, parameter in enumerate(function.parameters)
            for other in parameter.others
        ]
        self.tail, self.words = self._tail()
        self.error_rule = self._error_rule()
        self.errno = self._errno()

    def kept(self) -> catalog.FunctionRow:
        """Return the row for the compiled file."""
        optionals = tuple(
            (conditions, tuple(argument.kept() for argument in arguments))
            for conditions, arguments in self.optionals
        )
        others = tuple(
            (number, conditions, argument.kept()) for number, conditions, argument in self.others
        )
        return (
            self.function.name,
            tuple(argument.kept() for argument in self.arguments),
            optionals,
            self.tail,
            self.result.kept() if self.result else None,
            self.error_rule,
            self.errno,
            others,
            self.function.source,
            self.function.where,
        )

    def number_of(self, name: str) -> int:
        """Return the number of the argument `name`. Raises FormatError."""
        for number, argument in enumerate(self.arguments):
            if argument.name == name:
                return number
        raise self._fail(f"'{name}' is no parameter")

    def _fail(self, what: str) -> FormatError:
        function = self.function
        return FormatError(f"{function.where}: {function.name}: {what}", field=function.name)

    # ---- arguments

    def _argument(self, parameter: Parameter) -> DescribedArgument:
        try:
            place, index = self._places.argument(parameter.type)
        except FormatError as error:
            raise self._fail(error.message) from None
        argument = DescribedArgument(parameter.name, parameter.type, place, index)
        words = {**parameter.type.words, **parameter.words}
        self._fill(argument, words, is_result=False)
        argument.count = parameter.count or argument.count
        if argument.count > 1:
            self._fill_several(argument)
        argument.unless_0 = words.get("FOLLOW_UNLESS_0", [])
        argument.unless_same = "FOLLOW_UNLESS_SAME" in words
        argument.follow = "FOLLOW" in words or bool(argument.unless_0) or argument.unless_same
        if argument.follow and not argument.leads:
            raise self._fail(f"FOLLOW of '{argument.name}', which leads nowhere")
        argument.format = words["FORMAT"][0] if "FORMAT" in words else ""
        argument.follow_named = "FOLLOW_NAMED" in words
        if argument.follow_named and not (
            argument.follow and argument.format == catalog.TAIL_PRINTF
        ):
            raise self._fail(f"FOLLOW_NAMED of '{argument.name}', which is no printf format")
        if argument.leads and argument.place == catalog.PLACE_STACK and index >= _MOST_FOLLOWED:
            if not _FOLLOWED.isdisjoint(words):
                raise self._fail(f"'{argument.name}' is too far up the stack to be followed")
            argument.leads = catalog.POINTS_NOWHERE
        return argument

    def _fill(
        self, argument: DescribedArgument, words: dict[str, list[str]], *, is_result: bool
    ) -> None:
        of = argument.type
        if of.kind != POINTER:
            argument.show = self._show(of, words)
            return
        argument.show = self._show(of, {} if "OUT" in words else words)
        argument.length = words.get("BYTES", [])
        argument.most = words.get("LIMIT", [])
        target = of.target
        if "POINTER" in words or target is None:
            return
        if "CXX_STRING" in words:
            argument.leads = catalog.POINTS_TO_BYTES
            argument.is_text_at = True
            return
        follow = "OUT" in words or "IN" in words or (not is_result and self._is_const(target))
        follow |= is_result and "FOLLOW" in words and target.kind == STRUCT
        is_bytes = target.is_char or ("STRING" in words and target.size == 1)
        is_text = target.kind == INT and (is_bytes or target.text == "wchar_t")
        is_text &= "ELEMENTS" not in words
        if argument.length and target.text != f"struct {_SOCKET_ADDRESS}":
            argument.leads = catalog.POINTS_TO_BYTES
        elif is_text and (is_result or target.is_const or "STRING" in words or follow):
            argument.leads = catalog.POINTS_TO_STRING if is_bytes else catalog.POINTS_TO_WIDE
        elif follow and "SIGNALS" in target.words:
            argument.leads = catalog.POINTS_TO_STRUCT
            argument.target = self._show(target, target.words)
            argument.size = argument.target[1]
        elif follow and "DESCRIPTORS" in words:
            argument.leads = catalog.POINTS_TO_DESCRIPTORS
            argument.size = _DESCRIPTORS // 8
        elif follow and target.kind == STRUCT:
            self._fill_struct(argument, target)
            if "FIELDS_BY" in words:
                self._fill_fields(argument, target, words["FIELDS_BY"][0])
        elif follow and "STRING" in words and target.kind == POINTER:
            argument.leads = catalog.POINTS_TO_STRING_AT
        elif follow and target.kind != VOID:
            argument.leads = catalog.POINTS_TO_VALUES
            argument.target = self._show(target, {**target.words, **words})
            argument.size = target.size
            argument.count = 1
        elif follow:
            raise self._fail(f"'{argument.name}' leads to something unknown")

    def _is_const(self, target: Type) -> bool:
        """Return whether a pointer's target is const and a structure small enough to print."""
        struct = self._structs.get(target.struct)
        return (
            self._shows_const and target.is_const and struct is not None and struct.size <= _SMALL
        )

    def _fill_struct(self, argument: DescribedArgument, target: Type) -> None:
        name = target.struct
        if name == _SOCKET_ADDRESS:
            argument.leads = catalog.POINTS_TO_SOCKET
            # struct sockaddr_un if the length is known, else struct sockaddr_in6
            argument.size = 110 if argument.length else 28
            return
        if name not in self._structs:
            raise self._fail(f"'{target.text}' is not in structs.h")
        struct = self._structs[name]
        argument.leads = catalog.POINTS_TO_STRUCT
        argument.target = (catalog.SHOW_STRUCT, struct.shown_size, False, name)
        argument.size = struct.shown_size

    def _fill_fields(self, argument: DescribedArgument, target: Type, format_: str) -> None:
        names = [parameter.name for parameter in self.function.parameters]
        if format_ not in names:
            raise self._fail(f"'{format_}' is no parameter")
        argument.leads = catalog.POINTS_TO_FIELDS
        detail = f"{target.struct}:{names.index(format_)}"
        argument.target = (catalog.SHOW_STRUCT, target.size, False, detail)

    def _show(self, of: Type, words: dict[str, list[str]]) -> catalog.Show:
        enum = words.get("ENUM", [])
        try:
            if enum[1:2] == [","]:
                # It only depends on earlier arguments, whose numbers are known.
                names = [parameter.name for parameter in self.function.parameters]
                if enum[2] not in names:
                    raise self._fail(f"'{enum[2]}' is no parameter")
                detail = f"{set_named(enum[0], self._sets.enums)}:{names.index(enum[2])}"
                return catalog.SHOW_BY, of.size, of.signed, detail
            return how_shown(of, words, self._sets, self._structs)
        except FormatError as error:
            raise self._fail(error.message) from None

    def _fill_out(self, argument: DescribedArgument, parameter: Parameter) -> None:
        """Set the condition under which the call has written the data at an argument."""
        if "OUT" not in parameter.words:
            return
        argument.writes = self._writes(parameter.name, parameter.words["OUT"])
        argument.is_in_out = "IN" in parameter.words
        if argument.is_in_out and "result" in argument.length:
            raise self._fail(f"IN of '{parameter.name}', whose length is the result")

    def _fill_elements(self, argument: DescribedArgument, parameter: Parameter) -> None:
        """Set the number of the argument that has the number of elements at `argument`."""
        if argument.leads == catalog.POINTS_TO_DESCRIPTORS:
            argument.counted_by = self._count(argument, parameter.words["DESCRIPTORS"])
        if "ELEMENTS" not in parameter.words:
            return
        argument.counted_by = self._count(argument, parameter.words["ELEMENTS"])
        self._fill_several(argument)
        if argument.leads != catalog.POINTS_TO_VALUES:
            raise self._fail(f"ELEMENTS of '{argument.name}', which leads to no numbers")
        argument.count = _MOST_ELEMENTS

    def _fill_several(self, argument: DescribedArgument) -> None:
        """Make a pointer to a structure a pointer to an array of structures."""
        of = argument.type.target
        if argument.leads == catalog.POINTS_TO_STRUCT and of is not None and of.kind == STRUCT:
            argument.leads = catalog.POINTS_TO_VALUES
            argument.target = (catalog.SHOW_STRUCT, of.size, False, of.struct)
            argument.size = of.size

    def _count(self, argument: DescribedArgument, words: list[str]) -> int:
        """Return the number of the argument that has the number of elements at `argument`."""
        if words == ["result"]:
            if self.function.result.kind != INT or argument.writes is None or argument.is_in_out:
                raise self._fail(f"ELEMENTS(result) of '{argument.name}', which is not only OUT")
            return ~catalog.BY_RESULT
        number = self.number_of(" ".join(words))
        if self.arguments[number].place != catalog.PLACE_INT:
            raise self._fail(f"the number of '{argument.name}' is not in an integer register")
        return number

    def _other(
        self, number: int, other: Optional
    ) -> tuple[int, catalog.Conditions, DescribedArgument]:
        """Return the type of argument `number` under a condition; it stays in the same register."""
        parameter, place = other.parameters[0], self.arguments[number]
        behind, self._places = self._places, self._places.copy()
        argument = self._argument(parameter)
        self._places = behind
        if place.place != catalog.PLACE_INT or parameter.type.kind not in (INT, POINTER):
            raise self._fail(f"AS of '{place.name}', which is not in an integer register")
        argument.place, argument.index = place.place, place.index
        self._fill(argument, {**parameter.type.words, **parameter.words}, is_result=False)
        argument.count = parameter.count or argument.count
        self._fill_out(argument, parameter)
        return number, self._conditions(other.conditions), argument

    # ---- the rest of a function

    def _writes(self, name: str, tokens: list[str]) -> catalog.Writes:
        """Return the conditions in OUT(...) under which a call has written the data at `name`."""
        terms = " ".join(tokens).split(",")
        if not tokens:
            raise self._fail(
                f"OUT of '{name}' does not say when it is written: OUT(success), "
                "OUT(result > 0), OUT(always)"
            )
        return tuple(self._term(name, term.split()) for term in terms if term.split() != ["always"])

    def _term(self, name: str, words: list[str]) -> tuple[int, str]:
        """Return one condition of row.Writes: `success`, or a number compared with 0."""
        if words == ["success"]:
            if "FAILS" not in self.function.words:
                raise self._fail(f"OUT(success) of '{name}', but the function has no FAILS")
            return catalog.WRITES_SUCCESS, ""
        operator = "".join(words[1:-1])
        if len(words) < 3 or (operator not in _COMPARISONS):
            raise self._fail(f"OUT({' '.join(words)}) of '{name}' is not understood")
        if words[-1] == "NAN" and words[0] == "result" and operator == "!=":
            return catalog.WRITES_RESULT, "number"
        if words[-1] not in _ZEROS:
            raise self._fail(f"OUT of '{name}' compares with '{words[-1]}', not with 0 or NULL")
        if words[0] == "result":
            if self.function.result.kind not in (INT, POINTER):
                raise self._fail(f"OUT of '{name}': the result is no integer")
            return catalog.WRITES_RESULT, operator
        number = self.number_of(words[0])
        if self.arguments[number].place != catalog.PLACE_INT:
            raise self._fail(f"OUT of '{name}': '{words[0]}' is not in an integer register")
        return number, operator

    def _optionals(self) -> list[tuple[catalog.Conditions, list[DescribedArgument]]]:
        # All alternatives begin in the same register.
        start, furthest = self._places, self._places.copy()
        alternatives = []
        for optional in self.function.optionals:
            self._places = start.copy()
            arguments = [self._argument(parameter) for parameter in optional.parameters]
            for argument, parameter in zip(arguments, optional.parameters, strict=True):
                self._fill_out(argument, parameter)
            alternatives.append((self._conditions(optional.conditions), arguments))
            furthest.later(self._places)
        self._places = furthest
        return alternatives

    def _conditions(self, conditions: list[Decision]) -> catalog.Conditions:
        rows = []
        for condition in conditions:
            number = self.number_of(condition.name)
            if self.arguments[number].place != catalog.PLACE_INT:
                raise self._fail(f"'{condition.name}' is not in an integer register")
            values = tuple(map(self._constant, condition.values))
            rows.append((number, condition.operator, values))
        return tuple(rows)

    def _constant(self, text: str) -> int:
        try:
            return value_named(text, self._sets)
        except FormatError as error:
            raise self._fail(error.message) from None

    def _tail(self) -> tuple[str, int]:
        function = self.function
        formats = [argument.format for argument in self.arguments if argument.format]
        if formats and formats[0] not in (catalog.TAIL_PRINTF, catalog.TAIL_SCANF):
            raise self._fail(f"FORMAT({formats[0]}) is not known")
        if not function.variadic:
            return (self._listed(formats[0]) if formats else catalog.TAIL_NONE), 0
        if formats:
            if any(argument.place != catalog.PLACE_INT for argument in self.arguments):
                raise self._fail("FORMAT behind arguments that are not in integer registers")
            return formats[0], 0
        if "WORDS" in function.words:
            count = int(function.words["WORDS"][0])
            named = sum(argument.place == catalog.PLACE_INT for argument in self.arguments)
            if named + count > _INT_REGISTERS:
                raise self._fail("more WORDS than registers")
            return f"{catalog.TAIL_WORDS}{count}", count
        return (catalog.TAIL_NONE if self.optionals else catalog.TAIL_OPEN), 0

    def _listed(self, language: str) -> str:
        """Return the tail of a function whose format is followed by a va_list."""
        last = self.arguments[-1]
        if VA_LIST not in last.type.words:
            raise self._fail("FORMAT of a function without '...' and without a va_list at its end")
        if not self.arguments[-2].format or last.place != catalog.PLACE_INT:
            raise self._fail("FORMAT is not right in front of the va_list, or too far behind")
        return catalog.TAIL_LISTED + language

    def _result(self) -> DescribedArgument | None:
        of = self.function.result
        if of.kind == VOID:
            return None
        try:
            place, index = self._places.result(of)
        except FormatError as error:
            raise self._fail(error.message) from None
        result = DescribedArgument("", of, place, index)
        words = {**of.words, **self.function.words}
        words.pop("IN", None)
        self._fill(result, words, is_result=True)
        result.follow = "FOLLOW" in words
        if result.follow and result.leads not in _FOLLOWED_RESULTS:
            raise self._fail("FOLLOW of a result that is neither string nor structure")
        return result

    def _error_rule(self) -> int:
        tokens = self.function.words.get("FAILS")
        if tokens is None:
            return layout.ERROR_NONE
        of = self.function.result
        key = (
            "".join(tokens[: 2 if tokens[1] == "=" else 1]),
            "".join(tokens[2 if tokens[1] == "=" else 1 :]),
        )
        rule = _RULES.get((*key, of.size))
        if rule is None or of.kind not in (INT, POINTER):
            raise self._fail(f"FAILS({' '.join(tokens)}) is not known for '{of.text}'")
        return rule

    def _errno(self) -> str:
        where = self.function.words.get("ERRNO", [catalog.ERRNO_OWN])[0]
        if where not in (
            catalog.ERRNO_OWN,
            catalog.ERRNO_CHANGED,
            catalog.ERRNO_RESULT,
            catalog.ERRNO_NONE,
        ):
            raise self._fail(f"ERRNO({where}) is not known")
        return where


# The types of a declared function, from its row for printing.


def signature_of(of: catalog.FunctionRow) -> Signature:
    """Return the types of one function."""
    _, arguments, optionals, tail, result, *_ = of
    is_listed = tail.startswith(catalog.TAIL_LISTED)
    is_words = tail.startswith(catalog.TAIL_WORDS)
    return Signature(
        tuple(map(_passed, arguments)),
        PassedType("void", NOTHING) if result is None else _passed(result),
        is_variadic=bool(optionals or (tail and not is_listed)),
        tails=tuple(tuple(map(_passed, optional[-1])) for optional in optionals),
        words=int(tail.removeprefix(catalog.TAIL_WORDS)) if is_words else 0,
    )


def _passed(argument: catalog.ArgumentRow) -> PassedType:
    text, place, _, (how, size, *_), *_ = argument
    if how == catalog.SHOW_FLOAT:
        return PassedType(text, FLOATING, size, (SSE,))
    if how == catalog.SHOW_LONG_DOUBLE:
        return PassedType(text, FLOATING, size, (X87, X87UP))
    if how == catalog.SHOW_STRUCT:
        # in one register, or unknown
        is_word = size <= 8 and place in (catalog.PLACE_INT, catalog.PLACE_STACK)
        return PassedType(text, RECORD if is_word else UNKNOWN, size, (INTEGER,) * is_word)
    if size not in (1, 2, 4, 8):
        return PassedType(text, UNKNOWN, size)
    return PassedType(text, WORD, size, (INTEGER,))


# Integers that have 64 bits even on 32-bit machines, by the names of their types.
#
# A compiled prototype has sizes of x86-64, on which `long` has 64 bits, too.

_WIDE = ("long long", "64", "loff_t", "quad", "intmax_t", "curl_off_t", "lzma_vli")


def is_wide(of: str) -> bool:
    """Return whether a type, or a pointer's target, is a 64-bit integer on every machine."""
    return any(word in of for word in _WIDE)
