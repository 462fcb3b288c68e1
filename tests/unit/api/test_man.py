#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""The manual pages' sources against the header and the list of exported symbols: what each says
of the interface must be so, and no function may be without a page."""
import errno
import re
import unittest

from api import HEADER, MAP, Header, Page, code_of, mapped, read_pages, squeeze

SECTIONS = ["NAME", "SYNOPSIS", "DESCRIPTION", "RETURN VALUE", "ERRORS", "THREADS", "EXAMPLE",
            "SEE ALSO"]
OVERVIEW = "gracekv"
# These pages describe every field of a structure.
DESCRIBED = {"gkv_session_open": "gkv_options", "gkv_open": "gkv_handle_options",
             "gkv_scan": "gkv_scan_options"}


def about_names(pages, header, symbols):
    """Every function has a page, and every page's function is one."""
    owner = {}
    for page in pages.values():
        for name in page.named:
            if name in owner:
                yield f"{name}: is named by {owner[name]}(3) and by {page.name}(3)"
            owner[name] = page.name
            if name not in header.functions and name != OVERVIEW:
                yield f"{name}: {page.name}(3) names it, the header has no such function"
    for name in sorted((symbols | header.functions) - set(owner)):
        yield f"{name}: no page's NAME names it"


def about_form(page):
    if page.title.split("\n")[0].split("(")[0] != page.name:
        yield f"{page.name}: its title is {page.title!r}"
    if page.named[0] != page.name:
        yield f"{page.name}: NAME begins with {page.named[0]}"
    if [name for name in page.sections if name in SECTIONS] != SECTIONS:
        yield f"{page.name}: its sections are {page.sections}"
    for name, text in page.section.items():
        if not text.strip():
            yield f"{page.name}: {name} is empty"
    if len(page.blocks("EXAMPLE")) != 1:
        yield f"{page.name}: EXAMPLE is not one block"
    if re.search(r"(?<!\\)\\(?:\\\\)*[^\W_]", "".join(page.blocks("EXAMPLE"))):
        yield f"{page.name}: a backslash in EXAMPLE has to be written as two"


def about_words(page, header):
    """What stands in a page is in the header."""
    for word in sorted(set(re.findall(r"\b(?:gkv|GKV)_\w+", page.text))):
        word = word.rstrip("_")
        if word not in header.words:
            yield f"{page.name}: {word} is not in the header"
    for word in sorted(set(re.findall(r"\*-(E[A-Z]+)\*", page.text))):
        if not hasattr(errno, word):
            yield f"{page.name}: {word} is no errno"


def about_declarations(page, header):
    """SYNOPSIS declares what NAME names, as the header does; structures are as there."""
    code = code_of("\n".join(page.blocks("SYNOPSIS")))
    declared = set()
    for text in re.sub(r"^#.*$", "", code, flags=re.M).split(";"):
        one = squeeze(text)
        if "gkv_" not in one:
            continue
        declared |= set(re.findall(r"\b(gkv_\w+)\(", one))
        if one not in header.declarations:
            yield f"{page.name}: the header does not declare {one}"
    for name in page.named:
        if name not in declared and name != OVERVIEW:
            yield f"{page.name}: SYNOPSIS does not declare {name}"
    for section in page.sections:
        for block in page.blocks(section) if section != "EXAMPLE" else ():
            for name, body in re.findall(r"\bstruct (gkv_\w+) \{(.*?)\};", code_of(block),
                                         flags=re.S):
                if squeeze(body) != header.structs.get(name):
                    yield f"{page.name}: struct {name} is not as in the header"
    for field in header.fields(DESCRIBED[page.name]) if page.name in DESCRIBED else ():
        if not re.search(rf"^_{field}_|, _{field}_", page.text, flags=re.M):
            yield f"{page.name}: the field {field} is not described"


def about_references(page, names):
    for name in sorted(set(re.findall(r"\*((?:gkv_|gracekv)\w*)\*\(3\)", page.text))):
        if name not in names:
            yield f"{page.name}: there is no {name}(3)"
    if page.name != OVERVIEW and f"*{OVERVIEW}*(3)" not in page.section.get("SEE ALSO", ""):
        yield f"{page.name}: SEE ALSO does not lead to {OVERVIEW}(3)"


def about_errors(page, header):
    """Each error that the header names for a function stands in its page."""
    wanted = {name: header.errors.get(name, ()) for name in page.named}
    wanted[OVERVIEW] = header.errors_of_all if page.name == OVERVIEW else ()
    for name, errors in wanted.items():
        for error in sorted(errors):
            if not re.search(rf"\*-{error}\*", page.text):
                yield f"{page.name}: the header says -{error} of {name}"


def problems(pages, header, symbols):
    found = list(about_names(pages, header, symbols))
    names = {name for page in pages.values() for name in page.named}
    for page in pages.values():
        found += about_form(page)
        found += about_words(page, header)
        found += about_declarations(page, header)
        found += about_errors(page, header)
        found += about_references(page, names)
    overview = pages[OVERVIEW]
    found += [f"{OVERVIEW}: leads nowhere to {name}(3)" for name in pages
              if name != OVERVIEW and f"*{name}*(3)" not in overview.section["SEE ALSO"]]
    return found


