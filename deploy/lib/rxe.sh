# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
#
# shellcheck disable=SC2034 # used by who reads this
#
# What rxe-up and rxe-down share: the record of what was done, and how they speak. Read by both.

# One line for each thing done: "link NAME NETDEV" or "module NAME", in the order of doing. It is
# gone after a reboot, as links and modules are.
rxe_state=/run/gracekv-rxe.state
# Outlives a reboot, so its first line is the record.
rxe_limits=/etc/security/limits.d/60-gracekv-rdma.conf
rxe_limits_mark='# Written by deploy/rxe-up of GraceKV; deploy/rxe-down removes it.'

rxe_me=${0##*/}
rxe_dry=no
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

# Whoever calls has said what it is for; with --dry-run only the words are printed.
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
