# SPDX-License-Identifier: Apache-2.0
"""Call sites: the places that a sweep lets fail, and how a rule of `soscope inject` denotes one."""

from __future__ import annotations

from typing import NamedTuple

from soscope.instruments.inject.spec import InjectRule, parse_rule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_SPECIAL = str.maketrans({letter: f"\\{letter}" for letter in "*?[\\"} | {":": "?", ",": "?"})


class SeenSite(NamedTuple):
    """A call site of one run. `offset` is the link-time address behind the call."""

    function: str
    image: str
    path: str
    offset: int


class Site(NamedTuple):
    """A call site. `image` is the name or path by which a rule denotes its image."""

    function: str
    image: str
    offset: int

    @property
    def key(self) -> tuple[str, int, str]:
        """Return the key by which sites are sorted."""
        return self.image, self.offset, self.function

    @property
    def rule(self) -> str:
        """Return the argument of -e that makes the first call of this site fail."""
        image = self.image.translate(_SPECIAL)
        return f"fault={self.function}:site={image}+{self.offset:#x}:when=1"

    def parsed(self) -> InjectRule:
        """Return the rule that makes the first call of this site fail."""
        return parse_rule(self.rule)


def named(runs: Iterable[Iterable[SeenSite]]) -> list[set[Site]]:
    """Return the sites of each run. Images with the same name are denoted by their paths."""
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
