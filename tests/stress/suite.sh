# shellcheck shell=bash
# shellcheck disable=SC2154 # shared with tests/run and lib/setup.sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
#
# The suite stress: growth and shrinking under readers, grace periods under readers that hold on,
# stand still and die, every call of the public API against a model, and herds of sessions. Read by
# tests/run.

# run_in BUILD LIMIT PROGRAM OPTION... - a program of this folder, for LIMIT seconds at most.
run_in() {
    bounded "$1" "$2" "$work/$1/tests/stress/$3" "${@:4}"
}

# stress_form BUILD NAME SECONDS OPTION... - one run, a test; its watchdog ends it first.
stress_form() {
    local build=$1 name=$2 seconds=$3
    shift 3
    check "stress: $name" run_in "$build" $((seconds + 30)) stress --seconds "$seconds" "$@"
}

# stress_lie WHAT KIND - the judge finds what was done wrong on purpose.
stress_lie() {
    local out
    out=$("$work/build-test/tests/stress/stress" --keys 30000 --slots 100000 --memory 128M \
        --remotes 2 --rounds 1 --seconds 100 --lie "$1")
    [ $? = 1 ] && grep -q "^WRONG $2: " <<<"$out" && return 0
    say "$out"
    return 1
}

stress_lies() {
    local lie
    for lie in miss:false_miss stale:stale early:early foreign:foreign torn:torn twice:reused; do
        stress_lie "${lie%:*}" "${lie#*:}" || return 1
    done
}

# torture_form BUILD NAME SECONDS OPTION... - one run, a test. It ends by itself.
torture_form() {
    local build=$1 name=$2 seconds=$3
    shift 3
    check "torture: $name" run_in "$build" $((seconds + 150)) torture/torture \
        --seconds "$seconds" "$@"
}

# torture_finds BUILD MUTANT PATTERN SECONDS OPTION... - something is wrong, and is called right.
torture_finds() {
    local build=$1 mutant=$2 pattern=$3 seconds=$4 out start=$SECONDS
    shift 4
    out=$(GRACEKV_MUTANT=$mutant run_in "$build" $((seconds + 150)) torture/torture \
        --seconds "$seconds" "$@" 2>&1)
    if [ $? = 1 ] && grep -qE "^WRONG $pattern" <<<"$out"; then
        say "found after $((SECONDS - start)) s"
        grep -m 1 -E "^WRONG $pattern" <<<"$out"
        return 0
    fi
    say "$out"
    return 1
}

# torture_mutant NAME PATTERN OPTION... - a rule that is broken on purpose is found.
torture_mutant() {
    local name=$1 pattern=$2
    shift 2
    check "torture: $name is found" torture_finds build-mutants "$name" "$pattern" 150 "$@"
}

# torture_turns MUTANT PATTERN SECONDS OPTION... - where chance decides: in one of a few runs, each
# with a seed of its own and of SECONDS.
torture_turns() {
    local turn
    for turn in {1..12}; do
        say "run $turn"
        torture_finds build-mutants "$@" && return 0
    done
    return 1
}

# What is freed under a reader: the pipe says so, or what the READ brought, or that it was no key's.
freed_early="(pipe|life|checksum|torn|changed|false_miss): "

# What a lie frees too early is found by each kind of reader.
torture_lies() {
    local alone
    for alone in "--readers 0 --hinters 0 --clients 0" "--locals 0 --hinters 0" \
        "--locals 0 --readers 0"; do
        # shellcheck disable=SC2086 # options
        torture_finds build-test "" "$freed_early" 30 --lie free $alone || return 1
    done
}

# A nursery that dies takes all processes that read with it: such a run was for nothing.
torture_orphaned() {
    local pid nursery=""
    "$work/build-test/tests/stress/torture/torture" --seconds 60 >"$logs/torture-orphaned.out" 2>&1 &
    pid=$!
    for _ in {1..600}; do
        sleep 0.1
        read -r nursery _ <"/proc/$pid/task/$pid/children"
        [ -n "$nursery" ] && break
    done
    sleep 2 # its readers read by now
    kill -9 "$nursery"
    wait "$pid"
    [ $? = 1 ] && grep -q "^WRONG error: .*the nursery died" "$logs/torture-orphaned.out" && return 0
    say "$(cat "$logs/torture-orphaned.out")"
    return 1
}

