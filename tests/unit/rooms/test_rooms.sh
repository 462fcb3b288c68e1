#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
#
# test_rooms.sh SOURCES BUILD - the tree and its build pass tests/lib/rooms; each of a small tree's
# mutants is refused, and the file and what it uses are named.
set -euo pipefail
sources=$1
build=$2
rooms=$sources/tests/lib/rooms
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# library ROOM TEXT - the room's library in the small tree's build.
library() {
    mkdir -p "$work/build/$1"
    printf '%s\n' "$2" | cc -x c -c -o "$work/build/$1/a.c.o" -
    ar rc "$work/build/$1/liba.a" "$work/build/$1/a.c.o"
}

# refused SENTENCE ARGUMENT... - tests/lib/rooms fails with this sentence.
refused() {
    local sentence=$1
    shift
    if "$rooms" "$@" >"$work/out" 2>&1 || ! grep -qF "rooms: $sentence" "$work/out"; then
        printf 'not refused with "%s":\n' "$sentence"
        cat "$work/out"
        exit 1
    fi
}

"$rooms" "$sources" --build "$build"
"$rooms" "$sources" --dot | grep -qF '"server/store" -> "server/memory";'

mkdir -p "$work"/server/{memory,index} "$work/client/src/base"
echo '#include "server/memory/memory.h"' >"$work/server/index/a.c"
library server/memory 'int memory_a(void) { return 1; }'
library server/index 'int memory_a(void); int index_a(void) { return memory_a(); }'
"$rooms" "$work" --build "$work/build" >"$work/graph"

refused "$work/server/index/a.c shows another graph" "$work" --shown-in "$work/server/index/a.c"
"$rooms" "$work" --shown-in "$work/graph"

library server/memory 'int index_a(void); int memory_a(void) { return index_a(); }'
refused 'server/memory/a.c uses index_a: server/memory must not use server/index' \
    "$work" --build "$work/build"

echo '#include "server/index/index.h"' >"$work/server/memory/a.c"
refused 'server/memory/a.c uses server/index/index.h: ' "$work"
rm "$work/server/memory/a.c"

echo '  #  include "server/memory/memory.h"' >"$work/client/src/base/a.h"
refused 'client/src/base/a.h uses server/memory/memory.h: ' "$work"
rm "$work/client/src/base/a.h"

echo '#include "tests/lib/unit.h"' >"$work/server/index/a.c"
refused 'server/index/a.c uses tests/lib/unit.h: ' "$work"
