#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Set up what `make WHAT` needs: packages of the system, .venv, soscope in it.
#
#	scripts/setup.sh demo|test
#
# Quick when there is nothing to do. Packages are installed by root alone; anybody else is
# told the one command. Ends with 0, or with 2 and a sentence that says what is missing.
set -eu

what=${1:?usage: scripts/setup.sh demo|test}
cd "$(dirname "$0")/.."
venv=.venv

say() {
	printf 'soscope: %s\n' "$*" >&2
}

fail() {
	say "$@"
	exit 2
}

new_enough() {
	"$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

# The distribution's Python first: python3-venv and python3-numpy belong to it.
find_python() {
	for python in ${PYTHON:+"$PYTHON"} /usr/bin/python3 python3 python3.14 python3.13 \
		python3.12 python3.11; do
		if command -v "$python" >/dev/null && new_enough "$python"; then
			command -v "$python"
			return
		fi
	done
	found=$(python3 --version 2>/dev/null || echo 'no python3')
	fail "Python 3.11 or newer is needed to run soscope, here is ${found};" \
		"set PYTHON to another one, for example 'make $what PYTHON=/opt/python/bin/python3'"
}

# ---- packages of the system --------------------------------------------------

any() { # PATH...
	for path; do
		[ ! -e "$path" ] || return 0
	done
	return 1
}

present() { # PROBE
	case $1 in
	py:*) "$python" -c "import ${1#py:}" 2>/dev/null ;;
	# shellcheck disable=SC2086  # a pattern: versions are in the names of some folders
	/*) any $1 ;;
	*) command -v "$1" >/dev/null ;;
	esac
}

lists() {
	echo packaging/apt-demo.txt
	[ "$what" = demo ] || echo packaging/apt-test.txt
}

# Print the names of the packages whose probes fail, one choice a line.
missing() {
	# shellcheck disable=SC2046  # names of our own files, without blanks
	sed -e 's/#.*//' -e '/^[[:space:]]*$/d' $(lists) | while read -r probe packages; do
		present "$probe" || echo "$packages"
	done
}

# Print the first of its arguments that apt can install, or the first.
known() {
	for package in "$@"; do
		if apt-cache show --no-all-versions "$package" >/dev/null 2>&1; then
			echo "$package"
			return
		fi
	done
	echo "$1"
}

choose() {
	missing | while read -r packages; do
		# shellcheck disable=SC2086  # a line of names
		known $packages
	done | sort -u | tr '\n' ' '
}

update_lists() {
	say 'reading the package lists (apt-get update)'
	apt-get update -qq </dev/null >&2 || say 'apt-get update did not succeed; going on with what there is'
}

install_packages() {
	[ -n "$(missing)" ] || return 0
	command -v apt-get >/dev/null ||
		fail "these packages of Debian or Ubuntu are missing, and there is no apt-get: $(choose)"
	if [ "$(id -u)" -ne 0 ]; then
		fail "some packages are missing; install them with
  sudo apt-get install --no-install-recommends $(choose)"
	fi
	[ -n "$(find /var/lib/apt/lists -name '*Packages*' 2>/dev/null | head -n 1)" ] || update_lists
	packages=$(choose)
	say "installing $packages"
	# shellcheck disable=SC2086  # a line of names
	apt_get $packages || {
		update_lists # lists of last month name files that are gone
		packages=$(choose)
		# shellcheck disable=SC2086
		apt_get $packages || fail "apt-get could not install $packages"
	}
	still=$(choose)
	[ -z "$still" ] || fail "installed, but what they are for is not there: $still"
}

# Install, and show what apt said only if it did not work.
apt_get() {
	log=$(mktemp)
	# RUNLEVEL=1: a package's server (postgresql) is installed, not started.
	if DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq \
		--no-install-recommends -o Dpkg::Use-Pty=0 "$@" </dev/null >"$log" 2>&1; then
		rm -f "$log"
	else
		cat "$log" >&2
		rm -f "$log"
		return 1
	fi
}

# ---- the environment ---------------------------------------------------------

# One word that changes with anything that an installed soscope is made of.
fingerprint() {
	{
		"$python" -V
		echo "${SOSCOPE_NO_AGENT:-0}"
		find LICENSE README.md pyproject.toml build_backend native prototypes src integrations -type f \
			! -path '*/__pycache__/*' ! -path '*_cache/*' ! -path 'src/soscope/_agent/*' \
			-exec cksum {} + 2>/dev/null | sort
	} | cksum | tr -d ' '
}

make_venv() {
	# An environment of another Python, or of a moved folder, is no use.
	if ! new_enough $venv/bin/python ||
		[ "$(cat $venv/.made-for 2>/dev/null)" != "$python $PWD" ]; then
		say "making $venv with $python"
		rm -rf $venv
		"$python" -m venv $venv || fail "'$python -m venv' does not work"
		echo "$python $PWD" >$venv/.made-for
	fi
}

install_soscope() {
	print=$(fingerprint)
	# What `make test` installed is enough for `make demo`, not the other way round.
	for done in "$venv/.installed-$what" $venv/.installed-test; do
		[ "$(cat "$done" 2>/dev/null)" != "$print" ] || return 0
	done
	from=.
	[ "$what" = demo ] || from='.[test]'
	say "installing soscope into $venv"
	rm -f $venv/.installed-*
	$venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile "$from" >&2 ||
		fail 'pip could not install soscope; its message is above'
	# pip would use one processor, and compile what packages have to test themselves. Like pip,
	# this leaves a file as it is if this Python does not understand it.
	$venv/bin/python -m compileall -qq -j 0 -x '/tests/' $venv/lib || :
	echo "$print" >"$venv/.installed-$what"
}

python=$(find_python)
install_packages
make_venv
install_soscope
