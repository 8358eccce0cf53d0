// SPDX-License-Identifier: Apache-2.0
// A function in the place of labs: by its name for LD_PRELOAD, by another one for soscope.
long own_labs(long x)
{
	return x < 0 ? -x : x;
}

long labs(long x)
{
	return x < 0 ? -x : x;
}
