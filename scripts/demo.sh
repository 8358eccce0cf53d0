#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Show what soscope does, on programs that every system has.
set -eu
cd "$(dirname "$0")/.."
PATH=$PWD/.venv/bin:$PATH

show() {
	printf '\n$ %s\n' "$*"
	# The trace goes to stderr; here it is read in order with what the program prints.
	eval "$@" 2>&1
}

echo 'Every call of three functions that cat makes, with results and times:'
show "soscope trace -T -e 'open*,read,close' -- cat /etc/hostname"

echo
echo 'What a Python start costs, by function and library boundary:'
show "soscope trace -c --from all -- python3 -c 'import json' | head -n 25"

echo
echo 'Record now, read later:'
recording=$(mktemp -d)
trap 'rm -rf "$recording"' EXIT
show "soscope trace --record $recording/ls.sosr -- ls -d /usr"
show "soscope report $recording/ls.sosr | head -n 12"
