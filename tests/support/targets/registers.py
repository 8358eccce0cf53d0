# SPDX-License-Identifier: Apache-2.0
"""Programs that fill all argument registers, call, and compare what arrives."""

from __future__ import annotations


def probe_source() -> str:
    """Return the library: its function writes down all registers that may hold arguments."""
    words = "rdi rsi rdx rcx r8 r9 rax r10".split()
    lines = [".text", ".globl probe, seen, set_level"]
    lines += [f".type {one},@function" for one in ("probe", "seen", "set_level")]
    lines += [
        "set_level: mov %edi, level(%rip); ret",
        "seen: lea buffer(%rip), %rax; ret",
        "probe:",
    ]
    lines += [f"mov %{one}, buffer+{8 * at}(%rip)" for at, one in enumerate(words)]
    lines += ["cmpl $1, level(%rip)", "jb 1f", "je 2f"]
    lines += [f"vmovdqu64 %zmm{n}, buffer+{128 + 64 * n}(%rip)" for n in range(32)]
    lines += [f"kmovq %k{n}, buffer+{64 + 8 * n}(%rip)" for n in range(8)]
    lines += ["vzeroupper; ret", "2:"]
    lines += [f"vmovdqu %ymm{n}, buffer+{128 + 64 * n}(%rip)" for n in range(16)]
    lines += ["vzeroupper; ret", "1:"]
    lines += [f"movups %xmm{n}, buffer+{128 + 64 * n}(%rip)" for n in range(16)]
    lines += ["ret", ".bss", ".p2align 6", "buffer: .zero 2176", "level: .long 0"]
    return "\n".join([*lines, '.section .note.GNU-stack,"",@progbits\n'])


def fire_source() -> str:
    """Return the program's half in assembly: patterns into all registers, then the call."""
    words = "rsi rdx rcx r8 r9 rax r10 rdi".split()
    places = {one: at for at, one in enumerate("rdi rsi rdx rcx r8 r9 rax r10".split())}
    lines = [".text", ".globl fire", ".type fire,@function", "fire:", "sub $8, %rsp"]
    lines += ["cmp $1, %edi", "jb 1f", "je 2f"]
    lines += [f"vmovdqu64 given+{128 + 64 * n}(%rip), %zmm{n}" for n in range(32)]
    lines += [f"kmovq given+{64 + 8 * n}(%rip), %k{n}" for n in range(8)]
    lines += ["jmp 3f", "2:"]
    lines += [f"vmovdqu given+{128 + 64 * n}(%rip), %ymm{n}" for n in range(16)]
    lines += ["jmp 3f", "1:"]
    lines += [f"movups given+{128 + 64 * n}(%rip), %xmm{n}" for n in range(16)]
    lines += ["3:", *(f"mov given+{8 * places[one]}(%rip), %{one}" for one in words)]
    lines += ["call probe@plt", "add $8, %rsp", "ret"]
    return "\n".join([*lines, '.section .note.GNU-stack,"",@progbits\n'])


MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
unsigned char given[2176];
void fire(int level);
void set_level(int level);
unsigned char *seen(void);
static void say(const char *kind, int number, int at, int size)
{
    char name[16];
    snprintf(name, sizeof name, number < 0 ? "%s" : "%s%d", kind, number);
    printf("%s %s\\n", name, memcmp(given + at, seen() + at, size) ? "lost" : "kept");
}
int main(int argc, char **argv)
{
    const char *words[] = {"rdi", "rsi", "rdx", "rcx", "r8", "r9", "rax", "r10"};
    int level = atoi(argv[1]);
    for (unsigned i = 0; i < sizeof given; i++)
        given[i] = i * 37 + i / 256 + 11;
    set_level(level);
    fire(level);
    for (int i = 0; i < 8; i++)
        say(words[i], -1, 8 * i, 8);
    for (int i = 0; i < 16; i++) {
        say("xmm", i, 128 + 64 * i, 16);
        if (level > 0)
            say("ymm", i, 128 + 64 * i + 16, 16);
        if (level > 1)
            say("zmm", i, 128 + 64 * i + 32, 32);
    }
    for (int i = 16; i < 32 && level > 1; i++)
        say("zmm", i, 128 + 64 * i, 64);
    for (int i = 0; i < 8 && level > 1; i++)
        say("k", i, 64 + 8 * i, 8);
    return 0;
}
"""

AUDITOR = """
#define _GNU_SOURCE
#include <link.h>
unsigned la_version(unsigned version) { return LAV_CURRENT; }
unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie)
{
    return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}
Elf64_Addr la_x86_64_gnu_pltenter(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to,
    La_x86_64_regs *regs, unsigned *flags, const char *name, long *size)
{
    return symbol->st_value;
}
"""


PROBE32 = """
    .text
    .globl probe
    .type probe,@function
probe:
    push %ebx
    mov 8(%esp), %ebx
    mov %eax, (%ebx)
    mov %edx, 4(%ebx)
    mov %ecx, 8(%ebx)
    movups %xmm0, 16(%ebx)
    movups %xmm1, 32(%ebx)
    movups %xmm2, 48(%ebx)
    pop %ebx
    ret
    .section .note.GNU-stack,"",@progbits
"""

MAIN32 = r"""
#include <stdio.h>
#include <string.h>
unsigned char given[64], seen[64];
void fire(void);
__asm__(
    ".text\n.globl fire\n.type fire,@function\nfire:\n"
    "movups given+16, %xmm0\nmovups given+32, %xmm1\nmovups given+48, %xmm2\n"
    "push $seen\nmov given, %eax\nmov given+4, %edx\nmov given+8, %ecx\n"
    "call probe@plt\nadd $4, %esp\nret");
int main(void)
{
    const char *names[] = {"eax", "edx", "ecx", "", "xmm0", "xmm1", "xmm2"};
    for (unsigned i = 0; i < sizeof given; i++)
        given[i] = i * 37 + 11;
    fire();
    for (int i = 0; i < 7; i++) {
        int at = i < 4 ? 4 * i : 16 * (i - 3), size = i < 4 ? 4 : 16;
        if (*names[i])
            printf("%s %s\n", names[i], memcmp(given + at, seen + at, size) ? "lost" : "kept");
    }
    return 0;
}
"""

TOUCH = [
    ".text",
    ".globl touch",
    ".type touch,@function",
    "touch: sub $8, %rsp",
    *(f"movups {16 * n}(%rdi), %xmm{n}" for n in range(16)),
    "lea variable@tlsdesc(%rip), %rax",
    "call *variable@tlscall(%rax)",
    *(f"movups %xmm{n}, {16 * n}(%rsi)" for n in range(16)),
    "add $8, %rsp",
    "ret",
    # too large for what is kept free in the static block: it is made at the first call
    '.section .tbss,"awT",@nobits',
    "variable: .zero 65536",
    '.section .note.GNU-stack,"",@progbits',
    "",
]

TOUCHING = """
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv)
{
    unsigned char given[256], seen[2][256];
    void *library = dlopen(argv[1], RTLD_NOW);
    void (*touch)(void *, void *) = library ? dlsym(library, "touch") : 0;
    if (!touch)
        return 1;
    for (int i = 0; i < 256; i++)
        given[i] = i * 37 + 11;
    touch(given, seen[0]);
    touch(given, seen[1]);
    for (int i = 0; i < 32; i++)
        if (memcmp(given + i % 16 * 16, seen[i / 16] + i % 16 * 16, 16))
            printf("xmm%d %d\\n", i % 16, i / 16);
    return 0;
}
"""
