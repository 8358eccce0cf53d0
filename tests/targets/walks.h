// SPDX-License-Identifier: Apache-2.0
// What a program hears of its own stack, as text: image and offset of every frame. It is the
// same in each run of a build.
#ifndef SOSC_WALKS_H
#define SOSC_WALKS_H
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>
#include <string.h>
#include <unwind.h>

enum { WALK_MOST = 256 };

struct walked {
	unsigned long hash;
	int count;
	int most; // stop then
	int exact; // frames whose address is not behind a call
	unsigned long cfa; // of the first frame
};

static inline void walked_word(struct walked *to, unsigned long word)
{
	to->hash = (to->hash ^ word) * 0x9e3779b97f4a7c15ul;
	to->hash ^= to->hash >> 29;
}

static inline unsigned long walked_place(void *addr)
{
	Dl_info info;
	struct walked place = {0, 0, 0, 0, 0};
	const char *file = addr ? "nowhere" : "";

	if (dladdr(addr, &info)) {
		file = strrchr(info.dli_fname, '/') ? strrchr(info.dli_fname, '/') : info.dli_fname;
		walked_word(&place, (unsigned long)addr - (unsigned long)info.dli_fbase);
	}
	while (*file)
		walked_word(&place, (unsigned char)*file++);
	return place.hash;
}

static inline void walked_add(struct walked *to, void *addr)
{
	static struct {
		unsigned long addr, place; // 1: is being filled in
	} known[1024]; // asked for once: the trace is long enough
	unsigned long wanted = (unsigned long)addr, at = wanted % 1021, free = 0;
	unsigned long place = 0;

	if (__atomic_load_n(&known[at].addr, __ATOMIC_ACQUIRE) == wanted)
		place = known[at].place;
	if (!place)
		place = walked_place(addr);
	if (wanted && __atomic_compare_exchange_n(&known[at].addr, &free, 1, 0, __ATOMIC_ACQ_REL,
						  __ATOMIC_RELAXED)) {
		known[at].place = place;
		__atomic_store_n(&known[at].addr, wanted, __ATOMIC_RELEASE);
	}
	walked_word(to, place);
	to->count++;
}

static inline _Unwind_Reason_Code walked_step(struct _Unwind_Context *context, void *data)
{
	struct walked *to = (struct walked *)data;
	int before = -1;
	unsigned long ip = _Unwind_GetIP(context), again = _Unwind_GetIPInfo(context, &before);

	if (!to->cfa)
		to->cfa = _Unwind_GetCFA(context);
	to->exact += before;
	walked_add(to, (void *)ip);
	walked_add(to, (void *)again);
	walked_add(to, (void *)_Unwind_GetRegionStart(context));
	if (!to->exact) // distances of frames, but not over a signal's
		walked_word(to, _Unwind_GetCFA(context) - to->cfa);
	to->count -= 2;
	return to->count == to->most ? _URC_END_OF_STACK : _URC_NO_REASON;
}

static inline int walk(struct walked *to)
{
	to->cfa = 0;
	return (int)_Unwind_Backtrace(walked_step, to);
}
#endif
