// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-nostartfiles
// No constructor of any kind.
#include "plug_body.h"
