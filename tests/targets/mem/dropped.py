# SPDX-License-Identifier: Apache-2.0
"""Keep blocks that code has made which is gone, and whose place others have: for each a line of JSON.

[size, [[name, file, line], ...]], the innermost first. What is noted meanwhile holds no text, so
that the names of files lie where earlier ones did, too.
"""

import json
import sys

TURNS = 400
kept = []
files = [0] * TURNS


def take(turn):
    kept.append(bytearray(9_999 + turn))
    files[turn] = int(sys._getframe(1).f_code.co_filename[4:-3])


def once(turn):
    exec(compile("take(turn)", f"file{turn % 40 + 10}.py", "exec"), {"take": take, "turn": turn})


for turn in range(TURNS):
    once(turn)
outer = [["once", __file__, once.__code__.co_firstlineno + 1]]
outer += [["<module>", __file__, once.__code__.co_firstlineno + 5]]
for turn, file in enumerate(files):
    inner = [["take", __file__, take.__code__.co_firstlineno + 1]]
    print(json.dumps([10_000 + turn, inner + [["<module>", f"file{file}.py", 1]] + outer]))
