# SPDX-License-Identifier: Apache-2.0
"""Attach frida to a process, count the calls of one function there, and detach.

frida_attach.py PID FUNCTION; needs the package frida.
"""

from __future__ import annotations

import sys

import frida

AGENT = """
let address = null, count = 0;
for (const one of Process.enumerateModules()) {
	address = one.findExportByName("%s");
	if (address !== null)
		break;
}
Interceptor.attach(address, { onEnter() { count++; } });
"""

session = frida.get_local_device().attach(int(sys.argv[1]))
script = session.create_script(AGENT % sys.argv[2])
script.load()
session.detach()
