# shellcheck shell=bash
# shellcheck disable=SC2154 # root, work, logs, install, failed are of tests/run
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
#
# What the tests need: packages, build folders, a Python environment. Read by tests/run, which
# defines root, work, logs, install and the functions that report.

venv=$work/.venv
requirements=$root/tests/lib/requirements.txt
declare -A built=()

# Debian's names. clang-format-14 is the version that the style is checked with.
packages=(build-essential g++ meson ninja-build pkg-config git libibverbs-dev librdmacm-dev liburcu-dev
    libxxhash-dev libinih-dev libjansson-dev libedit-dev libcurl4-openssl-dev nettle-dev
    libsystemd-dev libcmocka-dev python3 python3-venv clang-format-14 shellcheck ibverbs-providers
    ibverbs-utils perftest scdoc groff-base redis-server redis-tools memcached liburing-dev fio libfaketime strace
    etcd-server openssl)

missing_packages() {
    local name
    for name in "${packages[@]}"; do
        case $(dpkg-query -W -f '${db:Status-Abbrev}' "$name" 2>/dev/null) in
        ii* | hi*) ;;
        *) say "$name" ;;
        esac
    done
}

# install_packages SUITE... - what all suites need, and the packages_SUITE of each.
install_packages() {
    local missing=() as_root=() name
    for name in "$@"; do
        local -n more=packages_$name
        packages+=("${more[@]}")
        unset -n more
    done
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        say "no apt-get on this machine; the tests need what Debian calls: ${packages[*]}"
        return
    fi
    mapfile -t missing < <(missing_packages)
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$install" = 0 ]; then
        say "not installed: ${missing[*]}"
        return
    fi
    if [ "$(id -u)" -ne 0 ]; then
        as_root=(sudo -n)
    fi
    say "installing: ${missing[*]}"
    if ! { "${as_root[@]}" apt-get update &&
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y \
            --no-install-recommends "${missing[@]}"; } >"$logs/install.log" 2>&1; then
        tail -n 20 "$logs/install.log" >&2
        say "tests/run: cannot install ${missing[*]}: apt-get failed (install them by hand, or" \
            "give --no-install to try without)" >&2
        exit 3
    fi
}

# room_for_tests - a full disk makes failures that say anything but that.
room_for_tests() {
    local want=6 free # GiB: builds 1.5, the rest data directories and histories, twice over
    free=$(df --output=avail -BG "$work" | tail -n 1 | tr -dc 0-9)
    [ "${free:-$want}" -ge "$want" ] && return 0
    say "tests/run: only $free GiB are free below $work and the tests need $want: make room, or name" \
        "another folder in GRACEKV_TEST_DIR" >&2
    exit 3
}

# What a build folder was made with; another tool or another tree wants a new one.
build_stamp() {
    say "$root"
    meson --version
    ${CC:-cc} --version | head -n 1
    say "${CC:-cc} ${CFLAGS:-} ${LDFLAGS:-} $*"
}

# The build folders, what they are made with, and what of them is compiled where that is not all.
# AddressSanitizer's code takes gcc nearly twice as long with -O2, and does not run faster.
declare -A build_option=([build-test]=-Dmutants=false
    [build-asan]="-Db_sanitize=address,undefined -Doptimization=1"
    [build-tsan]=-Db_sanitize=thread [build-mutants]=-Dmutants=true)
programs_of_lin="bin/kv-server bin/kv-cli bin/kv-cluster tests/linearizability/client/lin-client"
declare -A build_only=([build-mutants]="tests/stress/torture/torture tests/integration/kv-test-herd
    $programs_of_lin"
    [build-tsan]="tests/stress/stress tests/stress/torture/torture tests/stress/differ/differ
    $programs_of_lin")

# tests_of DIR SUITE - the programs of one of meson's suites.
tests_of() {
    meson introspect --tests "$1" | python3 -c 'import json, os, sys
for test in json.load(sys.stdin):
    if "gracekv:" + sys.argv[2] in test["suite"]:
        print(os.path.relpath(test["cmd"][0], sys.argv[1]))' "$@"
}

configure_and_compile() {
    local dir=$work/$1 stamp
    local -a options targets
    read -rd '' -a options <<<"${build_option[$1]}"
    read -rd '' -a targets <<<"${build_only[$1]:-}"
    stamp=$(build_stamp "${options[*]}")
    if [ "$(cat "$dir/run-stamp" 2>/dev/null)" != "$stamp" ]; then
        case $dir in
        "$work"/build-?*) rm -rf "$dir" ;;
        *) return 1 ;;
        esac
        # -g1: lines for reports, and no variables, which take gcc a sixth of its time.
        meson setup -Dwerror=true -Dbuildtype=debugoptimized -Dc_args=-g1 "${options[@]}" "$dir" \
            "$root" || return 1
        say "$stamp" >"$dir/run-stamp"
    fi
    [ "$1" = build-tsan ] && mapfile -t -O ${#targets[@]} targets < <(tests_of "$dir" tsan)
    ninja -C "$dir" "${targets[@]}"
}

# locked COMMAND FOLDER - nobody else compiles there meanwhile.
locked() {
    (
        flock 9 && "$@"
    ) 9>"$logs/$2.lock"
}

# build FOLDER - once a run; is a test of its own. Fails where it did not build.
build() {
    local name=$1 before=$failed
    if [ -z "${built[$name]:-}" ]; then
        check "build: $name" locked configure_and_compile "$name"
        built[$name]=$((failed == before))
    fi
    [ "${built[$name]}" = 1 ]
}

sanitizer_options() {
    export ASAN_OPTIONS=detect_leaks=1:abort_on_error=1:halt_on_error=1:print_summary=1
    export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1:abort_on_error=1
    # Its detector of deadlocks follows 63 locks of a thread; a split of a segment holds 65.
    export TSAN_OPTIONS=halt_on_error=1:detect_deadlocks=0
}

# bounded BUILD LIMIT COMMAND... - as a sanitizer's build wants it, for LIMIT seconds at most.
bounded() {
    local -a how=(timeout --kill-after=10 "$2")
    # ThreadSanitizer of gcc 12 does not know the address layouts of newer kernels.
    if [ "$1" = build-tsan ] && setarch "$(uname -m)" -R true 2>/dev/null; then
        how+=(setarch "$(uname -m)" -R)
    fi
    shift 2
    "${how[@]}" "$@"
}

venv_current() {
    [ -x "$venv/bin/python" ] && cmp -s "$requirements" "$venv/requirements.txt" &&
        "$venv/bin/python" -c 'import pytest'
}

# Debian's own Python first: it is the one that python3-venv belongs to.
make_venv() {
    local python
    venv_current && return 0
    for python in /usr/bin/python3 python3; do
        rm -rf "$venv"
        if "$python" -m venv "$venv" &&
            "$venv/bin/python" -m pip install --disable-pip-version-check --no-input -q \
                -r "$requirements" &&
            "$venv/bin/python" -c 'import pytest'; then
            cp "$requirements" "$venv/requirements.txt"
            return 0
        fi
    done
    rm -rf "$venv"
    return 1
}
