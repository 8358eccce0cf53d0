// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-Wl,-z,lazy
#include "plug_body.h"
