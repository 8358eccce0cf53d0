# SPDX-License-Identifier: Apache-2.0
"""The options that choose slots or calls: by symbol, by calling image, by called image."""

from __future__ import annotations

from soscope.verbs.options import LIST, Option, Values


def selection_options(
    group: str, *, select: str, from_: str, to: str
) -> tuple[Option, Option, Option]:
    """Return -e, --from and -l, with the given help texts."""
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
        Option("--from", dest="from_", kind=LIST, metavar="IMAGE", group=group, help=from_),
        Option(
            "-l",
            "--to",
            dest="to",
            kind=LIST,
            metavar="IMAGE",
            group=group,
            help=to,
        ),
    )


def understand(values: Values) -> None:
    """Replace arguments of -e in strace's syntax by their meaning. Raises UsageError."""
    if any("=" in word or word.startswith("!") for word in values.select):
        from soscope.options import stracewords

        if stracewords.are_in(values.select):
            stracewords.translate(values)
