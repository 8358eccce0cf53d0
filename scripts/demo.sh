#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Show what soscope does, on programs that every system has.
set -eu
cd "$(dirname "$0")/.."
PATH=$PWD/.venv/bin:$PATH
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Show a command and what it prints: the program's output and the trace, which goes to
# standard error, together; of a long text the beginning and the end.
show() { # LINES COMMAND
	printf '\n$ %s\n' "$2"
	rm -f "$scratch/status"
	# Through a pipe, because cat has a short cut of its own from file to file.
	{ eval "$2" || echo $? >"$scratch/status"; } 2>&1 | cat >"$scratch/said"
	if [ "$(wc -l <"$scratch/said")" -gt $(($1 + 4)) ]; then
		head -n "$1" "$scratch/said"
		echo '...'
		tail -n 3 "$scratch/said"
	else
		cat "$scratch/said"
	fi
	[ ! -e "$scratch/status" ] || exit "$(cat "$scratch/status")"
}

echo 'The files that cat opens, with results and times:'
show 20 "soscope trace -T -e 'open*,read,close' -- cat /etc/hostname"

echo
echo 'What starting Python costs, by function and library boundary:'
show 24 "soscope trace -c --from all -- python3 -c 'import json'"

echo
echo 'Record now, read later:'
recording=$scratch/ls.sosr
show 20 "soscope trace --record $recording -- ls -d /usr"
show 12 "soscope report $recording"
