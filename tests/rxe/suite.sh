# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # shared with tests/run and lib/setup.sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
#
# The suite rxe: Soft-RoCE in emulated guests. Read by tests/run.

# Debian's names; installed for this suite only.
packages_rxe=(qemu-system-x86 linux-image-amd64 busybox-static kmod cpio xz-utils iproute2
    iputils-ping perftest "${packages_linearizability[@]}")

rxe_boot=
rxe_runner=

make_rxe_boot() {
    rxe_boot=$("$here/rxe/make-boot" "$work/build-rxe") && [ -n "$rxe_boot" ]
}

# rxe_start FOLDER NAME SECONDS [--count] JOB... - boot guests, in the background; sets rxe_runner.
# They leave report and counts in their folder, and are ended when they print nothing for SECONDS.
# --count: their time is made of instructions (guests.py --help).
rxe_start() {
    local folder=$work/build-rxe/$1 log=$logs/rxe-$1.log name=$2 seconds=$3
    shift 3
    rm -rf "$folder"
    mkdir -p "$folder"
    : >"$folder/report"
    GRACEKV_TEST_BUILD=$work/build-test GRACEKV_TEST_NAME=$name GRACEKV_TEST_FULL=$full \
        GRACEKV_TEST_PYTHON=$venv/bin/python python3 "$here/rxe/guests.py" \
        --boot "$rxe_boot" --dir "$folder" --memory 1536 --silence "$seconds" "$@" >"$log" 2>&1 &
    rxe_runner=$!
}

# rxe_follow RUNNER FOLDER - show the report as it grows; returns what the guests exited with.
rxe_follow() {
    tail -n +1 -s 0.2 -f --pid="$1" "$work/build-rxe/$2/report"
    wait "$1"
}

# rxe_finish RUNNER ARGUMENTS-OF-rxe_start... - what rxe_start began, with its arguments: show the
# report, count; where a guest failed, show what the guests printed. Where the kernel of a guest
# died nothing has come to an end: all of it runs once more, and that counts.
rxe_finish() {
    local folder=$work/build-rxe/$2 log=$logs/rxe-$2.log before=$failed runner=$1 rc
    shift
    rxe_follow "$runner" "$1"
    rc=$?
    if [ "$rc" = 4 ]; then
        sed 's/^/      | /' "$log"
        echo "      | $2: a guest's kernel died, which is no result: once more, and only that counts"
        cp "$log" "${log%.log}-died.log"
        rxe_start "$@"
        rxe_follow "$rxe_runner" "$1"
        rc=$?
    fi
    if [ "$rc" = 0 ]; then
        add_counts "$folder/counts" || fail "$2 (no counts)" "$log"
        head -n 1 "$log" | sed 's/^/      | /'
        return
    fi
    add_counts "$folder/counts"
    if [ "$failed" = "$before" ]; then
        fail "$2 (the guests)" "$log"
    else
        sed 's/^/      | /' "$log"
    fi
}

# rxe_run ARGUMENTS-OF-rxe_start... - both, one after the other.
rxe_run() {
    rxe_start "$@"
    rxe_finish "$rxe_runner" "$@"
}

# Recorded histories (tests/linearizability); not where some tests were asked for by name.
rxe_linearizability() {
    local seconds=25
    [ -z "${GRACEKV_TEST_ONLY:-}" ] && lin_build || return 0
    [ "$full" = 1 ] && seconds=600
    rxe_run linearizability "rxe (linearizability)" $((seconds * 3 + 120)) \
        "$here/rxe/job linearizability $lin_checker --seconds $seconds --round $seconds"
}

# rxe_integration CASES SECONDS JOB-ONE JOB-TWO JOB-RATIOS - in one guest, and beside it between two
# and what else the host's being busy does not matter to: each waits a good deal of its time.
rxe_integration() {
    local -x GRACEKV_TEST_CASES=$1
    local alone=(one "rxe (one guest)" "$2" "$3") one
    rxe_start "${alone[@]}"
    one=$rxe_runner
    rxe_run two "rxe (two guests)" "$2" "$here/rxe/job server" "$4"
    rxe_run up "rxe (rxe-up and rxe-down)" 200 "$here/rxe/test_rxe_up.sh"
    rxe_linearizability
    rxe_run ratios "rxe (ratios)" 300 --count "$5"
    rxe_finish "$one" "${alone[@]}"
}

suite_rxe() {
    local job=$here/rxe/job select='-m "not no_device"' far="" near="" part
    local seconds=600 cases=1
    build build-test || return 0
    check "rxe: pytest in a venv" make_venv
    [ -x "$venv/bin/python" ] || return 0
    check "rxe: a kernel with rdma_rxe, and an initrd" make_rxe_boot
    [ -n "$rxe_boot" ] || return 0
    [ -n "${GRACEKV_TEST_ONLY:-}" ] && select+=" -k $(printf %q "$GRACEKV_TEST_ONLY")"
    # What a busy host changes runs where instructions are counted.
    far+=" --ignore=$here/integration/test_cpu.py"
    near+="$far --ignore=$here/integration/test_ratios.py"
    if [ "$full" = 1 ]; then
        seconds=1800 cases=0
    else
        # What the server does with its own memory, distance changes nothing of; and the network
        # between two guests says more of calls that fail than one guest's loopback.
        for part in memory space epoch_slots rogue rogue_sessions inspect kv_bench cm; do
            far+=" --ignore=$here/integration/test_$part.py"
        done
        for part in failures grace doctor wire cli perf addresses; do
            near+=" --ignore=$here/integration/test_$part.py"
        done
        # The device makes no difference: words of commands, expiry, what the store does with bytes
        # in memory and on a disk.
        for part in cli_prompt cli_writes load_dump terms expiry deleted_bytes durable data_dir; do
            far+=" --ignore=$here/integration/test_$part.py"
            near+=" --ignore=$here/integration/test_$part.py"
        done
    fi
    rxe_integration "$cases" "$seconds" "$job one $select$near" "$job client $select$far" \
        "$job ratios $select"
    # Alone: it is about time.
    rxe_run failure "rxe (peer failure)" 300 "$job server" "$job failure $select"
}
