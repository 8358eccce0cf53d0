# SPDX-License-Identifier: Apache-2.0
"""Extensions of Python, built for each interpreter of this machine."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.machines.tools import need
from tests.support.processes.run import run
from tests.support.targets.build import made_in
from tests.support.targets.matrix import REPOSITORY
from tests.support.time.patience import limit

_QUESTION = "import sysconfig; print(sysconfig.get_path('include'))"


def extension(python: str, name: str, folder: Path, *flags: str) -> Path:
    """Build tests/targets/python/NAME.c for an interpreter; return the library, in `folder`."""
    headers = run([python, "-c", _QUESTION], timeout=limit(30)).stdout.strip()
    need(f"{headers}/Python.h")
    library = folder / f"{name}.so"
    source = REPOSITORY / "tests" / "targets" / "python" / f"{name}.c"
    words = ["gcc", "-O1", "-shared", "-fPIC", *flags, f"-I{headers}"]
    made_in(folder, *words, source, "-o", library)
    return library


# Calls all functions of `tabled`, which is in the folder that it is given, in several threads;
# prints what that has counted.
TABLED = """
import json, sys, threading
sys.path.insert(0, sys.argv[1])
import tabled
keys = {tabled.none: "none", tabled.fast: "fast", tabled.Made().defined: "defined", len: "len"}
def work(many):
    static, made = tabled.Static(), tabled.Made()
    for _ in range(many):
        tabled.none(); tabled.one(1); tabled.varargs(1, 2); tabled.keywords(1, a=2)
        tabled.fast(1, 2, 3); tabled.fast_keywords(1, b=2); tabled.again(tabled.none)
        static.none(); static.fast(); tabled.Static.of_class(); static.of_nobody(1)
        made.one(1); made.defined(1, c=2); list(map(tabled.one, (1, 2)))
        try:
            tabled.fails("x")
        except ValueError as error:
            assert str(error) == "'x'"
threads = [threading.Thread(target=work, args=(100,)) for _ in range(3)]
for each in threads: each.start()
for each in threads: each.join()
work(57)
tabled.alias()
tabled.__new__(1)
assert (keys[tabled.none], keys[tabled.fast], keys[len]) == ("none", "fast", "len")
assert tabled.none == tabled.none and tabled.none != tabled.fast
assert hash(tabled.alias) == hash(tabled.none) and tabled.alias == tabled.none
print(json.dumps(tabled.counts()))
sys.exit(3)
"""


def counted(output: str) -> dict[str, int]:
    """Return the calls that `tabled` has counted, by the names of its functions in Python."""
    own = {name: calls for name, calls in json.loads(output).items() if calls}
    del own["__new__"]  # the interpreter compares such a function's address
    for kind in ("Static_", "Made_"):
        own = {name.replace(kind, kind[:-1] + ".", 1): calls for name, calls in own.items()}
    return {f"tabled.{name}": calls for name, calls in own.items()}
