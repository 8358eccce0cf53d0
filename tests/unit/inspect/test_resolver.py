# SPDX-License-Identifier: Apache-2.0
"""Trampolines that were written for the test: what each keeps or loses is known beforehand."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from soscope.binfmt.elf.unwind import code_ranges
from soscope.errors import FormatError, SoscopeError
from soscope.inspect.audit import audit as a
from soscope.linker.library import open_image
from tests.support.files.elffiles import built
from tests.support.machines.tools import need
from tests.support.targets.build import made_in

pytest.importorskip("capstone")

# what makes a file a loader of glibc's
SIGN = ".data\n.globl _rtld_global\n.type _rtld_global,@object\n_rtld_global: .quad 1\n.text\n"
BEGIN = "{name}:\n.cfi_startproc\n"
END = ".cfi_endproc\n.size {name},.-{name}\n"


def function(name: str, body: str) -> str:
    head = f".p2align 4\n.type {name},@function\n"
    return head + (BEGIN + body + "\n" + END).format(name=name)


def loader(folder: Path, *functions: str, flags: tuple[str, ...] = ()) -> Path:
    """Assemble a shared object that has these functions, and looks like a loader."""
    source = folder / "loader.S"
    source.write_text(SIGN + "\n".join(functions) + '\n.section .note.GNU-stack,"",%progbits\n')
    path = folder / "ld.so"
    tool = "clang" if any(flag.startswith("--target") for flag in flags) else "gcc"
    words = ["-shared", "-nostdlib", "-o", path.name, source.name, "-Wl,--eh-frame-hdr"]
    made_in(folder, tool, *words, *flags)
    return path


WORDS = "rax rcx rdx rsi rdi r8 r9".split()
PUSH = "\n".join(f"push %{one}" for one in WORDS)
POP = "\n".join(f"pop %{one}" for one in reversed(WORDS))
# behind seven words: what the stub has pushed
ASK = "mov 64(%rsp), %rsi; mov 56(%rsp), %rdi; call fixup; mov %rax, %r11"
LEAVE = "add $16, %rsp; jmp *%r11"
PLAIN = f"{PUSH}\n{ASK}\n{POP}\n{LEAVE}"
QUIET = function("fixup", "xor %eax, %eax; xor %ecx, %ecx; ret")


def fates(found: a.Audit, at: int = 0) -> dict[str, str]:
    return {one.name: one.fate for one in found.variants[at].registers}


def only(path: Path) -> a.Variant:
    (variant,) = a.audit(str(path)).variants
    return variant


def test_a_trampoline_that_saves_what_is_written_is_sound(tmp_path: Path) -> None:
    found = only(loader(tmp_path, function("trampoline", PLAIN), QUIET))
    assert (found.kind, found.verdict, found.name) == ("resolve", a.SOUND, "trampoline")
    assert found.named(a.SAVED) == "rdi rsi rdx rcx r8 r9 rax".split()
    assert found.named(a.LOST) == []
    assert "xmm0-7" in found.named(a.UNTOUCHED)
    assert (found.path.functions, found.path.instructions) == (1, 3)


@pytest.mark.parametrize(
    ("body", "lost"),
    [
        ("movaps %xmm1, %xmm3", {"xmm0-7"}),
        ("vmovaps %xmm1, %xmm3", {"xmm0-7", "ymm0-7 (high halves)", "zmm0-7 (high halves)"}),
        ("vzeroupper", {"ymm0-7 (high halves)", "zmm0-7 (high halves)"}),
        ("vpxord %zmm20, %zmm20, %zmm20", {"zmm16-31"}),
        ("kmovq %rax, %k2", {"k0-7"}),
        ("mov %esi, %r10d", {"r10"}),
        ("movaps %xmm9, %xmm8", {"xmm8-15"}),
        ("movaps %xmm3, (%rsp)", set()),
        ("ucomisd %xmm3, %xmm2", set()),
        ("mov %r12d, %ebx", set()),
    ],
)
def test_what_the_called_function_overwrites(tmp_path: Path, body: str, lost: set[str]) -> None:
    fixup = function("fixup", f"{body}; ret")
    found = only(loader(tmp_path, function("trampoline", PLAIN), fixup))
    assert set(found.named(a.LOST)) == lost
    arguments = {"xmm0-7", "ymm0-7 (high halves)", "zmm0-7 (high halves)"}
    assert found.verdict == (a.UNSOUND if lost & arguments else a.SOUND)
    for register in found.registers:
        if register.fate == a.LOST:
            assert register.site is not None
            assert register.site.times >= 1
            assert register.site.text.split(maxsplit=1)[0] == body.split(maxsplit=1)[0]


@pytest.mark.parametrize(
    ("way", "more"),
    [
        ("call deeper; ret", ""),
        ("jmp deeper", ""),
        ("test %edi, %edi; je deeper; ret", ""),
        ("lea deeper(%rip), %rax; mov %rax, 8(%rdi); ret", ""),
        ("lea deeper(%rip), %rax; call *%rax; ret", ""),
        ("call middle; ret", "call deeper; ret"),
        ("call *pointer(%rip); ret", ""),
        ("mov pointer(%rip), %rdx; jmp *%rdx", ""),
    ],
)
def test_all_ways_to_what_overwrites(tmp_path: Path, way: str, more: str) -> None:
    pointer = '.section .data.rel.ro,"aw"\n.p2align 3\npointer: .quad deeper\n.text'
    parts = [function("trampoline", PLAIN), function("fixup", way), pointer]
    parts += [function("middle", more or "ret"), function("deeper", "pxor %xmm5, %xmm5; ret")]
    found = only(loader(tmp_path, *parts, flags=("-Wl,-z,relro",)))
    assert found.named(a.LOST) == ["xmm0-7"]
    (site,) = [one.site for one in found.registers if one.fate == a.LOST]
    assert site is not None
    assert (site.text, site.times) == ("pxor xmm5, xmm5", 1)
    assert found.path.ways == ()


def test_what_nobody_calls_does_not_count(tmp_path: Path) -> None:
    aside = function("aside", "pxor %xmm5, %xmm5; ret")
    found = only(loader(tmp_path, function("trampoline", PLAIN), QUIET, aside))
    assert found.verdict == a.SOUND


@pytest.mark.parametrize(
    ("way", "through"),
    [
        ("call *variable(%rip); ret", "0x"),
        ("call *8(%rdi); ret", ""),
        ("jmp *%rsi", ""),
        ("call outside@PLT; ret", "outside"),
    ],
)
def test_code_that_the_file_does_not_tell(tmp_path: Path, way: str, through: str) -> None:
    parts = [".data\nvariable: .quad 0\n.text\n.globl outside", function("trampoline", PLAIN)]
    parts += [function("fixup", way), function("outside", "ret")]
    found = only(loader(tmp_path, *parts))
    assert found.verdict == a.CONDITIONAL
    assert {"xmm0-7", "r10"} <= set(found.named(a.OPEN))
    (leaving,) = found.path.ways
    assert leaving.through.startswith(through)
    assert bool(leaving.through) == bool(through)


def test_a_variable_that_the_file_fills_itself_is_followed(tmp_path: Path) -> None:
    parts = [".bss\nvariable: .quad 0\n.text", function("trampoline", PLAIN)]
    parts += [function("fixup", "call *variable(%rip); ret")]
    parts += [function("setting", "lea chosen(%rip), %rax; mov %rax, variable(%rip); ret")]
    parts += [function("chosen", "pxor %xmm5, %xmm5; ret")]
    found = only(loader(tmp_path, *parts))
    # others may write it, too
    assert (found.verdict, found.named(a.LOST), len(found.path.ways)) == (a.UNSOUND, ["xmm0-7"], 1)


def test_a_switch_is_no_way_out(tmp_path: Path) -> None:
    table = ".section .rodata\n.p2align 2\ntable: .long one-table, two-table\n.text"
    switch = (
        "lea table(%rip), %rcx; movslq (%rcx,%rdi,4), %rax; add %rcx, %rax; jmp *%rax\n"
        "one: movaps %xmm1, %xmm2; ret\ntwo: ret"
    )
    found = only(loader(tmp_path, function("trampoline", PLAIN), function("fixup", switch), table))
    assert (found.path.ways, found.named(a.LOST)) == ((), ["xmm0-7"])


SAVING = {
    "fxsave": ("fxsave (%rsp)", "fxrstor (%rsp)"),
    "xsave": ("mov ${mask}, %eax; xor %edx, %edx; xsave (%rsp)", "xrstor (%rsp)"),
    "xsavec": ("mov ${mask}, %eax; xor %edx, %edx; xsavec (%rsp)", "xrstor (%rsp)"),
}


def saving(how: str, mask: int, back: int | None = None, *, align: bool = True) -> str:
    save, restore = SAVING[how]
    again = f"mov ${mask if back is None else back}, %eax; xor %edx, %edx; "
    lines = [PUSH, "push %rbx; mov %rsp, %rbx", "and $-64, %rsp" if align else ""]
    lines += ["sub $1024, %rsp", save.replace("{mask}", str(mask))]
    lines += ["mov 72(%rbx), %rsi; mov 64(%rbx), %rdi; call fixup; mov %rax, %r11"]
    lines += [again + restore, "mov %rbx, %rsp; pop %rbx", POP, LEAVE]
    return "\n".join(lines)


NOISY = function(
    "fixup",
    "vpxord %zmm2, %zmm2, %zmm2; vpxord %zmm17, %zmm17, %zmm17; kxorq %k1, %k1, %k1; ret",
)
ALL = ["xmm0-7", "ymm0-7 (high halves)", "zmm0-7 (high halves)", "k0-7", "zmm16-31"]


@pytest.mark.parametrize(
    ("how", "mask", "back", "lost"),
    [
        ("xsavec", 0xEE, None, []),
        ("xsave", 0xEE, None, []),
        ("xsavec", 0x06, None, [ALL[2], ALL[3], ALL[4]]),
        ("xsavec", 0x02, None, ALL[1:]),
        ("xsavec", 0xEC, None, ALL[:1]),
        ("xsavec", 0xEE, 0x06, [ALL[2], ALL[3], ALL[4]]),
        ("fxsave", 0, None, ALL[1:]),
    ],
)
def test_what_is_saved_as_a_whole(
    tmp_path: Path, how: str, mask: int, back: int | None, lost: list[str]
) -> None:
    found = only(loader(tmp_path, function("trampoline", saving(how, mask, back)), NOISY))
    assert sorted(found.named(a.LOST)) == sorted(lost)
    assert found.how == (how if how == "fxsave" else f"{how} {mask:#x}")
    assert found.alignment == 64


def test_without_xsave_there_is_nothing_to_save(tmp_path: Path) -> None:
    pair = [function("one", saving("fxsave", 0)), function("two", saving("xsavec", 0xEE)), NOISY]
    found = a.audit(str(loader(tmp_path, *pair)))
    assert [one.verdict for one in found.variants] == [a.SOUND, a.SOUND]
    assert fates(found)["ymm0-7 (high halves)"] == a.ABSENT
    assert found.variants[0].condition.startswith("without XSAVE")
    assert found.variants[1].condition == "with XSAVEC"


def test_the_stack_need_not_be_aligned_anew(tmp_path: Path) -> None:
    body = saving("fxsave", 0, align=False)
    found = only(loader(tmp_path, function("trampoline", body), QUIET))
    assert found.alignment is None
    assert "xmm0-7" in found.named(a.SAVED)


def test_saved_but_not_restored(tmp_path: Path) -> None:
    body = PLAIN.replace("pop %rdi", "add $8, %rsp")
    assert body != PLAIN
    found = only(loader(tmp_path, function("trampoline", body), function("fixup", "ret")))
    # the trampoline itself puts the link map there
    assert (found.named(a.LOST), found.verdict) == (["rdi"], a.UNSOUND)


def test_restored_from_the_wrong_place(tmp_path: Path) -> None:
    body = PLAIN.replace("pop %r8\n", "pop %rcx\n").replace(
        "pop %rcx\npop %rax", "pop %r8\npop %rax"
    )
    assert body != PLAIN
    mixing = function("fixup", "mov $1, %ecx; mov $1, %r8d; ret")
    found = only(loader(tmp_path, function("trampoline", body), mixing))
    assert sorted(found.named(a.LOST)) == ["r8", "rcx"]


def test_vector_registers_saved_one_by_one(tmp_path: Path) -> None:
    out = "\n".join(f"movaps %xmm{n}, {16 * n}(%rsp)" for n in range(8))
    back = "\n".join(f"movaps {16 * n}(%rsp), %xmm{n}" for n in range(7))
    body = f"{PUSH}\nsub $128, %rsp\n{out}\ncall fixup; mov %rax, %r11\n{back}\n"
    body += f"movaps (%rsp), %xmm7\nadd $128, %rsp\n{POP}\n{LEAVE}"
    noisy = function("fixup", "pxor %xmm6, %xmm6; pxor %xmm7, %xmm7; ret")
    found = only(loader(tmp_path, function("trampoline", body), noisy))
    (register,) = [one for one in found.registers if one.fate == a.LOST]
    assert register.name == "xmm0-7"
    assert register.site is not None
    assert register.site.text == "pxor xmm7, xmm7"


def test_a_mark_for_indirect_jumps_belongs_to_the_trampoline(tmp_path: Path) -> None:
    body = PLAIN.replace("jmp *%r11", "notrack jmp *%r11")
    marked = function("trampoline", f"endbr64\n{body}")
    fixup = function("fixup", "endbr64; movaps %xmm1, %xmm3; bnd ret")
    found = only(loader(tmp_path, marked, fixup))
    assert (found.name, found.named(a.LOST)) == ("trampoline", ["xmm0-7"])
    # what the unwind tables take for its beginning may be padding
    padded = ".p2align 4\n.cfi_startproc\nnop\nlea 0(%rsi), %rsi\n.type trampoline,@function\n"
    padded += f"trampoline:\n{body}\n.cfi_endproc\n"
    again = only(loader(tmp_path, padded, fixup))
    assert (again.name, again.named(a.LOST)) == ("trampoline", ["xmm0-7"])


@pytest.mark.parametrize(
    "body",
    [
        PLAIN.replace("add $16", "add $8"),  # it leaves a word of the stub's on the stack
        PLAIN.replace("mov %rax, %r11", "mov %rbx, %r11"),  # it does not go where it was told to
        PUSH + "\ncall fixup\n" + POP + "\nret",
    ],
)
def test_what_is_no_trampoline(tmp_path: Path, body: str) -> None:
    found = a.audit(str(loader(tmp_path, function("trampoline", body), QUIET)))
    assert (found.variants, found.verdict, found.binds_lazily) == ((), None, True)


def test_i386(tmp_path: Path) -> None:
    need("/usr/lib32/libc.so")
    push = "push %eax; push %ecx; push %edx; mov 16(%esp), %edx; mov 12(%esp), %eax; call fixup"
    back = "pop %edx; mov (%esp), %ecx; mov %eax, (%esp); mov 4(%esp), %eax; ret $12"
    jump = "pop %edx; pop %ecx; mov %eax, %ecx; pop %eax; add $8, %esp; jmp *%ecx"
    sound = function("sound", f"{push}; {back}")
    losing = function("losing", f"{push}; {jump}")
    fixup = function("fixup", "mov $1, %ecx; mov $1, %edx; ret")
    found = a.audit(str(loader(tmp_path, sound, losing, fixup, flags=("-m32",))))
    assert found.arch == "i386"
    assert [one.verdict for one in found.variants] == [a.SOUND, a.UNSOUND]
    assert found.variants[0].named(a.SAVED) == ["eax", "edx", "ecx"]
    assert found.variants[1].named(a.LOST) == ["ecx"]
    noisy = function("fixup", "pxor %xmm1, %xmm1; ret")
    one = only(loader(tmp_path, sound, noisy, flags=("-m32",)))
    assert one.named(a.LOST) == ["xmm0-2"]


def test_x32(tmp_path: Path) -> None:
    body = saving("xsavec", 0xEE).replace("mov %rsp, %rbx", "mov %esp, %ebx")
    body = body.replace("and $-64, %rsp", "and $-64, %esp").replace(
        "sub $1024, %rsp", "sub $1024, %esp"
    )
    body = body.replace("mov %rax, %r11", "mov %eax, %r11d").replace(
        "mov %rbx, %rsp", "mov %ebx, %esp"
    )
    flags = ("-mx32",)
    one = only(loader(tmp_path, function("trampoline", body), NOISY, flags=flags))
    assert (one.verdict, one.named(a.LOST), one.alignment) == (a.SOUND, [], 64)
    assert set(ALL) <= set(one.named(a.SAVED))
    # half of a register is not the register
    half = body.replace("pop %rdi", "mov (%rsp), %edi; add $8, %esp")
    assert half != body
    one = only(loader(tmp_path, function("trampoline", half), NOISY, flags=flags))
    assert one.named(a.LOST) == ["rdi"]


ARM_SAVE = """stp x8, x9, [sp, #-0xd0]!
stp x6, x7, [sp, #0x10]
stp x4, x5, [sp, #0x20]
stp x2, x3, [sp, #0x30]
stp x0, x1, [sp, #0x40]
stp q0, q1, [sp, #0x50]
stp q2, q3, [sp, #0x70]
stp q4, q5, [sp, #0x90]
stp q6, q7, [sp, #0xb0]
ldr x0, [x16, #-8]
bl fixup
mov x16, x0
ldp q0, q1, [sp, #0x50]
ldp q2, q3, [sp, #0x70]
ldp q4, q5, [sp, #0x90]
ldp q6, q7, [sp, #0xb0]
ldp x0, x1, [sp, #0x40]
ldp x2, x3, [sp, #0x30]
ldp x4, x5, [sp, #0x20]
ldp x6, x7, [sp, #0x10]
ldp x8, x9, [sp], #0xd0
ldp x17, x30, [sp], #0x10
br x16"""


@pytest.mark.parametrize(
    ("old", "new", "lost"),
    [
        ("", "", []),
        ("ldp q4, q5, [sp, #0x90]\n", "", ["q0-7"]),
        ("ldp x6, x7, [sp, #0x10]", "ldp x7, x6, [sp, #0x10]", ["x6", "x7"]),
        ("x8, x9, [sp], #0xd0", "x10, x9, [sp], #0xd0", ["x8"]),
    ],
)
def test_aarch64(tmp_path: Path, old: str, new: str, lost: list[str]) -> None:
    need("clang", "ld.lld")
    noisy = "movi v0.2d, #0; movi v5.2d, #0; mov x6, x7; mov x7, #0; mov x8, #1; ret"
    parts = [function("trampoline", ARM_SAVE.replace(old, new)), function("fixup", noisy)]
    flags = ("--target=aarch64-linux-gnu", "-fuse-ld=lld")
    found = only(loader(tmp_path, *parts, flags=flags))
    assert found.named(a.LOST) == lost
    assert found.verdict == (a.UNSOUND if lost else a.SOUND)


DESCRIPTOR = """mov %fs:8, %rsi
mov 8(%rax), %rdi
call fixup
"""


def test_a_descriptor_of_thread_local_storage(tmp_path: Path) -> None:
    words = "rsi rdi rcx rdx r8 r9 r10 r11".split()
    push = "\n".join(f"push %{one}" for one in words) + "\n"
    pop = "\n".join(f"pop %{one}" for one in reversed(words)) + "\n"
    good = function("good", push + DESCRIPTOR + pop + "ret")
    bad = function("bad", push + DESCRIPTOR + pop.replace("pop %r10", "pop %rax") + "ret")
    noisy = function("fixup", "mov $1, %r10d; movaps %xmm1, %xmm9; ret")
    found = a.audit(str(loader(tmp_path, good, bad, noisy)))
    assert [one.kind for one in found.variants] == ["tlsdesc", "tlsdesc"]
    assert [one.named(a.LOST) for one in found.variants] == [["xmm0-15"], ["r10", "xmm0-15"]]
    assert found.verdict is None  # it says nothing of lazy binding


# ---- what is no loader ----


def test_files_that_are_no_dynamic_linker(tmp_path: Path) -> None:
    library = built(tmp_path, "lib.so", "int f(void) { return 1; }", "-shared", "-fPIC")
    # a library may ask for the sign of one
    asking = "extern int _rtld_global; int f(void) { return _rtld_global; }"
    asks = built(tmp_path, "asks.so", asking, "-shared", "-fPIC")
    program = built(tmp_path, "program", "int main(void) { return 0; }")
    for path in (library, asks, program):
        with pytest.raises(SoscopeError, match="is no dynamic linker") as caught:
            a.audit(str(path))
        assert (caught.value.slug, caught.value.exit_status) == ("no-loader", 1)
    assert caught.value.hint is not None
    assert "soscope audit-resolver /lib" in caught.value.hint


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("x" * 100)
    with pytest.raises(FormatError, match="not an ELF file"):
        a.audit(str(text))
    for path in (tmp_path / "nothing", tmp_path):
        with pytest.raises(SoscopeError) as caught:
            a.audit(str(path))
        assert caught.value.slug == "no-such-file"


def test_functions_that_lie_upon_one_another(tmp_path: Path) -> None:
    path = loader(tmp_path, function("trampoline", PLAIN), QUIET)
    data = bytearray(path.read_bytes())
    image = open_image(str(path))
    size = max(size for _, size in code_ranges(image))
    # the length stands behind the distance to the function, in an FDE with 4 bytes for each
    places = [at for at in range(len(data) - 4) if data[at : at + 4] == size.to_bytes(4, "little")]
    for at in places:
        data[at : at + 4] = (1 << 24).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(FormatError, match="bytes of functions in") as caught:
        a.audit(str(path))
    assert caught.value.field == ".eh_frame"


def test_a_loader_of_another_architecture(tmp_path: Path) -> None:
    need("clang", "ld.lld")
    source = tmp_path / "other.s"
    source.write_text(SIGN)
    path = tmp_path / "other.so"
    flags = ["--target=riscv64-linux-gnu", "-fuse-ld=lld", "-shared", "-nostdlib"]
    made_in(tmp_path, "clang", *flags, "-o", path, source)
    with pytest.raises(SoscopeError, match="riscv64: audit-resolver knows x86-64") as caught:
        a.audit(str(path))
    assert caught.value.slug == "no-disassembler"


def test_without_capstone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = loader(tmp_path, function("trampoline", PLAIN), QUIET)
    monkeypatch.setitem(sys.modules, "capstone", None)
    with pytest.raises(SoscopeError) as caught:
        a.audit(str(path))
    assert caught.value.slug == "no-extra"
    assert caught.value.hint == "pip install 'soscope[disasm]'"
