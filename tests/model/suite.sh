# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # shared with tests/run and lib/setup.sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
#
# The suite model: the protocols' models, by Spin. Read by tests/run.

# Debian's names; installed for this suite only.
packages_model=(spin gcc)

suite_model() {
    local folder=$work/build-model log=$logs/model.log
    local -a how=()
    [ "$full" = 1 ] && how=(--full)
    rm -rf "$folder"
    mkdir -p "$folder"
    if ! command -v spin >/dev/null; then
        skip model "spin is not installed"
        return
    fi
    check "model: the runner finds what it must" "$here/model/test_run" "$folder/self"
    "$here/model/run" "${how[@]}" --counts "$folder/counts" "$folder" 2>"$log"
    add_counts "$folder/counts" || fail "model (no counts)" "$log"
}
