# SPDX-License-Identifier: Apache-2.0
"""An argument whose type another argument says is shown as that, as the program says it is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.machines.tools import need
from tests.support.processes.run import run
from tests.support.targets.accounts import SOSCOPE
from tests.support.targets.build import TARGETS, made_in

SOURCE = TARGETS / "own" / "own_choices.c"
CHOSEN = (
    "prctl,mallopt,semctl,ioctl,fcntl*,setsockopt,getsockopt,curl_easy_setopt,curl_easy_getinfo,"
    "sqlite3_config,sqlite3_db_config,EVP_CIPHER_CTX_ctrl"
)
HEADERS = ("x86_64-linux-gnu/curl/curl.h", "sqlite3.h", "openssl/evp.h")
# The program says nothing of them: what they are called with is not text, or may fail.
UNTOLD = re.compile(r"TCP_CONGESTION|EVP_CTRL_AEAD_GET_TAG|EVP_CTRL_INIT")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need(*(f"/usr/include/{name}" for name in HEADERS))
    folder = tmp_path_factory.mktemp("choices")
    command = f"gcc -O1 -w {SOURCE} -o own_choices -lcurl -lsqlite3 -lcrypto"
    made_in(folder, *command.split())
    return folder / "own_choices"


def test_lines_are_what_the_program_says(program: Path) -> None:
    out = program.parent / "trace"
    words: list[str | Path] = ["-e", CHOSEN, "--from", "MAIN", "-s", "64", "-o", out]
    done = run([*SOSCOPE, "trace", *words, program])
    assert done.returncode == 0, done.stderr
    calls = [line.partition("->")[2] for line in out.read_text().splitlines() if "->" in line]
    shown = [
        re.sub(r"\) += ", ") = ", line).replace("fcntl64", "fcntl")
        for line in calls
        if not UNTOLD.search(line)
    ]
    assert shown == done.stdout.splitlines()


def test_trace_and_report_have_the_same_objects(program: Path) -> None:
    recording, out = program.parent / "run.sosr", program.parent / "json"
    words: list[str | Path] = ["-e", CHOSEN, "--from", "MAIN", "--json", "--record", recording]
    done = run([*SOSCOPE, "trace", *words, "-o", out, program])
    assert done.returncode == 0, done.stderr
    report = run([*SOSCOPE, "report", "--json", recording])
    assert report.stdout == out.read_text()
    calls = [line for line in map(json.loads, report.stdout.splitlines()) if line["type"] == "call"]

    def arguments(symbol: str, text: str) -> list[dict[str, Any]]:
        for call in calls:
            if call["symbol"] == symbol and text in [one["text"] for one in call["args"]]:
                return list(call["args"])
        raise AssertionError(f"no {symbol} of {text}")

    name = arguments("curl_easy_setopt", "CURLOPT_URL")[2]
    wanted = ("value", "const char *", "http://localhost/x")
    assert (name["name"], name["type"], name["value"]) == wanted
    assert not {"guess", "out", "cut"} & name.keys()
    count = arguments("ioctl", "FIONREAD")[2]
    assert count["out"]["value"] == 4
    assert int(str(count["value"]), 16)
    size = arguments("getsockopt", "SO_LINGER")[4]
    assert (size["value"], size["out"]["value"]) == (100, 8)
