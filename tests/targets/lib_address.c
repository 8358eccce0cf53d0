// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf
#include "address.h"

#include "leaf.h"

int (*gaddress(void))(int)
{
	return f0;
}
