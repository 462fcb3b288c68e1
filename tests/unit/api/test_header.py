#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""gracekv.h in the programs of others: in C and C++ of several standards, alone, included twice,
and what the library exports against what it declares.

environment: LIBRARY: libgracekv.so of the build; SANITIZE: what it was built with.
"""
import os
import pathlib
import shutil
import tempfile
import unittest

from api import (CC, CXX, HEADER, INCLUDE, MAP, SANITIZER, STRICT, Header, good, mapped, run)

LIBRARY = pathlib.Path(os.environ["LIBRARY"])
C_STANDARDS = ["c99", "c11", "c17", "gnu99", "gnu17"]
CXX_STANDARDS = ["c++11", "c++17", "gnu++20"]
VERSION_NODE = "GRACEKV_0"

# Every inline function of the header and some others, from C++.
CXX_PROGRAM = r"""
#include <gracekv.h>
#include <cerrno>
#include <cstdio>

static int visit(void *, const void *, size_t, const void *, const gkv_meta *) { return 0; }

int main()
{
	gkv_options options;
	gkv_handle_options handle_options = {};
	gkv_stats stats;
	gkv_session_stats session_stats;
	gkv_write_options write = {};
	gkv_request request[8] = {};
	gkv_visit how = visit;

	gkv_options_init(&options);
	gkv_stats_get(nullptr, &stats);
	gkv_session_stats_get(nullptr, &session_stats);
	bool good = options.timeout_ms == 5000 &&
		    gkv_open(nullptr, &handle_options, nullptr, nullptr, 0) == -EINVAL &&
		    stats.gets == 0 && session_stats.rounds == 0 &&
		    write.condition == GKV_ALWAYS &&
		    gkv_put_with(nullptr, "k", 1, "v", 1, &write, nullptr) == -EINVAL &&
		    gkv_scan(nullptr, nullptr, how, nullptr) == -EINVAL;
	gkv_request_init(&request[0], GKV_OP_EXISTS, "k", 1, nullptr);
	gkv_request_get(&request[1], "k", 1, request, 1, nullptr);
	gkv_request_exists(&request[2], "k", 1, nullptr);
	gkv_request_put(&request[3], "k", 1, "v", 1, nullptr);
	gkv_request_append(&request[4], "k", 1, "v", 1, nullptr);
	gkv_request_del(&request[5], "k", 1, nullptr);
	gkv_request_incr(&request[6], "k", 1, -1, nullptr);
	gkv_request_touch(&request[7], "k", 1, 1000, how ? &write : nullptr);
	for (const gkv_request &one : request)
		good = good && one.key_len == 1 &&
		       (one.user != nullptr) == (one.op == GKV_OP_TOUCH);
	std::printf("%s %s\n", gkv_version(), good ? "good" : "bad");
	return 0;
}
"""


def compile_text(compiler, language, standard, text, include=INCLUDE):
    """What the compiler says against it."""
    rc, _, err = run(*compiler, "-x", language, f"-std={standard}", *STRICT, "-Wundef", "-Wshadow",
                     f"-I{include}", "-fsyntax-only", "-", text=text)
    return err if rc else ""


def compilers():
    """(compiler, language, standard) of all; those for C++ where there is one."""
    for standard in C_STANDARDS:
        yield CC, "c", standard
    for standard in CXX_STANDARDS if shutil.which(CXX[0]) else ():
        yield CXX, "c++", standard


def exported(library):
    """Symbols of a library as NAME@@NODE."""
    out = good("nm", "-D", "--defined-only", "--with-symbol-versions", library)
    rows = [line.split()[1:] for line in out.splitlines()]
    return {name for kind, name in rows if kind != "A"}


def problems_of_symbols(names, symbols, header):
    """names: of the library; symbols: of the map."""
    for name in sorted(names):
        bare, _, node = name.partition("@@")
        if node != VERSION_NODE:
            yield f"{name}: is not of the version {VERSION_NODE}"
        if bare not in symbols:
            yield f"{name}: is exported and not in the map"
    bare = {name.partition("@@")[0] for name in names}
    for name in sorted(symbols - bare):
        yield f"{name}: is in the map and not exported"
    for name in sorted(symbols ^ header.exported):
        yield f"{name}: is in only one of map and header"


class Compiles(unittest.TestCase):
    TEXTS = {"alone": '#include "gracekv.h"\n',
             "twice": '#include "gracekv.h"\n#include "gracekv.h"\n',
             "behind others": "#include <stdio.h>\n#include <stdlib.h>\n#include <gracekv.h>\n"}

    def test_header(self):
        for compiler, language, standard in compilers():
            for how, text in self.TEXTS.items():
                with self.subTest(standard=standard, how=how):
                    self.assertEqual(compile_text(compiler, language, standard, text), "")

    def test_sees_what_is_wrong(self):
        """Mutants of the header: without its guard, with what only some languages have."""
        text = HEADER.read_text("utf-8")
        guard = text.replace("#define GRACEKV_H\n", "")
        cxx_only = text.replace("struct gkv_session;", "struct gkv_session; class gkv_more;")
        c_only = text.replace("struct gkv_session;", "struct gkv_session; extern int new;")
        extension = text.replace("struct gkv_session;", "struct gkv_session; struct empty {};")
        comment = text.replace("struct gkv_session;", "struct gkv_session; // c99 and later")
        alone = text.replace("#include <stdint.h>", "").replace("#include <stddef.h>", "")
        with tempfile.TemporaryDirectory() as folder:
            def seen(mutant, how, language, standard):
                (pathlib.Path(folder) / "gracekv.h").write_text(mutant, "utf-8")
                compiler = CC if language == "c" else CXX
                return compile_text(compiler, language, standard, self.TEXTS[how], folder)
            self.assertEqual(seen(text, "twice", "c", "c99"), "")
            self.assertNotEqual(seen(guard, "twice", "c", "c99"), "")
            self.assertNotEqual(seen(cxx_only, "alone", "c", "c99"), "")
            self.assertNotEqual(seen(extension, "alone", "c", "c11"), "")
            self.assertNotEqual(seen(alone, "alone", "c", "gnu17"), "")
            self.assertNotEqual(seen(comment, "alone", "c", "c90"), "")
            if shutil.which(CXX[0]):
                self.assertNotEqual(seen(c_only, "alone", "c++", "c++17"), "")

    @unittest.skipUnless(shutil.which(CXX[0]), "there is no C++ compiler")
    def test_program_in_cxx(self):
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "program")
            good(*CXX, "-std=c++17", *STRICT, "-Wno-missing-field-initializers", *SANITIZER,
                 f"-I{INCLUDE}", "-x", "c++", "-", "-o", program, f"-L{LIBRARY.parent}",
                 "-lgracekv", text=CXX_PROGRAM)
            out = good(program, env={"LD_LIBRARY_PATH": str(LIBRARY.parent)})
        self.assertRegex(out, r"^\d+\.\d+\.\d+ good\n$")


class Symbols(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.header = Header(HEADER.read_text("utf-8"))
        cls.symbols = mapped(MAP.read_text("utf-8"))
        cls.names = exported(LIBRARY)

    def test_library_map_and_header_agree(self):
        self.assertGreater(len(self.names), 25)
        self.assertEqual(list(problems_of_symbols(self.names, self.symbols, self.header)), [])

    # Mutants: the check must see each.

    def assert_seen(self, words, names=None, symbols=None, header=None):
        found = list(problems_of_symbols(names or self.names, symbols or self.symbols,
                                         header or self.header))
        self.assertTrue(any(words in one for one in found), found)

    def test_sees_a_symbol_too_many(self):
        self.assert_seen("handle_new@@GRACEKV_0: is exported",
                         names=self.names | {"handle_new@@GRACEKV_0"})
        self.assert_seen("is not of the version", names=self.names | {"gkv_get"})

    def test_sees_a_symbol_that_is_missing(self):
        for name in sorted(self.names):
            self.assert_seen(f"{name.partition('@@')[0]}: is in the map and not",
                             names=self.names - {name})

    def test_sees_a_declaration_without_a_symbol(self):
        more = HEADER.read_text("utf-8") + "GKV_API int gkv_more(struct gkv *handle);\n"
        self.assert_seen("gkv_more: is in only one", header=Header(more))
        self.assert_seen("gkv_get: is in only one", symbols=self.symbols - {"gkv_get"})


if __name__ == "__main__":
    unittest.main()
