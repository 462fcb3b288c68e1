# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
#
# shellcheck disable=SC2034 # used by the scripts that read this
#
# What rxe-up and rxe-down share: the record of what was done, and how they speak. Read by both.

# One line for each thing done: "link NAME NETDEV" or "module NAME", in the order of doing. It is
# gone after a reboot, as links and modules are.
rxe_state=/run/gracekv-rxe.state
# Outlives a reboot, so its first line is the record.
rxe_limits=/etc/security/limits.d/60-gracekv-rdma.conf
rxe_limits_mark='# Written by deploy/rxe-up of GraceKV; deploy/rxe-down removes it.'

umask 022 # what is written here, root alone may change: check_state
rxe_me=${0##*/}
rxe_dry=no
rxe_wait_s=30
rxe_bold='' rxe_red='' rxe_plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
	rxe_bold=$'\e[1m' rxe_red=$'\e[31m' rxe_plain=$'\e[0m'
fi

step() { printf '%s%-8s%s %s\n' "$rxe_bold" "$1" "$rxe_plain" "$2"; }
more() { printf '%-8s %s\n' '' "$1"; }

# fail CODE "what failed: why (what to do)"
fail() {
	printf '%s%s: %s%s\n' "$rxe_red" "$rxe_me" "$2" "$rxe_plain" >&2
	exit "$1"
}

# The caller has said what it is for; with --dry-run only the words are printed.
run() {
	if [ "$rxe_dry" = yes ]; then
		more "would run: $*"
	else
		"$@"
	fi
}

need_root() {
	if [ "$(id -u)" -ne 0 ] && [ "$rxe_dry" = no ]; then
		fail 3 "no root: links and modules belong to the administrator (sudo $0, or --dry-run to see what it would do)"
	fi
}

# A name that may stand in a path or a command.
plain_name() { [[ $1 =~ ^[A-Za-z0-9_][A-Za-z0-9_.@-]*$ ]]; }

# Two at once would choose the same link's name, and lose each other's lines of the record.
alone() {
	local fd
	[ "$rxe_dry" = no ] && command -v flock >/dev/null || return 0
	exec {fd}<"${rxe_state%/*}"
	flock -w "$rxe_wait_s" "$fd" ||
		fail 3 "another rxe-up or rxe-down has been at work for $rxe_wait_s s (wait for it, or end it)"
}

# The record says what root shall undo: it must be a file that only root can have written.
check_state() {
	local owner mode
	[ -e "$rxe_state" ] || [ -L "$rxe_state" ] || return 0
	if [ ! -L "$rxe_state" ] && [ -f "$rxe_state" ]; then
		read -r owner mode <<<"$(stat -c '%u %a' -- "$rxe_state")"
		[[ $owner != 0 && $owner != "$EUID" ]] || (((8#$mode & 8#022) != 0)) || return 0
	fi
	fail 3 "$rxe_state is no file that only root can write, so rxe-up has not written it (look at it, then remove it)"
}

# The network device under an rxe link; nothing for any other RDMA device.
rxe_parent() {
	local parent=
	if [ -r "/sys/class/infiniband/$1/parent" ]; then
		read -r parent <"/sys/class/infiniband/$1/parent" || true
	fi
	printf '%s' "$parent"
}

limits_are_ours() {
	local line=
	[ -r "$rxe_limits" ] && read -r line <"$rxe_limits" && [ "$line" = "$rxe_limits_mark" ]
}
