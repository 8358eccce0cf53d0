// SPDX-License-Identifier: Apache-2.0
static int plain(int x)
{
	return x + 4;
}

static int (*choose(void))(int)
{
	return plain;
}

int fifunc(int x) __attribute__((ifunc("choose")));
