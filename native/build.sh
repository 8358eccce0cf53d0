#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Build the agent by hand, as CMakeLists.txt does.
set -e
cd "$(dirname "$0")"
out=${1:-../src/soscope/_agent}
mkdir -p "$out"
${CC:-gcc} -std=gnu17 -O2 -g0 -fPIC -ffreestanding -fno-builtin -fvisibility=hidden -fno-plt \
	-mgeneral-regs-only -fno-stack-protector -fcf-protection=branch \
	-fasynchronous-unwind-tables -fno-jump-tables -fno-tree-loop-distribute-patterns \
	-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wconversion \
	-Werror=implicit-function-declaration \
	-Iinclude -Iagent -nostdlib -shared -Wl,-T,agent.lds -Wl,-Bsymbolic -Wl,--eh-frame-hdr \
	-Wl,--build-id=sha1 -Wl,-z,noexecstack -Wl,-z,defs -Wl,--hash-style=gnu \
	-Wl,-soname,libsoscope-agent.so -Wl,-init,sosc_preload -Wl,-z,initfirst \
	-o "$out/libsoscope-agent.so" $(find agent -name '*.[cS]' | sort)
