# shellcheck shell=bash
# shellcheck disable=SC2154 # root, work, logs, install, failed are of tests/run
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
#
# Checks of the source files. Read by tests/run.

lines_max=1000
columns_max=100

# The files of the tree, also those not committed yet, one a line.
tree_files() {
    local name
    {
        git -C "$root" -c safe.directory="$root" ls-files --cached --others --exclude-standard \
            2>/dev/null ||
            (cd "$root" && find . -name '.?*' -prune -o -name 'build*' -prune -o -type f -print |
                sed 's,^\./,,')
    } | sort -u | while IFS= read -r name; do
        [ -f "$root/$name" ] && say "$name"
    done
}

c_files() {
    tree_files | grep -E '\.[ch]$'
}

shell_scripts() {
    local name
    tree_files | while IFS= read -r name; do
        case $name in
        *.sh) say "$name" ;;
        *.c | *.h | *.py | *.md) ;;
        *)
            if head -n 1 "$name" | grep -qaE '^#!.*\b(ba|da)?sh\b'; then
                say "$name"
            fi
            ;;
        esac
    done
}

check_format() {
    local out
    if out=$(c_files | xargs -r -d '\n' "$1" --dry-run -Werror 2>&1); then
        return 0
    fi
    say "$1 -i would change:"
    say "$out" | grep -E '^[^ ]+:[0-9]+:[0-9]+: error' | cut -d: -f1 | sort | uniq -c
    return 1
}

check_shell() {
    shell_scripts | xargs -r -d '\n' shellcheck -x
}

code_files() {
    c_files
    shell_scripts
    tree_files | grep -E '\.py$'
}

check_lengths() {
    local name lines bad=0
    while IFS= read -r name; do
        lines=$(wc -l <"$name")
        if [ "$lines" -gt "$lines_max" ]; then
            say "$name: $lines lines, more than $lines_max"
            bad=1
        fi
    done < <(code_files)
    return "$bad"
}

# Code of C is clang-format's, which leaves comments alone; strings may be as long as they must.
check_widths() {
    local name what lines bad=0
    while IFS= read -r name; do
        case $name in
        *.[ch]) what='.*/\*|\* |//' ;;
        *.py) what='' ;;
        *) what='#' ;;
        esac
        lines=$(expand "$name" | LC_ALL=C.UTF-8 grep -nE "^.{$((columns_max + 1))}" |
            grep -E "^[0-9]+: *($what)")
        if [ -n "$lines" ]; then
            say "$name: more than $columns_max columns"
            say "$lines"
            bad=1
        fi
    done < <(code_files)
    return "$bad"
}

# What a native writer would not write: "anew" (again, over), "so long" for a time (this long), and
# "who" as the actor (name the actor). The pattern must find the samples, one of each.
words_refused='\b[Aa]new\b|\bso long\b(?! (as|to|before|that)\b)|(\*|//|#|""") Who [a-z]+(?!.*\?)'
words_samples=('it is made anew' 'it waits so long for' ' * Who reads it sees')

check_words() {
    local sample
    for sample in "${words_samples[@]}"; do
        grep -qP "$words_refused" <<<"$sample" || { say "the pattern misses '$sample'"; return 1; }
    done
    ! tree_files | grep -v '^tests/lib/checks\.sh$' | xargs -d '\n' grep -nIP "$words_refused" --
}

check_licences() {
    local name bad=0
    while IFS= read -r name; do
        if [ "$(head -n 4 "$name" | grep -caE 'SPDX-(License-Identifier|FileCopyrightText): ')" != 2 ]; then
            say "$name: the two SPDX lines are not on top"
            bad=1
        fi
    done < <(
        c_files
        shell_scripts
        tree_files | grep -E '(\.py|(^|/)meson\.build)$'
    )
    return "$bad"
}

# Only common/base asks the kernel for the time and for random numbers (time.h, random.h).
check_clocks() {
    local found
    found=$(c_files | grep -E '^(common|server|client/src)/' | grep -vE '^common/base/(time|random)\.[ch]$' |
        (cd "$root" && xargs -r -d '\n' \
            grep -nE '\b(clock_gettime|gettimeofday|time|(clock_)?nanosleep|u?sleep|getrandom|s?random|s?rand)\(')) ||
        return 0
    say "use common/base/time.h and random.h:"
    say "$found"
    return 1
}

# One header, with nothing included before it.
compile_header() {
    printf '#include "%s"\n' "$2" |
        $1 -I. -Iclient/include -D_GNU_SOURCE -DGRACEKV_VERSION='"0"' -fsyntax-only \
            -fno-strict-aliasing -Wall -Wextra -Wno-unused-parameter -Wundef -Wstrict-prototypes \
            -Werror -o /dev/null -
}

check_headers() {
    local flags
    flags=$(pkg-config --cflags libibverbs librdmacm liburcu-qsbr libxxhash cmocka) || return 1
    export -f compile_header
    tree_files | grep -E '\.h$' | xargs -d '\n' -n 1 -P "$(nproc)" \
        bash -c 'compile_header "$@"' - "${CC:-cc} -x c -std=gnu17 $flags"
}

source_checks() {
    local format
    if command -v clang-format-14 >/dev/null; then
        format=clang-format-14
    elif clang-format --version 2>/dev/null | grep -q 'version 14\.'; then
        format=clang-format
    fi
    if [ -n "${format:-}" ]; then
        check "unit: format of C files" check_format "$format"
    else
        skip "unit: format of C files" "clang-format 14 is not installed"
    fi
    if command -v shellcheck >/dev/null; then
        check "unit: shellcheck" check_shell
    else
        skip "unit: shellcheck" "shellcheck is not installed"
    fi
    check "unit: every header compiles alone" check_headers
    check "unit: no file above $lines_max lines" check_lengths
    check "unit: no comment above $columns_max columns" check_widths
    check "unit: words" check_words
    check "unit: SPDX lines" check_licences
    check "unit: clocks and random numbers are those of common/base" check_clocks
    check "unit: rooms use earlier rooms only" tests/lib/rooms --shown-in docs/ARCHITECTURE.md
}
