// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-Wl,--no-as-needed -lgcc_s; cflags=-fno-inline -fno-optimize-sibling-calls
// libwalker: a plug-in that brings an unwinder with it.
#include "walks.h"
#include "leaf.h"

static struct walked heard;
static int left;

static int down(int x)
{
	if (!left--)
		return walk(&heard) + x;
	return fcall(down, x + 1) + 1;
}

unsigned long walker(int depth);
unsigned long walker(int depth)
{
	heard = (struct walked){.most = -1};
	left = depth;
	(void)down(0);
	return heard.hash + (unsigned long)heard.count;
}
