// SPDX-License-Identifier: Apache-2.0
// How programs tell sets.
#include "account.h"

static void put_signals(const sigset_t *set)
{
	put("[0");
	for (int number = 1; number < 65; number++)
		if (((const unsigned long *)set)[0] >> (number - 1) & 1) {
			put(",");
			put_number(number);
		}
	put("]");
}

static void put_descriptors(int count, const fd_set *set)
{
	put("[0");
	for (int number = 0; number < count; number++)
		if (FD_ISSET(number, set)) {
			put(",");
			put_number(number);
		}
	put("]");
}
