# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # shared with tests/run and lib/setup.sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
#
# The suite rxe: soft-RoCE in emulated guests. Read by tests/run.

# Debian's names; installed for this suite only.
packages_rxe=(qemu-system-x86 linux-image-amd64 busybox-static kmod cpio xz-utils iproute2
    iputils-ping perftest)

rxe_boot=

make_rxe_boot() {
    rxe_boot=$("$here/rxe/make-boot" "$work/build-rxe") && [ -n "$rxe_boot" ]
}

# rxe_guests NAME FOLDER SECONDS JOB... - guests that leave report and counts in their folder. The
# report is shown as it grows; what the guests printed, where one failed.
rxe_guests() {
    local name=$1 folder=$work/build-rxe/$2 seconds=$3 log=$logs/rxe-$2.log runner before=$failed
    shift 3
    rm -rf "$folder"
    mkdir -p "$folder"
    : >"$folder/report"
    GRACEKV_TEST_BUILD=$work/build-test GRACEKV_TEST_NAME=$name GRACEKV_TEST_FULL=$full \
        GRACEKV_TEST_PYTHON=$venv/bin/python python3 "$here/rxe/guests.py" --boot "$rxe_boot" \
        --dir "$folder" --memory 1536 --timeout "$seconds" "$@" >"$log" 2>&1 &
    runner=$!
    tail -n +1 -s 0.2 -f --pid="$runner" "$folder/report"
    if wait "$runner"; then
        add_counts "$folder/counts" || fail "$name (no counts)" "$log"
        return
    fi
    add_counts "$folder/counts"
    if [ "$failed" = "$before" ]; then
        fail "$name (the guests)" "$log"
    else
        sed 's/^/      | /' "$log"
    fi
}

suite_rxe() {
    local job=$here/rxe/job select='-m "not no_device"'
    build build-test || return 0
    check "rxe: pytest in a venv" make_venv
    [ -x "$venv/bin/python" ] || return 0
    check "rxe: a kernel with rdma_rxe, and an initrd" make_rxe_boot
    [ -n "$rxe_boot" ] || return 0
    [ -n "${GRACEKV_TEST_ONLY:-}" ] && select+=" -k $(printf %q "$GRACEKV_TEST_ONLY")"
    GRACEKV_TEST_CASES=1 rxe_guests "rxe (one guest)" one 600 "$job one $select"
    GRACEKV_TEST_CASES=1 rxe_guests "rxe (two guests)" two 600 "$job server" "$job client $select"
    rxe_guests "rxe (peer failure)" failure 240 "$job server" "$job failure $select"
    rxe_guests "rxe (rxe-up and rxe-down)" up 200 "$here/rxe/test_rxe_up.sh"
}
