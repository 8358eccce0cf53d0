# SPDX-License-Identifier: Apache-2.0
"""Asks a server by a client of several, traced; prints the groups and what the server says.

Clients are those of the distribution. What is asked is the same for all of a server, and known.
"""

import importlib
import io
import json
import sys

import soscope_mem

WAY, PLACE = sys.argv[1:3]
ROWS = 10


def traced(work):
    text = io.StringIO()
    with soscope_mem.trace(text):
        work()
    return json.loads(text.getvalue())


def told(seen, said):
    print(json.dumps([seen, said]))


def statements(base):
    """Make 21 statements."""
    asks = base.cursor()
    asks.execute("create table numbers (number int)")
    for number in range(ROWS):
        asks.execute("insert into numbers values (%s)", (number,))
    for _ in range(5):
        asks.execute("/* all */ select * from numbers")
        assert len(asks.fetchall()) == ROWS
    asks.execute("update numbers set number = number + 1")
    asks.execute("delete from numbers where number > 5")
    asks.execute("with few as (select 1) select * from few")
    asks.fetchall()
    asks.execute("drop table numbers")
    asks.execute("select 1")
    asks.fetchall()


def postgres(name):
    client = importlib.import_module(name)

    def work():
        base = client.connect(host=PLACE, user="bench", dbname="postgres")
        base.autocommit = True
        statements(base)
        base.close()

    told(traced(work), None)


def mysql(name):
    client = importlib.import_module(name)
    said = {}

    def status(asks):
        asks.execute("show session status where variable_name regexp '^(bytes|com)_'")
        rows = asks.fetchall()
        # the next one will find that this answer was sent
        size = sum(len(number) for _, number in rows)
        return {**{name: int(number) for name, number in rows}, "size": size}

    def work():
        words = {"unix_socket": PLACE, "user": "root"}
        base = client.connect(**words, database="mysql", autocommit=True)
        statements(base)
        base.ping()
        asks = base.cursor()
        # of the connection itself: a server adds a connection to all others' when it has ended
        first, last = status(asks), status(asks)
        base.close()
        answered = last["Bytes_sent"] - first["Bytes_sent"] - first["size"] + last["size"]
        said.update(last)
        said["Bytes_sent"] += answered
        said["Bytes_received"] += len(b"\x01\0\0\0\x01")  # the client's word that it goes

    seen = traced(work)
    told(seen, said)


def keys(client):
    """Store ten values of 100 bytes, ask for twelve, and for three together; delete one twice."""
    for number in range(ROWS):
        client.set(f"key{number}", b"x" * 100)
    for number in range(ROWS + 2):
        client.get(f"key{number}")


def memcached(name):
    from pymemcache.client.base import Client

    witness = Client("unix:" + PLACE, default_noreply=False)

    def stats():
        said = {name.decode(): number for name, number in witness.stats().items()}
        return {name: said[name] for name in ("cmd_get", "cmd_set", "get_hits", "delete_hits")}

    def work():
        if name == "pylibmc":
            import pylibmc

            client = pylibmc.Client([PLACE])
            keys(client)
            client.get_multi(["key1", "key2", "none"])
        else:
            client = Client("unix:" + PLACE, default_noreply=False)
            keys(client)
            client.get_many(["key1", "key2", "none"])
        client.delete("key1")
        client.delete("key1")

    before = stats()
    seen = traced(work)
    told(seen, {name: number - before[name] for name, number in stats().items()})


def redis(name):
    import redis

    witness = redis.Redis(unix_socket_path=PLACE)
    witness.ping()

    def work():
        client = redis.Redis(unix_socket_path=PLACE)
        keys(client)
        pipeline = client.pipeline(transaction=False)
        for _ in range(20):
            pipeline.get("key1")
        assert len(pipeline.execute()) == 20
        client.connection_pool.disconnect()

    before = witness.info("stats")
    seen = traced(work)
    after = witness.info("stats")
    names = ("total_net_input_bytes", "total_commands_processed")
    told(seen, {name: after[name] - before[name] for name in names})


way, _, name = WAY.partition(":")
globals()[way](name)
