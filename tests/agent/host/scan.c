// SPDX-License-Identifier: Apache-2.0
// scan SEED SLOTS GAP TURN slots|code: a text of chance bytes with displacements to slots that lie GAP
// bytes apart; what is found must be what looking at each place by itself finds. TURN: ns
// for which the text is looked through at a time, 0 = to the end. code: slots are code that is
// called, and other uses are none.
#include "host.h"

#include "base/clock.h"
#include "image/image.h"
#include "hook/scan.h"

#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { TEXT = 1 << 20, PLANTED = 20000, SLOTS_MAX = 4096 };

static uint64_t state;
static uint32_t uses[SLOTS_MAX], sites[SLOTS_MAX];

static uint64_t chance(void)
{
	return host_random(&state);
}

int main(int argc, char **argv)
{
	static struct sosc_scanned slots[SLOTS_MAX];
	static const Elf64_Phdr phdr = {
		.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_filesz = TEXT};
	struct sosc_loaded image = {.phdr = &phdr, .phnum = 1};
	struct sosc_scan scan = {.image = &image, .slots = slots};
	uint64_t gap, low, turn, turns = 0, found = 0;
	uint8_t *text;

	CHECK(argc == 6);
	scan.of_code = !strcmp(argv[5], "code");
	state = strtoull(argv[1], NULL, 10) * 0x9e3779b97f4a7c15;
	scan.count = (uint32_t)atoi(argv[2]);
	gap = strtoull(argv[3], NULL, 10);
	CHECK(scan.count && scan.count <= SLOTS_MAX);
	// exactly the text, so that a look behind it is seen
	text = (uint8_t *)mmap(NULL, TEXT + SOSC_PAGE, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(text != MAP_FAILED && mprotect(text + TEXT, SOSC_PAGE, PROT_NONE) == 0);
	image.bias = image.start = (uint64_t)text;
	image.end = image.start + TEXT;
	low = (image.start + (chance() % (8 << 20)) - (4 << 20)) & ~7ul;
	for (uint32_t i = 0; i < scan.count; i++) // in no order
		slots[i].addr = low + (uint64_t)((i * 7919ul) % scan.count) * gap;
	for (uint64_t i = 0; i < TEXT; i++)
		text[i] = (uint8_t)(chance() >> 24);
	for (int i = 0; i < PLANTED; i++) {
		uint64_t at = 2 + chance() % (TEXT - 5);
		uint64_t slot = slots[chance() % scan.count].addr;
		int32_t displacement = (int32_t)(slot - (image.start + at + 4));

		if (scan.of_code && chance() & 1)
			text[at - 1] = 0xe8;
		else
			memcpy(text + at - 2, chance() & 1 ? "\xff\x15" : "\xff\x25", 2);
		memcpy(text + at, &displacement, 4);
	}
	host_control(SOSC_INSTRUMENT_COUNT, 1);
	sosc_scan_sort(&scan);
	turn = strtoull(argv[4], NULL, 10);
	while (!sosc_scan_text(&scan, turn ? sosc_clock_ns(CLOCK_MONOTONIC_RAW) + turn : 0))
		turns++;
	CHECK(!turn || turns > 3);
	for (uint64_t at = 6; at + 4 <= TEXT; at++) {
		int32_t displacement;
		uint64_t target;

		memcpy(&displacement, text + at, 4);
		target = image.start + at + 4 + (uint64_t)(int64_t)displacement;
		if (target - low > scan.count * gap)
			continue; // as nearly all do: there is none to look for
		for (uint32_t i = 0; i < scan.count; i++)
			if (slots[i].addr == target) {
				uses[i] += !scan.of_code;
				sites[i] += scan.of_code ?
						    text[at - 1] == 0xe8 :
						    text[at - 2] == 0xff && (text[at - 1] == 0x15 ||
									     text[at - 1] == 0x25);
				found++;
			}
	}
	CHECK(found > PLANTED / 2);
	for (uint32_t i = 0; i < scan.count; i++) {
		uint32_t count = 0;

		CHECK(!i || slots[i - 1].addr < slots[i].addr);
		for (uint32_t at = slots[i].site; at; at = scan.sites[at].next)
			count++;
		CHECK(count == sites[i]);
		CHECK(!slots[i].uses == !uses[i]);
	}
	sosc_scan_end(&scan);
	printf("%lu uses\n", found);
	return 0;
}