class Man(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.text = HEADER.read_text("utf-8")
        cls.header = Header(cls.text)
        cls.symbols = mapped(MAP.read_text("utf-8"))
        cls.pages = read_pages()

    def test_pages_say_what_the_header_says(self):
        self.assertGreater(len(self.pages), 8)
        self.assertGreater(len(self.header.functions), 30)
        self.assertEqual(set(self.header.errors), self.header.functions)
        self.assertGreater(len(self.header.errors_of_all), 9)
        self.assertEqual(problems(self.pages, self.header, self.symbols), [])

    # Mutants: the check must see each.

    def assert_seen(self, words, pages=None, header=None, symbols=None):
        found = problems(pages or self.pages, header or self.header, symbols or self.symbols)
        self.assertTrue(any(words in one for one in found), found)

    def changed(self, name, old, new):
        """All pages, one of them with another text."""
        text = self.pages[name].text
        self.assertIn(old, text)
        return {**self.pages, name: Page(name, text.replace(old, new))}

    def test_sees_a_symbol_without_a_page(self):
        self.assert_seen("gkv_new: no page", symbols=self.symbols | {"gkv_new"})
        for name in sorted(self.symbols):
            page = next(page for page in self.pages.values() if name in page.named)
            if name != page.name:
                self.assert_seen(f"{name}: no page", self.changed(page.name, f", {name}", ""))

    def test_sees_an_inline_function_without_a_page(self):
        more = self.text + "static inline void gkv_more(void)\n{\n}\n"
        self.assert_seen("gkv_more: no page", header=Header(more))

    def test_sees_a_page_of_a_function_that_is_none(self):
        for name in sorted(self.header.exported):
            less = Header(re.sub(rf"\b{name}\(", "gkv_other(", self.text))
            self.assert_seen(f"{name}: ", header=less)

    def test_sees_a_function_of_two_pages(self):
        self.assert_seen("is named by", self.changed("gkv_tick", "gkv_tick - ",
                                                     "gkv_tick, gkv_open - "))

    def test_sees_words_that_are_not_in_the_header(self):
        self.assert_seen("gkv_gett is not", self.changed("gkv_get", "*gkv_get*()", "*gkv_gett*()"))
        self.assert_seen("GKV_ALLWAYS", self.changed("gkv_put", "*GKV_ALWAYS*", "*GKV_ALLWAYS*"))
        self.assert_seen("ENOENTRY", self.changed("gkv_get", "*-ENOENT*", "*-ENOENTRY*"))

    def test_sees_another_declaration(self):
        self.assert_seen("does not declare", self.changed("gkv_get", "size_t *len);",
                                                          "size_t len);"))
        self.assert_seen("does not declare", self.changed("gkv_scan", "typedef int", "typedef x"))
        self.assert_seen("SYNOPSIS does not declare gkv_ping", self.changed(
            "gkv_stats_get", "int gkv_ping(struct gkv *handle, uint64_t *ns);", ""))

    def test_sees_another_structure(self):
        self.assert_seen("struct gkv_meta is not", self.changed("gkv_get", "uint32_t value_len;",
                                                                "uint64_t value_len;"))

    def test_sees_a_field_that_is_not_described(self):
        more = self.text.replace("hint_bytes;\n", "hint_bytes;\nint news[2];\n")
        self.assert_seen("the field news", header=Header(more))

    def test_sees_missing_sections_and_words(self):
        for section in SECTIONS[2:]:
            self.assert_seen("its sections are", self.changed("gkv_get", f"# {section}", "# ELSE"))
        self.assert_seen("THREADS is empty", self.changed("gkv_get", "The handle's thread.", ""))

    def test_sees_references_that_lead_nowhere(self):
        self.assert_seen("there is no gracekv_get(3)", self.changed(
            "gkv_get", "*gkv_mget*(3)", "*gracekv_get*(3)"))
        pages = dict(self.pages)
        pages["gkv_more"] = Page("gkv_more", pages["gkv_tick"].text.replace("gkv_tick", "gkv_more"))
        self.assert_seen("leads nowhere to gkv_more(3)", pages)

    def test_sees_errors_that_a_page_does_not_name(self):
        self.assert_seen("says -ESTALE of gkv_scan", self.changed("gkv_scan", "*-ESTALE*", ""))
        self.assert_seen("says -ESTALE of gkv_scan_next", self.changed("gkv_scan", "*-ESTALE*", ""))
        self.assert_seen("gracekv: the header says -EDEADLK", self.changed(
            "gracekv", "*-EDEADLK*", ""))
        more = self.text.replace("-EDOM: the value", "-EXDEV: the value")
        self.assert_seen("gkv_put: the header says -EXDEV of gkv_incr", header=Header(more))
        for name, errors in self.header.errors.items():
            page = next(page for page in self.pages.values() if name in page.named)
            for error in errors:
                less = Page(page.name, page.text.replace(f"-{error}*", "*"))
                self.assert_seen(f"says -{error} of {name}", {**self.pages, page.name: less})

    def test_sees_a_lone_backslash(self):
        self.assert_seen("written as two", self.changed("gracekv", "\\\\n", "\\n"))


if __name__ == "__main__":
    unittest.main()
