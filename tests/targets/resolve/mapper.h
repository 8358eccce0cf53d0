// SPDX-License-Identifier: Apache-2.0
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
/* Map the library at offset 8192 of a file, as a loader would. */
static const void *own_more(const char *path)
{
	int file = open(path, O_RDONLY);
	static char head[4096];
	if (pread(file, head, sizeof(head), 8192) != sizeof(head))
		return 0;
	Elf64_Ehdr *ehdr = (Elf64_Ehdr *)head;
	Elf64_Phdr *phdr = (Elf64_Phdr *)(head + ehdr->e_phoff);
	char *base = mmap(0, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < ehdr->e_phnum; i++) {
		if (phdr[i].p_type != PT_LOAD)
			continue;
		int prot = (phdr[i].p_flags & PF_R ? PROT_READ : 0) |
			   (phdr[i].p_flags & PF_W ? PROT_WRITE : 0) |
			   (phdr[i].p_flags & PF_X ? PROT_EXEC : 0);
		Elf64_Addr start = phdr[i].p_vaddr & -4096L, more = phdr[i].p_vaddr - start;
		mmap(base + start, phdr[i].p_filesz + more, prot, MAP_PRIVATE | MAP_FIXED, file,
		     8192 + phdr[i].p_offset - more);
	}
	close(file);
	return base;
}
