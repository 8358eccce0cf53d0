# SPDX-License-Identifier: Apache-2.0
"""The audit of this machine's loaders, against calls that they really bind."""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path

import pytest

from soscope.inspect.audit import audit as a
from soscope.inspect.audit.isa.x86 import X86
from soscope.linker.library import open_image
from tests.support.files.elffiles import built, run
from tests.support.machines.tools import need, not_here
from tests.support.targets import registers
from tests.support.targets.build import made, made_in
from tests.support.time.patience import limit

pytestmark = pytest.mark.shares

pytest.importorskip("capstone")


@functools.cache
def audited(path: str) -> a.Audit:
    return a.audit(path)


@pytest.fixture(scope="module")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("caller")
    (folder / "probe.s").write_text(registers.probe_source())
    (folder / "fire.s").write_text(registers.fire_source())
    made_in(folder, "gcc", "-shared", "-o", "libprobe.so", "probe.s")
    lazy = ("-fcf-protection=none", "-fplt", "-Wl,-z,lazy", "-no-pie", "-fno-pie")
    libraries = ("fire.s", "-L.", "-lprobe", "-Wl,-rpath,$ORIGIN")
    return built(folder, "caller", registers.MAIN, *lazy, *libraries)


def flags() -> list[str]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split() for line in lines if line.startswith("flags")), [])


def level() -> int:
    """Return what the processor has: 0 SSE, 1 AVX, 2 AVX-512."""
    known = flags()
    return 2 if "avx512bw" in known else 1 if "avx" in known else 0


def parts(name: str) -> list[str]:
    """Return what the program calls the registers of a row: "ymm0-7 (high halves)", "rdi"."""
    row = re.fullmatch(r"([a-z]+)(\d+)-(\d+)(?: \(high halves\))?", name)
    if row is None:
        return [name]
    return [f"{row[1]}{n}" for n in range(int(row[2]), int(row[3]) + 1)]


def told(path: Path, *, env: dict[str, str] | None = None) -> dict[str, str]:
    done = subprocess.run(
        [path, str(level())],
        capture_output=True,
        text=True,
        timeout=limit(),
        check=False,
        env={"PATH": "/usr/bin:/bin", **(env or {})},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return dict(line.split() for line in done.stdout.splitlines())


def agrees(one: a.Variant, fates: dict[str, str]) -> None:
    """Check a verdict against what a call has seen: what is saved must have arrived."""
    checked = 0
    for register in one.registers:
        for part in parts(register.name):
            if register.fate in (a.SAVED, a.UNLESS_CHANGED) and part in fates:
                assert fates[part] == "kept", (one.vaddr, part)
                checked += 1
    assert checked >= 15
    # the static chain is saved nowhere, and overwritten at once
    assert fates["r10"] == "lost"
    assert "r10" in one.named(a.LOST)


def of_this_processor(found: a.Audit, kind: str, *, without: str = "") -> a.Variant:
    known = [one for one in ("xsavec", "xsave") if one in flags() and one != without]
    if kind == "resolve":
        how = known[0] if known else "fxsave"
        return next(v for v in found.variants if v.kind == kind and v.how.split()[0] == how)
    wanted = ("without AVX", "with AVX, without AVX-512", "with AVX-512")[level()]
    return next(v for v in found.variants if v.kind == kind and v.condition == wanted)


def loader_of(path: Path) -> str:
    interpreter = open_image(str(path)).interpreter
    assert interpreter is not None
    return interpreter


def test_a_lazy_call_sees_what_is_saved(caller: Path) -> None:
    found = audited(loader_of(caller))
    agrees(of_this_processor(found, "resolve"), told(caller))


def test_a_bound_call_sees_everything(caller: Path) -> None:
    fates = told(caller, env={"LD_BIND_NOW": "1"})
    assert set(fates.values()) == {"kept"}


def test_a_lazy_call_without_xsavec(caller: Path) -> None:
    if "xsavec" not in flags():
        not_here("this processor has no XSAVEC that could be left unused")
    fates = told(caller, env={"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-XSAVEC"})
    found = audited(loader_of(caller))
    agrees(of_this_processor(found, "resolve", without="xsavec"), fates)


def test_a_call_that_an_audit_module_is_told_of(caller: Path, tmp_path: Path) -> None:
    module = built(tmp_path, "auditor.so", registers.AUDITOR, "-shared", "-fPIC")
    fates = told(caller, env={"LD_AUDIT": str(module)})
    agrees(of_this_processor(audited(loader_of(caller)), "profile"), fates)


def test_a_lazy_call_of_32_bits(tmp_path: Path) -> None:
    need("/usr/lib32/libc.so")
    (tmp_path / "probe.s").write_text(registers.PROBE32)
    made_in(tmp_path, "gcc", "-m32", "-shared", "-o", "libprobe.so", "probe.s")
    lazy = ("-m32", "-fcf-protection=none", "-Wl,-z,lazy", "-no-pie", "-fno-pie")
    libraries = ("-L.", "-lprobe", "-Wl,-rpath,$ORIGIN")
    program = built(tmp_path, "caller32", registers.MAIN32, *lazy, *libraries)
    fates = dict(line.split() for line in run(program).splitlines())
    found = audited(loader_of(program))
    usual = next(v for v in found.variants if v.kind == "resolve" and "every" in v.condition)
    for register in usual.registers:
        for part in parts(register.name):
            # what is open the usual way, without a look-up that calls out of the loader, is kept
            assert fates.get(part, "kept") == "kept"
    assert set(usual.named(a.SAVED)) == {"eax", "edx", "ecx"}
    assert len(fates) == 6


def test_what_a_tls_descriptor_loses(tmp_path: Path) -> None:
    (tmp_path / "touch.s").write_text("\n".join(registers.TOUCH))
    made_in(tmp_path, "gcc", "-shared", "-o", "libtouch.so", "touch.s")
    program = built(tmp_path, "touching", registers.TOUCHING, "-ldl")
    lost = run(program, tmp_path / "libtouch.so").split("\n")[:-1]
    found = audited(loader_of(program))
    verdicts = {one.verdict for one in found.variants if one.kind == "tlsdesc"}
    # the second time it is there, and nothing is called
    assert all(line.endswith(" 0") for line in lost)
    assert verdicts == ({a.UNSOUND} if lost else {a.SOUND})


NESTED = """
int outer(int a)
{
    int b = a;
    __attribute__((noinline)) int inner(int c) { return b += c; }
    return inner(2) + b;
}"""


@pytest.mark.parametrize(
    ("flag", "bits", "role"), [("-m64", 64, "static-chain"), ("-m32", 32, "regparm")]
)
def test_the_static_chain_is_where_the_compiler_has_it(flag: str, bits: int, role: str) -> None:
    code = made({"nested.c": NESTED}, f"gcc -O1 {flag} -S nested.c") / "nested.s"
    inner = code.read_text().partition("\ninner.")[2].partition("ret")[0]
    (register,) = set(re.findall(r"\(%(\w+)\)", inner))  # through which it reaches outer's b
    groups = {group.name: group.role for group in X86(bits, bits // 8).groups}
    assert groups[register] == role
