# SPDX-License-Identifier: Apache-2.0
"""soscope_mem.trace beside real clients: the calls and bytes are those that the servers say."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import soscope as package
from tests.integration.test_mem_inside import packages
from tests.support.machines.pythons import DISTRIBUTION
from tests.support.machines.tools import need
from tests.support.processes.run import run
from tests.support.services import postgres, servers
from tests.support.targets.survivors import TARGETS

CLIENTS = TARGETS / "clients.py"
TYPES = {"select": 6, "insert": 10, "update": 1, "delete": 1, "other": 3}
Server = Callable[[Path], contextlib.AbstractContextManager[Path]]


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    # a socket's path must be short, and a server that makes a database waits for the disk
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="srv-", dir=memory) as made:
        yield Path(made)


def asked(way: str, place: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """Return what a client's trace says, and its server."""
    need(f"/usr/lib/python3/dist-packages/{way.partition(':')[2]}")
    done = run([DISTRIBUTION, CLIENTS, way, place], env={"PYTHONPATH": packages()})
    assert (done.returncode, done.stderr) == (0, "")
    seen, said = json.loads(done.stdout)
    return seen, said


def asked_by_ruby(way: str, place: Path) -> dict[str, Any]:
    ruby = need("ruby")
    if run([ruby, "-r", way, "-e", ""]).returncode:
        need(f"ruby-{way}")  # which no command is called
    library = Path(str(package.__file__)).parent / "_agent" / "ruby"
    done = run([ruby, "-I", library, TARGETS / "clients.rb", way, place])
    assert (done.returncode, done.stderr) == (0, "")
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


def bytes_of(seen: dict[str, Any]) -> tuple[int, int]:
    """Return what all sends and receives of the process have moved."""
    sums = [0, 0]
    for at, names in enumerate((("send", "sendto", "sendmsg"), ("recv", "recvfrom", "recvmsg"))):
        sums[at] = sum(seen["fd"][name]["actual_bytes"] for name in names if name in seen["fd"])
    return sums[0], sums[1]


def test_postgres() -> None:
    with postgres.folder() as place:
        postgres.cluster(place)
        with (place / "data" / "postgresql.conf").open("a") as file:
            file.write("log_statement = all\n")
        with postgres.served(place):
            by_slots, _ = asked("postgres:psycopg2", place)
            log = (place / "log").read_text()
            by_address, _ = asked("postgres:psycopg", place)
            before = (place / "log").read_text()
            by_ruby = asked_by_ruby("pg", place)
            log_of_ruby = (place / "log").read_text()[len(before) :]
    truth = len(re.findall("LOG:  (statement|execute)", log))
    seen = by_slots["postgres"]
    assert seen["queries"] == seen["exec"]["calls"] == 21
    assert truth == 21
    assert seen["types"] == TYPES
    assert (seen["connect"]["calls"], seen["finish"]["calls"]) == (1, 1)
    types = {"insert": 10, "select": 5, "prepared": 4, "delete": 1, "other": 4}
    assert by_ruby["postgres"]["types"] == types
    assert by_ruby["postgres"]["queries"] == 24
    assert len(re.findall("LOG:  (statement|execute)", log_of_ruby)) == 24
    # what ctypes leads to is not seen, and that is said; its bytes are
    assert by_address["postgres"].keys() == {"wire"}
    assert list(by_address["unseen"]["postgres"]) == ["called by address"]
    assert seen["wire"]["round_trips"] == 21 + 1
    for each in (by_slots, by_address, by_ruby):
        wire = each["postgres"]["wire"]
        assert wire["connects"] == 1
        assert (wire["sent_bytes"], wire["received_bytes"]) == bytes_of(each)


def test_mysql() -> None:
    with folder() as made, servers.mariadb(made) as place:
        by_library, said = asked("mysql:MySQLdb", place)
        by_itself, said_then = asked("mysql:pymysql", place)
        by_ruby = asked_by_ruby("mysql2", place)["mysql"]
    types = {"prepared": 10, "select": 5, "delete": 1, "other": 2}
    assert (by_ruby["queries"], by_ruby["types"]) == (18, types)
    assert (by_ruby["execute"]["calls"], by_ruby["prepare"]["calls"]) == (10, 1)
    seen = by_library["mysql"]
    # two statements more ask the server what it has counted
    assert (seen["queries"], seen["types"]) == (23, TYPES | {"other": TYPES["other"] + 2})
    assert seen["query"]["calls"] == 23
    assert (seen["connect"]["calls"], seen["close"]["calls"], seen["ping"]["calls"]) == (1, 1, 1)
    assert by_itself["mysql"].keys() == {"wire"}
    for each, truth in ((by_library, said), (by_itself, said_then)):
        kinds = [truth[f"Com_{kind}"] for kind in ("select", "insert", "update", "delete")]
        assert kinds == [7, 10, 1, 1]  # the server takes the `with` for a `select`
        wire = each["mysql"]["wire"]
        assert wire["connects"] == 1
        assert wire["sent_bytes"] == truth["Bytes_received"]
        assert wire["received_bytes"] == truth["Bytes_sent"]


def test_memcached() -> None:
    with folder() as made, servers.memcached(made) as place:
        by_library, said = asked("memcached:pylibmc", place)
        by_itself, said_then = asked("memcached:pymemcache", place)
    assert said == said_then == {"cmd_get": 15, "cmd_set": 10, "get_hits": 12, "delete_hits": 1}
    seen = by_library["memcache"]
    assert (seen["get"]["calls"], seen["get"]["actual_bytes"]) == (12, 1000)
    assert seen["get"]["responses"] == {"success": 10, "notfound": 2}
    assert seen["delete"]["responses"] == {"success": 1, "notfound": 1}
    assert seen["mget"]["calls"] == 1
    assert "set" not in seen  # pylibmc has its address in a table, and that is said
    (functions,) = by_library["unseen"]["memcache"]["its address is taken"].values()
    assert "memcached_set" in functions
    assert by_itself["memcache"].keys() == {"wire"}
    wire = by_itself["memcache"]["wire"]
    assert (wire["connects"], wire["round_trips"]) == (1, 10 + 12 + 1 + 2)
    assert (wire["sent_bytes"], wire["received_bytes"]) == bytes_of(by_itself)


def test_redis() -> None:
    with folder() as made, servers.redis(made) as place:
        seen, said = asked("redis:redis", place)
    info = len(b"*2\r\n$4\r\nINFO\r\n$5\r\nstats\r\n")  # by which the server was asked
    wire = seen["redis"]["wire"]
    assert wire["sent_bytes"] == said["total_net_input_bytes"] - info
    assert said["total_commands_processed"] == 10 + 12 + 20 + 1
    assert (wire["connects"], wire["round_trips"]) == (1, 10 + 12 + 1)
    assert (wire["sent_bytes"], wire["received_bytes"]) == bytes_of(seen)