# Few processes hold a grace period back less often; slow writers use few addresses again.
few=(--readers 1 --hinters 0 --clients 0 --locals 0)
slow=(--keys 64 --keep 16 --hot 1 --pace 2000 --writers 1 --readers 0 --clients 0 --locals 0)
hints=(--readers 0 --clients 0 --locals 0 --hinters 3 --memory 128M)
big=(--keys 64 --keep 16 --hot 8 --memory 256M --lease 1000)

torture_mutants() {
    build build-mutants || return 0
    GRACEKV_MUTANT=no_checksum torture_form build-mutants "grace periods need no checksums" 10
    torture_form build-mutants "no rule is broken" 10
    torture_form build-mutants "no rule is broken, few readers" 5 "${few[@]}"
    torture_form build-mutants "no rule is broken, slow writers" 5 "${slow[@]}"
    torture_form build-mutants "no rule is broken, slabs recut" 10 "${hints[@]}"
    torture_form build-mutants "10^6 look-ups, no torn block" 100 --gets 1000000 "${big[@]}"
    torture_mutant announce_newest "$freed_early"
    torture_mutant scan_first "$freed_early" "${few[@]}" # two threads must meet within microseconds
    torture_mutant carry_section "(pipe: .*brought|life: |checksum: |torn: |false_miss: )"
    torture_mutant expire_unfenced "$freed_early"
    torture_mutant no_grace "$freed_early"
    torture_mutant no_segment_grace "pipe: .* segment "
    torture_mutant publish_first "stale: "
    torture_mutant acknowledge_first "stale: "
    torture_mutant moved_late "false_miss: "
    torture_mutant trust_hint "stale: "
    torture_mutant resurrect "stale: "
    torture_mutant obsolete_absent "false_miss: "
    torture_mutant split_forgets "(false_miss|error): "
    torture_mutant ack_unapplied "(stale|false_miss|error): "
    torture_mutant recut_early "forged: " "${hints[@]}"
    torture_mutant ignore_floor "forged: " "${hints[@]}"
    check "torture: 10^6 look-ups without grace periods, torn blocks" torture_turns no_grace \
        "checksum: " 100 --gets 1000000 "${big[@]}"
    [ "$full" = 1 ] || return 0
    torture_form build-mutants "no rule is broken, long" 600
    torture_form build-mutants "10^8 look-ups, no torn block" 3000 --gets 100000000 "${big[@]}"
}

torture_forms() {
    torture_mutants
    build build-test || return 0
    check "torture: what is freed too early on purpose is found" torture_lies
    check "torture: a nursery that dies is found" torture_orphaned
    torture_form build-test "local readers alone" 3 --readers 0 --hinters 0 --clients 0
    torture_form build-test "all kinds of readers" 15
    torture_form build-test "addresses come to their end" 10 --used-up 3
    build build-asan || return 0
    sanitizer_options
    torture_form build-asan "(asan, ubsan)" 10
    build build-tsan || return 0
    torture_form build-tsan "(tsan)" 10
    [ "$full" = 1 ] || return 0
    torture_form build-test "many readers, long" 900 --readers 8 --hinters 4 --clients 2 \
        --writers 4 --locals 2 --memory 128M
    torture_form build-test "addresses come to their end, long" 600 --used-up 2
    torture_form build-asan "(asan, ubsan), long" 600
    torture_form build-tsan "(tsan), long" 600
}

# differ_form BUILD NAME SECONDS OPTION... - one run, a test. It ends by itself.
differ_form() {
    local build=$1 name=$2 seconds=$3
    shift 3
    check "differ: $name" run_in "$build" $((seconds + 100)) differ/differ --seconds "$seconds" "$@"
}

# differ_lie WHAT KIND - an answer that was changed on purpose is found.
differ_lie() {
    local out
    out=$(run_in build-test 120 differ/differ --seconds 90 --lie "$1")
    [ $? = 1 ] && grep -q "^WRONG $2: " <<<"$out" && return 0
    say "the lie $1 was not found"
    say "$out"
    return 1
}

differ_lies() {
    local lie
    for lie in foreign stale torn miss ghost late early version expiry condition:status sum view \
        beyond old_life twice skipped walk_twice:twice walk_skipped:skipped walk_stale:walk \
        again:completion lost cancelled:'[a-z]*' doubled:'[a-z]*' rest; do
        differ_lie "${lie%:*}" "${lie#*:}" || return 1
    done
}

