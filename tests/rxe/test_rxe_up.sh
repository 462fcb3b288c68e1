#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
#
# deploy/rxe-up and rxe-down with a real module: a job for a guest (README.md), as root. It takes
# the guest's rxe0 and modules away first. Prints a line for each check; exits 0 where all hold.
set -uo pipefail

root=${RXE_ROOT:-$(cd -- "$(dirname -- "$0")/../.." && pwd)}
netdev=${1:-${RXE_NETDEV:-rdmanet}}
up=$root/deploy/rxe-up
down=$root/deploy/rxe-down
limits=/etc/security/limits.d/60-gracekv-rdma.conf
state=/run/gracekv-rxe.state
good=0
bad=() # what failed

# A guest, or nobody asked for this: modules and links of a machine are no toy.
grep -q 'rxe\.guest=\|node=' /proc/cmdline || {
    echo "test_rxe_up.sh: this is no guest of tests/rxe, and it unloads modules (see README.md)" >&2
    exit 77
}

scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT

# Also into the report of the suite, where there is one.
say() {
    printf '%s\n' "$1"
    [ -z "${RXE_DIR:-}" ] || printf '%s\n' "$1" >>"$RXE_DIR/report"
}

verdict() { # NAME STATUS-OF-WHAT-CAME-BEFORE
    if [ "$2" -eq 0 ]; then
        say "ok    rxe-up: $1"
        good=$((good + 1))
    else
        say "FAIL  rxe-up: $1"
        sed 's/^/      | /' "$scratch/out" "$scratch/err"
        bad+=("rxe-up: $1")
    fi
}

# try CODE COMMAND... - it must exit with CODE within a minute.
try() {
    local want=$1 got=0
    shift
    timeout 60 "$@" >"$scratch/out" 2>"$scratch/err" </dev/null || got=$?
    printf 'exit code %d, %d is due\n' "$got" "$want" >>"$scratch/out"
    [ "$got" -eq "$want" ]
}

says() { grep -q -- "$1" "$scratch/out" "$scratch/err"; }
one_line_of_error() { [ "$(wc -l <"$scratch/err")" -eq 1 ] && grep -q '^rxe-\(up\|down\): ' "$scratch/err"; }
loaded() { cut -d' ' -f1 /proc/modules | sort; }
# By sysfs: the command rdma has the kernel load ib_core, which is to be seen coming and going.
links() { find /sys/class/infiniband -mindepth 1 -printf '%f\n' 2>/dev/null; }

# As before rxe-up has ever run.
for link in $(links); do rdma link delete "$link"; done
for _ in 1 2 3 4 5; do
    for module in rdma_rxe rdma_ucm rdma_cm iw_cm ib_cm ib_uverbs ib_core ip6_udp_tunnel udp_tunnel crc32_generic; do
        rmmod "$module" 2>/dev/null
    done
done
[ ! -d /sys/module/rdma_rxe ] && [ ! -d /sys/module/ib_core ]
verdict "the guest is as before: no module" $?
rm -f "$limits" "$state"

try 3 "$up" nosuch0 && says 'no such network device' && says "$netdev" && one_line_of_error
verdict "no such network device: says which there are" $?
try 3 "$up" lo && says loopback && one_line_of_error
verdict "loopback is refused" $?
ip link add dummy9 type dummy 2>/dev/null || modprobe dummy
ip link show dummy9 >/dev/null 2>&1 || ip link add dummy9 type dummy
loaded >"$scratch/before"
try 3 "$up" dummy9 && says 'it is down' && one_line_of_error
verdict "a device that is down is refused" $?
ip link set dummy9 up
sysctl -qw net.ipv6.conf.dummy9.disable_ipv6=1
try 3 "$up" dummy9 && says 'no address' && one_line_of_error
verdict "a device without an address is refused" $?
try 2 "$up" "$netdev" other && one_line_of_error && try 2 "$up" --what && one_line_of_error
verdict "wrong usage" $?
try 3 setpriv --reuid=65534 --clear-groups "$up" "$netdev" && says sudo && one_line_of_error
verdict "an ordinary user is told of sudo" $?
try 0 setpriv --reuid=65534 --clear-groups "$up" --dry-run "$netdev" && says 'would run: modprobe rdma_rxe' &&
    says 'Nothing was done' && [ ! -d /sys/module/rdma_rxe ] && [ ! -e "$state" ]
