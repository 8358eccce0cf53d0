# SPDX-License-Identifier: Apache-2.0
"""Call sites: what a sweep fails, and how a rule of `soscope inject` names one."""

from __future__ import annotations

from typing import NamedTuple

from soscope.instruments.inject.spec import InjectRule, parse_rule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_SPECIAL = str.maketrans({letter: f"\\{letter}" for letter in "*?[\\"} | {":": "?", ",": "?"})


class SeenSite(NamedTuple):
    """A call site of one run: `offset` is the link-time address behind the call."""

    function: str
    image: str
    path: str
    offset: int


class Site(NamedTuple):
    """A call site. `image` is what a rule calls its image: its name, or a path."""

    function: str
    image: str
    offset: int

    @property
    def key(self) -> tuple[str, int, str]:
        """What sites are ordered by."""
        return self.image, self.offset, self.function

    @property
    def rule(self) -> str:
        """The argument of -e that fails its first call."""
        image = self.image.translate(_SPECIAL)
        return f"fault={self.function}:site={image}+{self.offset:#x}:when=1"

    def parsed(self) -> InjectRule:
        """Return the rule."""
        return parse_rule(self.rule)


def named(runs: Iterable[Iterable[SeenSite]]) -> list[set[Site]]:
    """Return the sites of each run; images of one name are told apart by their paths."""
    listed = [list(run) for run in runs]
    paths: dict[str, set[str]] = {}
    for run in listed:
        for seen in run:
            paths.setdefault(seen.image, set()).add(seen.path)
    return [
        {
            Site(seen.function, seen.path if _needs_path(seen, paths) else seen.image, seen.offset)
            for seen in run
        }
        for run in listed
    ]


def _needs_path(seen: SeenSite, paths: dict[str, set[str]]) -> bool:
    return seen.path.startswith("/") and (len(paths[seen.image]) > 1 or seen.image == "MAIN")
