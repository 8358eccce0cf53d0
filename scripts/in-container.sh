#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Run a command as in a container: an own PID namespace, no CAP_SYS_ADMIN, and a root folder that
# is no mount point. For root; nothing of it is left afterwards.
#
#   scripts/in-container.sh .venv/bin/python -m pytest -q -n 1 tests/integration
set -eu
[ $# -gt 0 ] || { echo "usage: $0 COMMAND [ARGUMENT...]" >&2; exit 2; }

root=$(mktemp -d)
chmod 755 "$root" # the root folder of the command: its programs may be other users'
# never recursively: all of the machine is mounted there, if only for the command
trap 'find "$root" -maxdepth 1 -type l -delete; rmdir "$root"/* "$root"' EXIT
status=0
# shellcheck disable=SC2016  # the inner shell expands it
unshare --mount --pid --fork --kill-child --propagation private sh -euc '
	root=$1
	shift
	for one in /* ; do
		there=$root$one
		if [ -L "$one" ]; then
			cp -P "$one" "$there"
		elif [ -d "$one" ]; then
			mkdir -p "$there"
			case $one in
			/proc) mount -t proc proc "$there" ;;
			*) mount --rbind "$one" "$there" ;;
			esac
		fi
	done
	exec setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin \
		chroot "$root" env --chdir="$PWD" "$@"
' sh "$root" "$@" || status=$?
exit $status
