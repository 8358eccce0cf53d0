# SPDX-License-Identifier: Apache-2.0
"""A virtual machine with a kernel of Debian's for arm64, and a gdbserver on its serial line.

Its files are packages that are unpacked; a copy becomes the root in its memory, so the same folder
is the sysroot here. `orders` are a shell's; what they print is the console's.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.machines.foreign import unpacked
from tests.support.machines.tools import need
from tests.support.processes.run import kill
from tests.support.targets.matrix import REPOSITORY
from tests.support.time import patience
from tests.support.time.patience import until, with_note

_PACKAGES = (
    *("busybox-static", "gdbserver", "libc6", "libgcc-s1", "libstdc++6", "coreutils", "libacl1"),
    *("libattr1", "libgmp10", "libselinux1", "libpcre2-8-0"),
)
# what soscope needs to run there
PYTHON = (
    *("python3-minimal", "python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib"),
    *("libexpat1", "zlib1g", "libffi8", "libbz2-1.0", "liblzma5", "libssl3"),
    *("python3-numpy", "libblas3", "liblapack3", "libgfortran5"),
)
_LIBRARIES = "usr/lib/aarch64-linux-gnu"
_PACKAGED = "usr/local/lib/python3.11/dist-packages"
_PLAIN = "cortex-a57"
NEWEST = "max,pauth-impdef=on"  # with branch targets (BTI) and signed return addresses
_LINE = "/dev/ttyAMA0"
_INIT = f"""#!/bin/busybox sh
/bin/busybox mkdir -p /sbin /bin /proc /sys /dev /tmp
/bin/busybox --install -s /bin 2>/dev/null
export PATH=/bin:/usr/bin
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev
mkdir -p /dev/shm; mount -t tmpfs none /dev/shm
exec >/dev/ttyS0 2>&1 </dev/null
uname -a
stty -F {_LINE} raw -echo
serve() {{
	end=$1; shift
	rm -f /tmp/said; touch /tmp/said
	gdbserver --once "$@" 2>&1 | tee /tmp/said &
	until grep -q "$end" /tmp/said; do sleep 1; done
	sleep 3; killall gdbserver; sleep 1; echo served
}}
"""
_BOOT = 200.0  # seconds: everything is emulated


class Virtual:
    """One such machine. `root` is its file system here, `address` its gdbserver's for soscope."""

    def __init__(self, folder: Path, process: subprocess.Popen[str]) -> None:
        self.root = folder / "files"
        self.address = f"unix:{folder / 'line'}"
        self._console = folder / "console"
        self._process = process

    def console(self) -> str:
        """Return what its console has shown so far."""
        return self._console.read_text(errors="replace").replace("\r", "")

    def wait_for(self, text: str, times: int = 1, limit: float = _BOOT) -> str:
        """Wait until the console has shown a text so often; return all of it."""

        def shown() -> str:
            console = self.console()
            return console if console.count(text) >= times else ""

        with with_note(self.console):
            return until(shown, f"{text!r} on the console", running=self._process, seconds=limit)

    def wait_for_server(self, number: int) -> None:
        """Wait until the gdbserver of this number, from 1 on, listens to its line."""
        self.wait_for("Remote debugging using", number)


def system(folder: Path, *more: str) -> Path:
    """Put what the machine is made of below a folder, with `more` packages; return its root."""
    need("qemu-system-aarch64")
    need("cpio")
    packages = (*_PACKAGES, *more)
    (kept,) = unpacked("arm64", "bookworm", packages, behind="linux-image-arm64")
    root = folder / "files"
    shutil.copytree(kept, root, symlinks=True)
    return root


def with_soscope(root: Path) -> None:
    """Install this soscope below a root that has `PYTHON`, as pip does on such a machine."""
    for library in ("blas", "lapack"):  # a script of the package would name it
        for path in (root / _LIBRARIES / library).glob("*.so.3*"):
            shutil.copy2(path, root / _LIBRARIES, follow_symlinks=False)
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-cache-dir"]
    done = subprocess.run(
        [*words, "--target", str(root / _PACKAGED), str(REPOSITORY)],
        env={**os.environ, "SOSCOPE_NO_AGENT": "1"},
        capture_output=True,
        text=True,
        timeout=patience.limit(300),
        check=False,
    )
    assert done.returncode == 0, done.stderr


@contextlib.contextmanager
def booted(folder: Path, orders: str, processor: str = _PLAIN) -> Iterator[Virtual]:
    """Boot the machine of `system`, which carries orders out and goes off.

    In them `serve END {line} PROGRAM…` has a gdbserver on its serial line, until that says END: it
    never hears that whoever was there has hung up.
    """
    files = folder / "files"
    kernel = next((files / "boot").glob("vmlinuz-*"))
    shutil.copy(kernel, folder / "kernel")
    for name in ("boot", "lib/modules", "usr/share/doc", "usr/share/man", "usr/share/locale"):
        shutil.rmtree(files / name, ignore_errors=True)
    init = files / "init"
    init.write_text(_INIT + orders.replace("{line}", _LINE) + "\necho over; sync; poweroff -f\n")
    init.chmod(init.stat().st_mode | stat.S_IXUSR)
    listed = "\n".join(str(path.relative_to(files)) for path in sorted(files.rglob("*")))
    with (folder / "memory").open("wb") as file:
        words = ["cpio", "-o", "-H", "newc", "--quiet"]
        subprocess.run(
            words,
            cwd=files,
            input=listed.encode(),
            stdout=file,
            check=True,
            timeout=patience.limit(),
        )
    (folder / "console").touch()
    process = subprocess.Popen(
        [
            *("nice", "-n", "5"),
            *("qemu-system-aarch64", "-M", "virt", "-cpu", processor, "-m", "1024", "-smp", "2"),
            *("-display", "none", "-monitor", "none", "-no-reboot", "-nic", "none"),
            *("-kernel", str(folder / "kernel"), "-initrd", str(folder / "memory")),
            *("-append", "console=ttyS0 quiet rdinit=/init"),
            *("-serial", f"unix:{folder / 'line'},server=on,wait=off"),
            *("-chardev", f"file,id=console,path={folder / 'console'}"),
            *("-device", "pci-serial,chardev=console"),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        yield Virtual(folder, process)
    finally:
        kill(process)
