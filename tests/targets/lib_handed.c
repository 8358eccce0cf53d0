// SPDX-License-Identifier: Apache-2.0
// A function that jumps to another image's in the place of a call.
long kept(long n);
long handed(long n);

__attribute__((noinline, optimize("O2"))) long handed(long n)
{
	return kept(n + 1);
}
