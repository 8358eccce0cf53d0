# SPDX-License-Identifier: Apache-2.0
"""Wheels: with an agent and without, and what a build asks for."""

from __future__ import annotations

import json
import os
import shutil
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.support.machines.pythons import few_pythons
from tests.support.machines.tools import need
from tests.support.processes.run import run, soscope
from tests.support.targets.build import unoptimised
from tests.support.targets.kept import kept
from tests.support.targets.matrix import tools
from tests.support.time.patience import limit

REPOSITORY = Path(__file__).parents[1]
PARTS = (
    "LICENSE",
    "README.md",
    "native",
    "build_backend",
    "integrations",
    "prototypes",
    "pyproject.toml",
    "src",
)
BUILDERS = [f"{name} {version(name)}" for name in ("pip", "scikit-build-core")]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy what a wheel is made of: builds write into their tree. Nobody asks how quick it is."""
    folder = tmp_path_factory.mktemp("source")
    for part in PARTS:
        if (REPOSITORY / part).is_dir():
            left_out = shutil.ignore_patterns("__pycache__", "*_cache", "_agent")
            shutil.copytree(REPOSITORY / part, folder / part, ignore=left_out)
        else:
            shutil.copy2(REPOSITORY / part, folder / part)
    for name in ("build.sh", "CMakeLists.txt"):
        unoptimised(folder / "native" / name)
    return folder


def hook(source: Path, call: str, **env: str) -> object:
    """Call a function of the build backend as pip does; return its value."""
    code = f"import json, soscope_build; print('\\n' + json.dumps(soscope_build.{call}))"
    done = run(
        [sys.executable, "-c", code],
        cwd=source,
        env={"PYTHONPATH": str(source / "build_backend"), "CC": "", **env},
        timeout=limit(200),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result: object = json.loads(done.stdout.splitlines()[-1])
    return result


def contents(folder: Path) -> list[str | Path]:
    """Return the names of the sources in a folder, and the sources."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    files = [path for path in files if not {"__pycache__", "build"} & set(path.parts)]
    return [*(str(path.relative_to(folder)) for path in files), *files]


@pytest.fixture(scope="module")
def pure(source: Path) -> Path:
    """Build the wheel without agent."""

    def make(folder: Path) -> None:
        hook(source, f"build_wheel({str(folder)!r})", SOSCOPE_NO_AGENT="1")

    (wheel,) = kept("soscope-pure", *BUILDERS, *contents(source), make=make).glob("*.whl")
    return wheel


def test_a_wheel_without_agent_fits_every_system(pure: Path) -> None:
    assert pure.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(pure) as wheel:
        names = wheel.namelist()
    assert {"soscope/verbs/main.py", "soscope/py.typed", "soscope_mem/__init__.py"} <= set(names)
    assert "soscope_prof/__init__.py" in names
    assert "soscope/_agent/prototypes.bin" in names
    ruby = {"soscope/_agent/ruby/memprof.rb", "soscope/_agent/ruby/soscope_memprof.rb"}
    assert ruby <= set(names)
    caches = [name for name in names if "cache" in name and name != "soscope/linker/system.py"]
    assert not [*caches, *(name for name in names if name.endswith((".so", ".pyc")))]


def test_a_wheel_without_agent_reports(pure: Path, tmp_path: Path) -> None:
    recording = tmp_path / "true.sosr"
    made = soscope("trace", "--record", recording, "--", "echo", "hello")
    assert (made.returncode, made.stdout) == (0, "hello\n")
    expected = soscope("report", recording)
    assert expected.returncode == 0

    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile"]
    words = [*pip, "--no-deps", "--no-index", "--target", str(site), str(pure)]
    assert run(words, timeout=limit(120)).returncode == 0
    assert not list(site.rglob("*.so"))
    env = {"PYTHONPATH": str(site)}
    assert soscope("report", recording, env=env, cwd=tmp_path).stdout == expected.stdout

    refused = soscope("trace", "true", env=env, cwd=tmp_path)
    assert refused.returncode == 125
    assert refused.stderr.startswith("soscope: error: ")


@pytest.mark.long
def test_soscope_mem_is_a_wheel_of_its_own(source: Path, tmp_path: Path) -> None:
    """lld links its agent, as it does for zig, the compiler of machines that have no other."""
    need("gcc", "ld.lld")
    integration = source / "integrations" / "python"

    def make(folder: Path) -> None:
        pip = [sys.executable, "-m", "pip"]
        flags = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
        words = [*pip, "wheel", *flags, "-w", str(folder), str(integration)]
        done = run(words, timeout=limit(200), env={"CC": "gcc -fuse-ld=lld"})
        assert done.returncode == 0, done.stdout + done.stderr

    parts = [tools(), *BUILDERS, *contents(source / "native"), *contents(integration)]
    (wheel,) = kept("soscope-mem", *parts, make=make).glob(
        "soscope_mem-*-py3-none-linux_x86_64.whl"
    )
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path)
    (agent,) = tmp_path.rglob("libsoscope-agent.so")
    # its variables take megabytes in memory and nothing in the file
    assert agent.stat().st_size < 1 << 20
    text = "import soscope_mem; soscope_mem.start(); a = bytes(4000); soscope_mem.stats()"
    for python in few_pythons():
        said = run([python, "-c", text], env={"PYTHONPATH": str(tmp_path)})
        assert (said.returncode, said.stderr) == (0, "")
        assert said.stdout == "      1 <string>:1:bytes\n"


def test_a_machine_without_compiler_asks_for_one(source: Path, tmp_path: Path) -> None:
    needs = hook(source, "get_requires_for_build_wheel()", PATH=str(tmp_path))
    assert isinstance(needs, list)
    assert [need.partition("=")[0] for need in needs if "zig" in need] == ["ziglang"]


def test_a_compiler_that_does_not_work_is_none(source: Path, tmp_path: Path) -> None:
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    needs = hook(source, "get_requires_for_build_wheel()", PATH=f"{tmp_path}:/usr/bin")
    assert isinstance(needs, list)
    # gcc and clang come next, if they are there
    found = any(os.path.exists(f"/usr/bin/{name}") for name in ("gcc", "clang"))
    assert any("zig" in need for need in needs) is not found


def test_a_wheel_without_agent_asks_for_no_tools(source: Path, tmp_path: Path) -> None:
    env = {"PATH": str(tmp_path), "SOSCOPE_NO_AGENT": "1"}
    assert hook(source, "get_requires_for_build_wheel()", **env) == []
