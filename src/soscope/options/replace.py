# SPDX-License-Identifier: Apache-2.0
"""The options about replacements, of `soscope patch` and `soscope run`."""

from __future__ import annotations

from soscope.instruments.patch.spec import parse_replacement
from soscope.verbs.options import LIST, Option

_GROUP = "what to replace"

REPLACE = Option(
    "--replace",
    dest="replace",
    kind=LIST,
    metavar="SYMBOL=LIB:FUNCTION",
    convert=parse_replacement,
    group=_GROUP,
    help="calls of SYMBOL reach FUNCTION of the library at LIB (repeatable)",
)
FROM = Option(
    "--from",
    dest="from_",
    kind=LIST,
    metavar="IMAGE",
    group=_GROUP,
    help="calls by this image alone: soname, file name, glob, /regex/, path or MAIN (repeatable)",
)
CHECK = Option(
    "--check",
    dest="check",
    group=_GROUP,
    help="refuse a FUNCTION whose types are not known to be those of SYMBOL",
)

ABOUT = """\
Every slot of SYMBOL leads to FUNCTION then, those of libraries that come later, too; not those of
LIB itself. FUNCTION takes what SYMBOL takes. LIB's own calls of SYMBOL reach the original; so does
a call through the pointer SYMBOL_original, if LIB exports one: it is set before the first call.
Where code takes SYMBOL's address, that slot stays as it is, and that is said.

The types of FUNCTION are read from LIB's debug information (cc -g), those of SYMBOL from soscope's
own declarations or from the debug information of the library that defines it. Where both are
known and cannot fit (the number of arguments, the size of one, int for double), nothing is
started or changed. Where they are not known FUNCTION is taken as it is, unless --check is given.
"""
