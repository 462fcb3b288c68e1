# shellcheck shell=bash
# shellcheck disable=SC2154 # shared with tests/run and lib/setup.sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
#
# The suite stress: growth and shrinking under readers. Read by tests/run.

# stress_form BUILD NAME SECONDS OPTION... - one run, a test; its watchdog ends it first.
stress_form() {
    local program=$work/$1/tests/stress/stress name=$2 seconds=$3
    local -a how=()
    shift 3
    # ThreadSanitizer of gcc 12 does not know the address layouts of newer kernels.
    if [[ $program == */build-tsan/* ]] && setarch "$(uname -m)" -R true 2>/dev/null; then
        how=(setarch "$(uname -m)" -R)
    fi
    check "stress: $name" timeout --kill-after=10 $((seconds + 30)) "${how[@]}" "$program" \
        --seconds "$seconds" "$@"
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

suite_stress() {
    build build-test || return 0
    check "stress: what is done wrong on purpose is found" stress_lies
    stress_form build-test "5 M keys" 600 --keys 5000000 --memory 4G --rounds 2
    stress_form build-test "again and again" 300 --keys 500000 --memory 1G --rounds 4
    # Without sessions a block comes back as soon as the local readers let go of it.
    stress_form build-test "local readers alone" 300 --keys 300000 --memory 512M --rounds 3 \
        --remotes 0 --locals 2
    stress_form build-test "addresses come to their end" 300 --keys 200000 --memory 1G --rounds 3 \
        --used-up 3
    build build-asan -Db_sanitize=address,undefined || return 0
    sanitizer_options
    stress_form build-asan "(asan, ubsan)" 300 --keys 200000 --memory 512M --rounds 3
    build build-tsan -Db_sanitize=thread || return 0
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
