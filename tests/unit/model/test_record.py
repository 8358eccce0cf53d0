# SPDX-License-Identifier: Apache-2.0
"""Records: what `Record` makes of annotations, compared with dataclasses of the same fields."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from typing import Any, ClassVar

import pytest

from soscope.model.record import Record, fresh


class Span(Record):
    start: int
    size: int = 1
    kind: ClassVar[str] = "span"


@dataclasses.dataclass
class DataSpan:
    start: int
    size: int = 1
    kind: ClassVar[str] = "span"


class Seen(Span):
    names: list[str] = fresh(list)
    limit: int = 3


@dataclasses.dataclass
class DataSeen(DataSpan):
    names: list[str] = dataclasses.field(default_factory=list, init=False)
    limit: int = 3


class Keyed(Span, kw_only=True, eq=True):
    parts: dict[str, int] = fresh(dict)
    name: str = ""
    number: int


@dataclasses.dataclass(kw_only=True)
class DataKeyed(DataSpan):
    parts: dict[str, int] = dataclasses.field(default_factory=dict, init=False)
    name: str = ""
    number: int = dataclasses.field()


class Fixed(Record, frozen=True):
    number: int


class Written(Record):
    """Its `__init__` computes a field."""

    start: int
    end: int

    def __init__(self, start: int, size: int) -> None:
        self.start = start
        self.end = start + size


PAIRS: list[tuple[Any, Any]] = [(Span, DataSpan), (Seen, DataSeen), (Keyed, DataKeyed)]


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize(
    ("given", "named"),
    [
        ((4,), {}),
        ((4, 5), {}),
        ((4, 5, 6), {}),
        ((), {}),
        ((), {"start": 4}),
        ((4,), {"start": 4}),
        ((4,), {"size": 2, "limit": 1}),
        ((4,), {"number": 2}),
        ((4, 2), {"number": 2, "name": "x"}),
        ((4,), {"names": []}),
    ],
)
def test_arguments_are_those_of_a_dataclass(
    pair: tuple[Any, Any], given: tuple[int, ...], named: dict[str, Any]
) -> None:
    texts = []
    for kind in pair:
        try:
            text = repr(kind(*given, **named))
        except TypeError as error:
            text = str(error)
        texts.append(text.replace(kind.__name__, "Kind"))
    assert texts[0] == texts[1]


@pytest.mark.parametrize("pair", PAIRS)
def test_the_signature_is_that_of_a_dataclass(pair: tuple[Any, Any]) -> None:
    mine, theirs = (inspect.signature(kind).parameters.values() for kind in pair)
    assert [(p.name, p.kind, p.default) for p in mine] == [
        (p.name, p.kind, p.default) for p in theirs
    ]


def test_fresh_values_are_not_shared() -> None:
    first, second = Seen(1), Seen(1)
    first.names.append("a")
    assert (first.names, second.names) == (["a"], [])


def test_a_record_has_its_fields_alone() -> None:
    assert (Span.__slots__, Seen.__slots__) == (("start", "size"), ("names", "limit"))
    with pytest.raises(AttributeError):
        Span(1).kind = "other"  # type: ignore[misc]  # as mypy says
    assert not hasattr(Seen(1), "__dict__")


def test_a_written_init_stays() -> None:
    assert repr(Written(2, size=3)) == "Written(start=2, end=5)"


def test_equality_is_asked_for() -> None:
    assert Span(1) != Span(1)
    assert Keyed(1, number=2) == Keyed(1, number=2)
    assert Keyed(1, number=2) != Keyed(1, number=3)


def test_a_copy_has_other_fields() -> None:
    assert repr(Span(1, 2).but(size=3)) == "Span(start=1, size=3)"
    with pytest.raises(TypeError):
        Span(1).but(end=3)


@pytest.mark.parametrize("made", [Span(1, 2), Seen(4), Keyed(1, number=2)])
def test_records_are_copied_and_pickled(made: Record) -> None:
    assert repr(copy.deepcopy(made)) == repr(pickle.loads(pickle.dumps(made))) == repr(made)


def test_type_checkers_see_wrong_arguments() -> None:
    """Mypy reads this test: an ignored error that it does not find is an error."""
    with pytest.raises(TypeError):
        Span()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Seen(1, names=[])  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Keyed(1, "a", 2)  # type: ignore[call-arg,arg-type]
    Span("a")  # type: ignore[arg-type]
    Fixed(2).number = 3  # type: ignore[misc]


def test_records_import_nothing_that_is_slow() -> None:
    code = "import soscope.model.record, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}; {code}"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert "soscope.model.record" in loaded
    assert not {"typing", "re", "dataclasses", "inspect", "collections.abc"} & set(loaded)
