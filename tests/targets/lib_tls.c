// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-Wl,-z,lazy
// Thread-local variables of a library that comes late: reached by __tls_get_addr.
#include "leaf.h"
#include "truth.h"

int tls_run(int times);

static __thread int kept[64];

int tls_run(int times)
{
	int *volatile all = kept;
	for (int i = 0; i < times; i++)
		all[i % 64] = f0(all[i % 64]);
	truth_calls("f0", times);
	return all[0];
}
