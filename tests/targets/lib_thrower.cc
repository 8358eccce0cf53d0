// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf
// A plugin that throws through its host's frames and catches on their far side.
#include "leaf.h"
#include "truth.h"

#include <string>

COUNTED(f0);

extern "C" int plugin_catch(int (*host)(int), int x);
extern "C" int plugin_throw(int x);
extern "C" void plugin_report(void);

int plugin_throw(int x)
{
	throw std::to_string(CALL(f0, x));
}

int plugin_catch(int (*host)(int), int x)
{
	try {
		return host(x);
	} catch (const std::string &text) {
		return static_cast<int>(text.size());
	}
}

void plugin_report(void)
{
	REPORT(f0);
}
