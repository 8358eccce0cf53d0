# SPDX-License-Identifier: Apache-2.0
"""The options that choose slots or calls: by symbol, by the image that calls, by the called."""

from __future__ import annotations

from soscope.options.table import LIST, Option


def selection_options(
    group: str, *, select: str, callers: str, callees: str
) -> tuple[Option, Option, Option]:
    """Return -e, --from and -l; each takes the words of its help."""
    return (
        Option(
            "-e",
            "--select",
            dest="select",
            kind=LIST,
            metavar="EXPR",
            group=group,
            help=select,
        ),
        Option("--from", dest="callers", kind=LIST, metavar="IMAGE", group=group, help=callers),
        Option(
            "-l",
            "--to",
            dest="callees",
            kind=LIST,
            metavar="IMAGE",
            group=group,
            help=callees,
        ),
    )