differ_forms() {
    build build-test || return 0
    check "differ: what is answered wrong on purpose is found" differ_lies
    differ_form build-test "on a kind device" 15
    differ_form build-test "on an unkind device" 15 --weak 1
    build build-asan || return 0
    sanitizer_options
    differ_form build-asan "(asan, ubsan)" 8
    build build-tsan || return 0
    differ_form build-tsan "(tsan)" 8
    [ "$full" = 1 ] || return 0
    differ_form build-test "few keys, long" 300 --keys 40
    differ_form build-test "many keys, long" 300 --keys 10000
    differ_form build-test "on an unkind device, long" 600 --weak 2
    differ_form build-asan "(asan, ubsan), on an unkind device, long" 300 --weak 3
    differ_form build-tsan "(tsan), long" 300
}

# herd_run BUILD LIMIT OPTION... - many client processes, and one beside them.
herd_run() {
    GRACEKV_TEST_BUILD=$work/$1 bounded "$1" "$2" python3 "$here/stress/herd/run.py" "${@:3}"
}

# herd_finds BUILD KIND OPTION... - something is wrong, and is called right.
herd_finds() {
    local build=$1 kind=$2 out
    shift 2
    out=$(herd_run "$build" 120 --processes 4 --sessions 4 --lease 500 "$@" 2>&1)
    [ $? = 1 ] && grep -q "^WRONG $kind: " <<<"$out" && return 0
    say "$* was not found"
    say "$out"
    return 1
}

herd_lies() {
    local lie
    for lie in absent:beat fenced:fenced kept:memory acknowledged:lost stall:honest; do
        herd_finds build-test "${lie#*:}" --lie "${lie%:*}" || return 1
    done
}

few_of_a_herd=(--processes 4 --sessions 4)

herd_starved() {
    local name="herd: the server's threads are starved"
    if [ "$(id -u)" -ne 0 ] || [ "$(nproc)" -lt 2 ]; then
        skip "$name" "wants root and two cores"
        return
    fi
    check "$name" herd_run build-test 120 --starve "${few_of_a_herd[@]}"
}

herd_forms() {
    build build-test || return 0
    check "herd: what is done wrong on purpose is found" herd_lies
    check "herd: 400 sessions" herd_run build-test 120
    check "herd: half of the queue pairs stay for ever, one takes 5 s" herd_run build-test 120 \
        --fault destroy_qp=EBUSY/2,slow_destroy_qp=5000000#20 "${few_of_a_herd[@]}"
    herd_starved
    build build-mutants || return 0
    check "herd: ack_unapplied is found" herd_finds build-mutants lost --mutant ack_unapplied
    check "herd: expire_unfenced is found" herd_finds build-mutants memory --mutant expire_unfenced
    [ "$full" = 1 ] || return 0
    check "herd: 1000 sessions" herd_run build-test 600 --processes 125
}

suite_stress() {
    herd_forms
    differ_forms
    torture_forms
    build build-test || return 0
    check "stress: what is done wrong on purpose is found" stress_lies
    stress_form build-test "5 M keys" 600 --keys 5000000 --memory 4G --rounds 2
    stress_form build-test "again and again" 300 --keys 500000 --memory 1G --rounds 4
    # Without sessions a block comes back as soon as the local readers let go of it.
    stress_form build-test "local readers alone" 300 --keys 300000 --memory 512M --rounds 3 \
        --remotes 0 --locals 2
    stress_form build-test "addresses come to their end" 300 --keys 200000 --memory 1G --rounds 3 \
        --used-up 3
    build build-asan || return 0
    sanitizer_options
    stress_form build-asan "(asan, ubsan)" 300 --keys 200000 --memory 512M --rounds 3
    build build-tsan || return 0
    stress_form build-tsan "(tsan)" 300 --keys 200000 --memory 512M --rounds 2 --remotes 2
    [ "$full" = 1 ] || return 0
    stress_form build-test "5 M keys, again and again" 1800 --keys 5000000 --memory 4G --rounds 8
    stress_form build-test "many readers" 1800 --keys 1000000 --memory 3G --rounds 12 --remotes 8 \
        --locals 3 --writers 4
    stress_form build-test "addresses come to their end, long" 1800 --keys 1000000 --memory 4G \
        --rounds 8 --used-up 2
    stress_form build-asan "(asan, ubsan), long" 1800 --keys 1000000 --memory 2G --rounds 6 \
        --remotes 8
    stress_form build-tsan "(tsan), long" 1800 --keys 500000 --memory 1G --rounds 4 --locals 2
}
