# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL, every image, in full: a cluster is made, a server serves, a client measures."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.services import postgres
from tests.support.services.postgres import bench, initdb, served, sums
from tests.support.truth import recorded

TRACE = [sys.executable, "-m", "soscope", "trace", "-q", "--from", "all"]


@pytest.fixture
def place() -> Iterator[Path]:
    """Return a folder of the server's user."""
    with postgres.folder() as made:
        yield made


def whole(recording: Path) -> recorded.Recorded:
    found = recorded.by_columns(recording)
    assert not found.problems
    assert found.calls > 0
    return found


@pytest.mark.soak
def test_a_cluster_is_made_the_same(
    place: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    wanted = initdb(place)
    assert wanted.status == 0, wanted
    shutil.rmtree(place / "data")
    recording = tmp_path / "run.sosr"
    assert initdb(place, *TRACE, "-f", "--record", str(recording), "--") == wanted
    found = whole(recording)
    record_property("calls", found.calls)
    assert len({pid for pid, _ in found.by_process}) > 1
    with served(place):
        assert bench(place, "-i", "-q") == []


@pytest.mark.soak
def test_server_and_client_do_the_same(
    place: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    postgres.cluster(place)
    words = ["-n", "-c", "4", "-j", "2", "-t", "50", "--random-seed=1"]
    with served(place) as server:
        bench(place, "-i", "-q")
        wanted, wanted_sums = bench(place, *words), sums(place)
    assert server.returncode == 0
    one, two = tmp_path / "server.sosr", tmp_path / "client.sosr"
    with served(place, *TRACE, "-f", "--record", str(one), "--") as server:
        bench(place, "-i", "-q")
        assert bench(place, *words, trace=(*TRACE, "--record", str(two), "--")) == wanted
        assert sums(place) == wanted_sums
    assert server.returncode == 0, (place / "log").read_text()
    found = whole(one)
    record_property("calls", found.calls)
    assert len({pid for pid, _ in found.by_process}) > 4
    record_property("calls of the client", whole(two).calls)
