# SPDX-License-Identifier: Apache-2.0
"""PEP 517 backend: scikit-build-core, with some decisions of our own.

- Is there an agent in the wheel? Not on other systems than Linux x86-64, nor with
  SOSCOPE_NO_AGENT=1: such a wheel is pure Python and reads recordings anywhere.
- Who compiles it? What the machine has (CC, cc, gcc, clang); where none of them works,
  zig's C compiler, which is a package on PyPI: a machine with Python alone can build.
- The declarations in prototypes/ are compiled to one file, which is all that is read at a
  start.
- An editable install is a `.pth` file and the agent built into the source tree: no
  import hook, because the start of soscope is measured in milliseconds.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from scikit_build_core import build as backend

Settings = dict[str, list[str] | str] | None

# One release, and not a range: compilers are no place for surprises.
ZIG = "ziglang==0.17.0"
ZIG_TARGET = "x86_64-linux-gnu"

# CMake wants a compiler that is one word. Without -O, zig adds sanitizers of which CMake's
# trial programs have no run time. Linking goes to the linker itself, because zig's driver
# refuses options that the linker knows (-init, -z initfirst).
ZIG_CC = """\
#!/bin/sh
case " $* " in
*" -shared "*) ;;
*) exec {zig} cc -target {target} -fno-sanitize=all "$@" ;;
esac
for word; do
	shift
	case $word in
	-Xlinker | -nostdlib | -[fmgODW]*) ;;
	*) set -- "$@" "$word" ;;
	esac
done
exec {zig} ld.lld "$@"
"""

# pyproject.toml puts it into the wheel.
PROTOTYPES = Path("build", "prototypes.bin")

# What a compiler must be able to do for us: no libc, but its headers about ELF.
PROBE = """
#include <link.h>
#include <stdint.h>
#include <stddef.h>
uint64_t probe(void *p) { return (uint64_t)(uintptr_t)p; }
"""


def wants_agent() -> bool:
    """Tell whether this build makes an agent."""
    if os.environ.get("SOSCOPE_NO_AGENT", "0") not in {"", "0"}:
        return False
    return sys.platform == "linux" and platform.machine() == "x86_64" and sys.maxsize > 2**32


def compiler() -> str | None:
    """Return the command of a C compiler of this machine that works, or None."""
    if chosen := os.environ.get("CC"):
        return chosen  # asked for: if it does not work, its own message is the best one
    for name in ("cc", "gcc", "clang"):
        if (path := shutil.which(name)) and _works(path):
            return path
    return None


def _works(path: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        words = [path, "-x", "c", "-shared", "-fPIC", "-nostdlib", "-ffreestanding"]
        words += ["-o", os.path.join(folder, "probe.so"), "-"]
        done = subprocess.run(words, input=PROBE.encode(), capture_output=True, check=False)
        return done.returncode == 0


def _settings(given: Settings) -> Settings:
    return {**(given or {}), **({} if wants_agent() else {"wheel.cmake": "false"})}


@contextlib.contextmanager
def _tools() -> Iterator[None]:
    """Let CMake find zig where the machine has no compiler."""
    if not wants_agent() or compiler():
        yield
        return
    spec = importlib.util.find_spec("ziglang")
    if spec is None or spec.origin is None:
        sys.exit(f"soscope: no C compiler and no {ZIG}; SOSCOPE_NO_AGENT=1 builds without")
    zig = Path(spec.origin).with_name("zig")
    with tempfile.TemporaryDirectory() as folder:
        wrapper = Path(folder, "zig-cc")
        wrapper.write_text(ZIG_CC.format(zig=shlex.quote(str(zig)), target=ZIG_TARGET))
        wrapper.chmod(0o755)
        os.environ["CC"] = str(wrapper)
        # Nothing is left in the user's cache folder, and nothing is needed there.
        for name in ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"):
            os.environ[name] = os.path.join(folder, "cache")
        try:
            yield
        finally:
            del os.environ["CC"]


def _compile_prototypes() -> None:
    PROTOTYPES.parent.mkdir(exist_ok=True)
    words = [sys.executable, "-m", "soscope.prototypes.build", "prototypes", str(PROTOTYPES)]
    env = {**os.environ, "PYTHONPATH": "src", "PYTHONDONTWRITEBYTECODE": "1"}
    if subprocess.run(words, env=env, check=False).returncode != 0:
        sys.exit("soscope: the declarations in prototypes/ do not compile")


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """Name what must be installed to build: CMake, Ninja and a compiler, if missing."""
    needs = backend.get_requires_for_build_wheel(_settings(config_settings))
    if wants_agent() and compiler() is None:
        needs.append(ZIG)
    return needs


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    """Name what must be installed for an editable build: the same."""
    return get_requires_for_build_wheel(config_settings)


def get_requires_for_build_sdist(config_settings: Settings = None) -> list[str]:
    """Name what must be installed to pack the sources: nothing of ours."""
    return backend.get_requires_for_build_sdist(config_settings)


def prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: Settings = None
) -> str:
    """Write the metadata of the wheel without building it."""
    return backend.prepare_metadata_for_build_wheel(metadata_directory, _settings(config_settings))


def prepare_metadata_for_build_editable(
    metadata_directory: str, config_settings: Settings = None
) -> str:
    """Write the metadata of the editable wheel, which are the wheel's."""
    return prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """Pack the sources."""
    return backend.build_sdist(sdist_directory, config_settings)


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build the wheel."""
    _compile_prototypes()
    with _tools():
        return backend.build_wheel(wheel_directory, _settings(config_settings), metadata_directory)


def build_editable(
    wheel_directory: str,
    config_settings: Settings = None,
    metadata_directory: str | None = None,  # noqa: ARG001  it holds what the wheel holds
) -> str:
    """Build the wheel, keep its agent here and its metadata, and point to the sources."""
    source = Path("src").resolve()
    paths = f"{source}\n{Path('integrations', 'python').resolve()}\n"
    with tempfile.TemporaryDirectory() as folder:
        name = build_wheel(folder, config_settings)
        with (
            zipfile.ZipFile(Path(folder, name)) as full,
            zipfile.ZipFile(Path(wheel_directory, name), "w") as editable,
        ):
            record = ""
            for member in full.namelist():
                if member.startswith("soscope/_agent/"):
                    full.extract(member, source)
                elif ".dist-info/" in member and not member.endswith("/RECORD"):
                    record += _add(editable, member, full.read(member))
                elif member.endswith("/RECORD"):
                    record_name = member
            record += _add(editable, "__editable__.soscope.pth", paths.encode())
            editable.writestr(record_name, f"{record}{record_name},,\n")
    return name


def _add(wheel: zipfile.ZipFile, member: str, content: bytes) -> str:
    """Write a member and return its line of RECORD (the binary distribution format's)."""
    wheel.writestr(member, content)
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{member},sha256={digest},{len(content)}\n"
