# SPDX-License-Identifier: Apache-2.0
"""Functions of the C library without a declaration, whose results are not in integer registers.

Declarations cannot express a structure by value of more than 8 bytes, nor a complex number.
"""

from __future__ import annotations

_STRUCTURES = ("div", "ldiv", "lldiv", "imaxdiv", "mallinfo", "mallinfo2")
_COMPLEX = (
    "cacos cacosh casin casinh catan catanh ccos ccosh cexp clog clog10 conj cpow cproj csin csinh"
    " csqrt ctan ctanh"
)
_REAL = "cabs carg cimag creal"


def _of_each_size(names: str, kind: str) -> dict[str, str]:
    return {name + size: kind for name in names.split() for size in ("", "f", "l")}


RESULT_KINDS = (
    dict.fromkeys(_STRUCTURES, "struct")
    | _of_each_size(_COMPLEX, "complex number")
    | _of_each_size(_REAL, "float")
)
