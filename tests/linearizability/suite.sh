# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # shared with tests/run and lib/setup.sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
#
# The suite linearizability: recorded histories, checked by Porcupine. Read by tests/run.

# Debian's Go, where there is no other one; the checker is built with either.
packages_linearizability=()
command -v go >/dev/null || packages_linearizability+=(golang-go)

lin_checker=$work/build-go/lin-check

# lin_go COMMAND... - in the checker's folder; modules and cache stay in the work folder.
lin_go() {
    (cd "$here/linearizability/check" && GOPATH=$work/build-go/path GOCACHE=$work/build-go/cache \
        GOFLAGS="-modcacherw -buildvcs=false" go "$@")
}

# lin_run BUILD LIMIT OPTION... - the supervisor, for LIMIT seconds at most.
lin_run() {
    GRACEKV_TEST_BUILD=$work/$1 bounded "$1" "$2" python3 "$here/linearizability/run.py" \
        --checker "$lin_checker" "${@:3}"
}

# lin_form BUILD NAME SECONDS OPTION... - one run, a test.
lin_form() {
    local build=$1 name=$2 seconds=$3
    shift 3
    check "linearizability: $name" lin_run "$build" $((seconds * 3 + 120)) --seconds "$seconds" \
        --keep "$logs/linearizability-${name//[^A-Za-z0-9]/-}" "$@"
}

# lin_finds NAMES OPTION... - a rule that is broken on purpose shows in a history, which is left for
# people to read. Where checksums are left out it shows in a value that nobody wrote; a history that
# shows it in another way is none of that, and the search goes on. It takes seconds as a rule, and
# gives up after five minutes of work.
lin_finds() {
    local names=$1 start=$SECONDS out kept=$logs/linearizability-mutants/$1 shown=""
    [[ $names == *no_checksum* ]] && shown="nobody writes such a value"
    shift
    while [ $((SECONDS - start)) -lt 300 ]; do
        rm -rf "$kept"
        out=$(lin_run build-mutants 900 --mutant "$names" --seconds 300 --round 3 --keep "$kept" \
            "$@" 2>&1)
        if [ $? != 1 ] || ! grep -q "^WRONG not linearizable" <<<"$out"; then
            break
        fi
        if grep -q "$shown" "$kept"/*/illegal.*.txt 2>/dev/null &&
            compgen -G "$kept/*/illegal.*.html" >/dev/null; then
            say "found after $((SECONDS - start)) s"
            cat "$kept"/*/illegal.*.txt
            return 0
        fi
    done
    say "$out"
    return 1
}

# lin_mutant NAMES OPTION...
lin_mutant() {
    check "linearizability: $1 is found" lin_finds "$@"
}

# Torn values, after a READ that was long under way: what is freed must be used again meanwhile.
slowly=(--weak "lines,delay" --nemesis press)

# What a kill loses must have been seen before it: many lives.
briefly=(--data-dir --nemesis kill_server --nemesis stop_client --slow 0.3)

lin_mutants() {
    build build-mutants || return 0
    # Neither is a breach that anybody may notice: writes that rest, and checksums left out.
    lin_form build-mutants "nothing is broken" 6 --mutant linger,no_checksum
    lin_form build-mutants "nothing is broken, over lives" 6 --mutant linger --data-dir
    lin_form build-mutants "over fail-overs, clocks run a tenth fast or slow" 15 --group --clocks
    lin_mutant publish_first
    lin_mutant acknowledge_first
    lin_mutant moved_late --nemesis grow --nemesis stop_client
    lin_mutant trust_hint
    lin_mutant no_grace,linger
    lin_mutant announce_newest,no_checksum "${slowly[@]}" --nemesis stop_client
    lin_mutant expire_unfenced,no_checksum "${slowly[@]}" --nemesis hold_client --lease 100 --pace 50
    lin_mutant obsolete_absent
    lin_mutant resurrect
    lin_mutant split_forgets --nemesis grow
    lin_mutant forget_reply
    lin_mutant retry_as_new
    lin_mutant ack_unapplied
    lin_mutant ack_before_commit "${briefly[@]}"
    lin_mutant publish_before_commit "${briefly[@]}"
    lin_mutant refuse_early "${briefly[@]}"
    lin_mutant read_deposed --group --nemesis hold_server
}

# lin_build - the checker, once a run; is a test of its own. Fails where it did not build.
lin_build() {
    if [ -z "${built[lin-check]:-}" ]; then
        rm -f "$lin_checker"
        check "build: lin-check" lin_go build -o "$lin_checker" .
        built[lin-check]=1
    fi
    [ -x "$lin_checker" ]
}

suite_linearizability() {
    lin_build || return 0
    check "linearizability: the checker's own tests" lin_go test ./...
    build build-test || return 0
    check "linearizability: what is refused, and signals" env GRACEKV_TEST_BUILD="$work/build-test" \
        timeout 300 python3 "$here/linearizability/test_run.py" "$lin_checker"
    lin_form build-test "on soft0" 30
    lin_form build-test "over lives" 60 --data-dir
    lin_form build-test "over fail-overs" 30 --group
    lin_form build-test "over deaths of whole groups" 30 --group --data-dir
    lin_mutants
    build build-asan || return 0
    sanitizer_options
    lin_form build-asan "(asan, ubsan)" 6
    build build-tsan || return 0
    lin_form build-tsan "(tsan)" 6
    [ "$full" = 1 ] || return 0
    lin_form build-test "10^7 operations" 1800 --operations 10000000
    lin_form build-test "10^7 operations over lives" 3600 --operations 10000000 --data-dir
    lin_form build-test "10^7 operations over fail-overs" 3600 --operations 10000000 --group
    lin_form build-test "10^7 operations over deaths of whole groups" 3600 --operations 10000000 \
        --group --data-dir
}
