# SPDX-License-Identifier: Apache-2.0
"""The example of docs/explain.md: `python -m tests.support.files.lifedocs` writes it anew."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.files import lifefiles
from tests.support.processes.launching import environment
from tests.support.time.patience import limit

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE, PICTURE = DOCS / "explain.md", DOCS / "explain.svg"
_WIDTH = "132"
# as it is where Capstone is not installed: the same everywhere
_WITHOUT = (
    "import sys; sys.modules['capstone'] = None;"
    "from soscope.verbs.main import main; sys.exit(main(sys.argv[1:]))"
)


def explained(folder: Path, *words: str) -> str:
    """Return what the verb prints of the two files, written to `folder`."""
    (folder / "ruby").write_bytes(lifefiles.elf())
    (folder / "ruby.macho").write_bytes(lifefiles.macho())
    command = ["explain", "ruby", "malloc", "ruby.macho", "--width", _WIDTH, *words]
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT, *command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=limit(),
        env=environment(),
    )
    return done.stdout


def picture(folder: Path) -> str:
    """Return the picture of the two files."""
    explained(folder, "--svg", "explain.svg")
    return (folder / "explain.svg").read_text()


def block(page: str) -> str:
    """Return the text block of the page."""
    found = re.search(r"```text\n(.*?)```", page, re.DOTALL)
    assert found is not None
    return found[1]


def write() -> None:
    """Write text and picture into the documentation."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = explained(folder)
        page = PAGE.read_text()
        PAGE.write_text(page.replace(f"```text\n{block(page)}", f"```text\n{text}"))
        PICTURE.write_text(picture(folder))


if __name__ == "__main__":
    write()