verdict "a dry run says what it would do, and does nothing" $?

# A kernel without the module: other commands in its place.
mkdir "$scratch/bin"
printf '#!/bin/sh\nexit 1\n' >"$scratch/bin/modprobe"
printf '#!/bin/sh\necho 6.1.0-9-cloud-amd64\n' >"$scratch/bin/uname"
chmod +x "$scratch/bin/modprobe" "$scratch/bin/uname"
try 3 env PATH="$scratch/bin:$PATH" "$up" "$netdev" && says rdma_rxe && says soft0 && one_line_of_error &&
    { says 'cloud kernel' || says container; }
verdict "no module: says why, and of soft0" $?
printf '#!/bin/sh\ncase " $* " in *" -n "*) exit 0;; *" --show-depends "*) exit 0;; esac\necho "modprobe: ERROR: could not insert: Key was rejected by service" >&2; exit 1\n' \
    >"$scratch/bin/modprobe"
try 3 env PATH="$scratch/bin:$PATH" "$up" "$netdev" && says 'Key was rejected' && says 'Secure Boot' && one_line_of_error
verdict "a module that is refused: says so, and of Secure Boot" $?
[ -z "$(links)" ] && [ ! -e "$limits" ]
verdict "what failed has left no link and no limits" $?
rm -f "$state"

try 0 "$up" "$netdev" && says 'ACTIVE' && says "kv-server --device rxe0" &&
    says '::ffff:' && [ "$(links)" = rxe0 ] && [ -e "$limits" ]
verdict "up: module, link, port, GIDs, limits" $?
ibv_devinfo -d rxe0 2>/dev/null | grep -q PORT_ACTIVE
verdict "ibv_devinfo sees it" $?
cp "$state" "$scratch/state"
try 0 "$up" "$netdev" && says 'already' && says 'all there' && [ "$(links)" = rxe0 ] && cmp -s "$state" "$scratch/state"
verdict "up again changes nothing" $?
try 3 "$down" nosuch0 && one_line_of_error && [ "$(links)" = rxe0 ]
verdict "down of a device without a link of ours is refused" $?
try 3 setpriv --reuid=65534 --clear-groups "$down" && says sudo && one_line_of_error
verdict "down: an ordinary user is told of sudo" $?
timeout 60 ibv_rc_pingpong -d rxe0 -g 1 >/dev/null 2>&1 & # waits for its client, with a queue pair
user=$!
for _ in {1..100}; do
    rdma res show qp link rxe0 | grep -q pingpong && break
    sleep 0.1
done
try 3 "$down" && says 'in use by ibv_rc_pingpong' && says force && one_line_of_error && [ "$(links)" = rxe0 ] && [ -e "$limits" ]
verdict "down refuses while somebody uses the link" $?
kill "$user" 2>/dev/null
wait "$user" 2>/dev/null
try 0 "$down" --dry-run && says 'would be removed' && [ "$(links)" = rxe0 ] && [ -e "$state" ]
verdict "down: a dry run does nothing" $?
try 0 "$down" && [ -z "$(links)" ] && [ ! -e "$limits" ] && [ ! -e "$state" ]
verdict "down: link and limits are gone" $?
loaded >"$scratch/after"
diff "$scratch/before" "$scratch/after" >>"$scratch/out"
verdict "down: the same modules are loaded as before up" $?
try 0 "$down" && says nothing
verdict "down again has nothing to undo" $?

# A link and modules that somebody else made stay.
modprobe -a ib_uverbs rdma_rxe && rdma link add mine type rxe netdev "$netdev"
try 0 "$up" "$netdev" && says 'mine is on' && ! grep -q '^link' "$state" 2>/dev/null
verdict "up takes the link that is there" $?
try 0 "$down" && [ "$(links)" = mine ] && [ -d /sys/module/rdma_rxe ]
verdict "down leaves the link of others" $?
rdma link delete mine

# For later users.
try 0 "$up" "$netdev"
verdict "up once more, after all that" $?
[ -z "${RXE_DIR:-}" ] || printf '%s\n' "$good ${#bad[@]} 0" "${bad[@]}" >"$RXE_DIR/counts"
exit $((${#bad[@]} > 0))
