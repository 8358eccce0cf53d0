# SPDX-License-Identifier: Apache-2.0
"""Run a command with a frida agent written in C in it: enter and leave of one function.

frida_peer.py FUNCTION COMMAND [ARGUMENT...]; needs the package frida.
"""

from __future__ import annotations

import os
import sys
import threading

import frida

AGENT = """
const ring = Memory.alloc(32 << 16), position = Memory.alloc(8); // its own data is read-only
const module = new CModule(`
#include <gum/guminterceptor.h>
#include <gum/gumprocess.h>
extern struct { unsigned long tsc, a, b, c; } ring[1 << 16];
extern unsigned long position;
static unsigned long clock_now(void)
{
	unsigned int low, high;
	asm volatile("rdtsc" : "=a"(low), "=d"(high));
	return (unsigned long)high << 32 | low;
}
void onEnter(GumInvocationContext *ic)
{
	unsigned long at = position++ & 0xffff;
	ring[at].tsc = clock_now();
	ring[at].a = (unsigned long)gum_invocation_context_get_nth_argument(ic, 0);
}
void onLeave(GumInvocationContext *ic)
{
	unsigned long at = position++ & 0xffff;
	ring[at].tsc = clock_now();
	ring[at].a = (unsigned long)gum_invocation_context_get_return_value(ic);
}
`, { ring, position });
const name = "%s";
let address = null;
for (const one of Process.enumerateModules()) {
	address = one.findExportByName(name);
	if (address !== null)
		break;
}
Interceptor.attach(address, module);
"""


def main() -> int:
    """Spawn, attach, resume and wait; return the exit status."""
    function, command = sys.argv[1], sys.argv[2:]
    ended = threading.Event()
    device = frida.get_local_device()
    pid = device.spawn(command, stdio="inherit")
    session = device.attach(pid)
    session.on("detached", lambda *_: ended.set())
    script = session.create_script(AGENT % function)
    script.load()
    device.resume(pid)
    ended.wait(float(os.environ.get("FRIDA_TIMEOUT", "120")))
    return 0


sys.exit(main())
