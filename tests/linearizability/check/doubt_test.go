// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GraceKV authors

package main

// What is known of operations without an answer, and of servers that were killed.

import "testing"

var openCases = []modelCase{
	{"open put that is seen at any time", true, history{lost(put(1, 2, vA, 0)),
		getAbsent(3, 4), get(50, 60, vA, 9), put(70, 80, vB, 10), get(90, 91, vB, 0)}},
	{"open put that is never applied", true, history{lost(put(1, 2, vA, 0)), getAbsent(3, 4)}},
	{"open put seen before it began", false, history{get(1, 2, vA, 0), lost(put(3, 4, vA, 0))}},
	{"open put applied twice", false, history{lost(put(1, 2, vA, 0)), get(3, 4, vA, 0),
		put(5, 6, vB, 0), get(7, 8, vA, 0)}},
	{"open put unseen, then seen no more", false, history{lost(put(1, 2, vA, 0)), get(3, 4, vA, 0),
		getAbsent(5, 6)}},
	{"open put seen in two versions", false, history{lost(put(1, 2, vA, 0)), get(3, 4, vA, 9),
		get(5, 6, vA, 10)}},
	{"open put is newer than what was", false, history{put(1, 2, vB, 9), lost(put(3, 4, vA, 0)),
		get(5, 6, vA, 8)}},
	{"open put explains a version", true, history{put(1, 2, vB, 9), lost(put(3, 4, vA, 0)),
		exists(5, 6, 10)}},
	{"gave up, and applied later", true, history{gaveUp(put(1, 2, vA, 0)), getAbsent(3, 4),
		get(5, 6, vA, 0)}},
	{"open incr", true, history{lost(incr(1, 2, 3, 0)), incr(3, 4, 1, 1), incr(5, 6, 1, 5)}},
	{"open incr applied twice", false, history{lost(incr(1, 2, 3, 0)), incr(3, 4, 1, 4),
		incr(5, 6, 1, 8)}},
	{"open incr of bytes does nothing", true, history{put(1, 2, vA, 9), lost(incr(3, 4, 1, 0)),
		get(5, 6, vA, 9), put(7, 8, vB, 10), get(9, 10, vB, 10)}},
	{"open incr of bytes changes no version", false, history{put(1, 2, vA, 9),
		lost(incr(3, 4, 1, 0)), exists(5, 6, 10)}},
	{"open del", true, history{put(1, 2, vA, 9), lost(del(3, 4)), get(5, 6, vA, 9),
		getAbsent(7, 8)}},
	{"open del twice", false, history{put(1, 2, vA, 9), lost(del(3, 4)), getAbsent(5, 6),
		put(7, 8, vB, 10), getAbsent(9, 10)}},
	{"open put_new", true, history{lost(putNew(1, 2, vA, 0)), get(3, 4, vA, 0)}},
	{"open put_new of what is there", false, history{put(1, 2, vB, 0), lost(putNew(3, 4, vA, 0)),
		get(5, 6, vA, 0)}},
	{"open put_old", true, history{put(1, 2, vB, 0), lost(putOld(3, 4, vA, 0)), get(5, 6, vA, 0)}},
	{"open put_old of nothing", false, history{lost(putOld(3, 4, vA, 0)), exists(5, 6, 0)}},
	{"open cas", true, history{put(1, 2, vB, 9), lost(cas(3, 4, 9, vA, 0)), get(5, 6, vA, 10)}},
	{"open cas of a wrong version", false, history{put(1, 2, vB, 9), lost(cas(3, 4, 8, vA, 0)),
		get(5, 6, vA, 10)}},
	{"open cas of version 0", false, history{put(1, 2, vB, 0), lost(cas(3, 4, 0, vA, 0)),
		get(5, 6, vA, 0)}},
	{"open cas of an unknown version", true, history{put(1, 2, vB, 0), lost(cas(3, 4, 8, vA, 0)),
		get(5, 6, vA, 10)}},
	{"open cas tells the version", false, history{put(1, 2, vB, 0), lost(cas(3, 4, 8, vA, 0)),
		get(5, 6, vA, 8)}},
	{"open del_if", true, history{put(1, 2, vB, 9), lost(delIf(3, 4, 9)), getAbsent(5, 6)}},
	{"open del_if of a wrong version", false, history{put(1, 2, vB, 9), lost(delIf(3, 4, 8)),
		getAbsent(5, 6)}},
	{"open del_if tells the version", false, history{put(1, 2, vB, 0), lost(delIf(3, 4, 8)),
		getAbsent(5, 6), put(7, 8, vC, 8)}},
	{"open put of bytes that another one wrote, too", true, history{put(1, 2, vA, 9),
		lost(putNew(3, 4, vA, 0)), get(5, 6, vA, 9)}},
	{"open get is nothing", true, history{lost(get(1, 2, vA, 0))}},
	{"failed put is nothing", false, history{withOutcome(put(1, 2, vA, 0), outcomeFailed),
		get(3, 4, vA, 0)}},
}

var unknownCases = []modelCase{
	{"unknown put was applied", true, history{unknown(put(1, 2, vA, 0)), get(3, 4, vA, 9)}},
	{"unknown put was not applied", true, history{unknown(put(1, 2, vA, 0)), getAbsent(3, 4)}},
	{"unknown put that shows up later", false, history{unknown(put(1, 2, vA, 0)), getAbsent(3, 4),
		get(5, 6, vA, 9)}},
	{"unknown del that shows up later", false, history{put(1, 2, vA, 0), unknown(del(3, 4)),
		get(5, 6, vA, 0), getAbsent(7, 8)}},
	{"unknown del was not applied", true, history{put(1, 2, vA, 0), unknown(del(3, 4)),
		get(5, 6, vA, 0), get(7, 8, vA, 0)}},
	{"unknown del was applied", true, history{put(1, 2, vA, 0), unknown(del(3, 4)),
		getAbsent(5, 6), getAbsent(7, 8)}},
	{"unknown del just before the end", false, history{put(1, 2, vA, 0), unknown(del(3, 4)),
		get(5, 5, vA, 0), getAbsent(5, 5)}},
	{"unknown incr", true, history{unknown(incr(1, 2, 3, 0)), incr(3, 4, 1, 4), incr(5, 6, 1, 5)}},
	{"unknown incr not applied", true, history{unknown(incr(1, 2, 3, 0)), incr(3, 4, 1, 1)}},
	{"unknown incr applied later", false, history{unknown(incr(1, 2, 3, 0)), incr(3, 4, 1, 1),
		incr(5, 6, 1, 5)}},
	{"unknown incr applied twice", false, history{unknown(incr(1, 2, 3, 0)), incr(3, 4, 1, 7)}},
	{"unknown cas", true, history{put(1, 2, vA, 0), unknown(cas(3, 4, 9, vB, 0)), exists(5, 6, 10),
		put(7, 8, vC, 11)}},
	{"unknown cas of another version", true, history{put(1, 2, vA, 0),
		unknown(cas(3, 4, 9, vB, 0)), get(5, 6, vA, 8)}},
	{"unknown puts hide each other", true, history{unknown(put(1, 4, vA, 0)),
		unknown(put(2, 5, vB, 0)), unknown(put(3, 6, vC, 0)), get(7, 8, vB, 9), getAbsent(1, 2)}},
	{"unknown put_new of what is there", false, history{put(1, 2, vA, 0),
		unknown(putNew(3, 4, vB, 0)), get(5, 6, vB, 0)}},
}

func TestDoubt(t *testing.T) {
	for _, cases := range [][]modelCase{openCases, unknownCases} {
		for _, c := range cases {
			testVerdict(t, c.name, c.legal, c.records, nil)
		}
	}
}

// The server is killed between 10 and 20.
var wipeCases = []modelCase{
	{"value from before a wipe", false, history{put(1, 2, vA, 0), get(30, 31, vA, 0)}},
	{"nothing after a wipe", true, history{put(1, 2, vA, 9), getAbsent(30, 31)}},
	{"seen while it dies", true, history{put(1, 2, vA, 9), get(12, 13, vA, 9), getAbsent(14, 15)}},
	{"lost, then seen while it dies", false,
		history{put(1, 2, vA, 9), getAbsent(12, 13), get(14, 15, vA, 9)}},
	{"lost when the server was seen to be dead", true, history{put(20, 25, vA, 9),
		getAbsent(30, 31)}},
	{"lost when the server is killed", true, history{put(1, 2, vA, 9), getAbsent(5, 10)}},
	{"not lost yet when the server is killed", false, history{put(1, 2, vA, 9), getAbsent(5, 9)}},
	{"versions start over", true, history{put(1, 2, vA, 9), put(30, 31, vB, 4), get(32, 33, vB, 4)}},
	{"a version of the life before", true, history{put(1, 2, vA, 9), put(30, 31, vB, 9)}},
	{"a put that lasts beyond the wipe", true, history{put(1, 30, vA, 9), get(40, 41, vA, 9)}},
	{"del behind the wipe", false, history{put(1, 2, vA, 9), del(30, 31)}},
	{"incr starts over", true, history{put(1, 2, n5, 0), incr(30, 31, 2, 2)}},
	{"incr goes on", false, history{put(1, 2, n5, 0), incr(30, 31, 2, 7)}},
	{"open, given up before the server died", false,
		history{gaveUp(put(1, 2, vA, 0)), getAbsent(3, 4), get(30, 31, vA, 0)}},
	{"open, given up while the server died", false,
		history{gaveUp(put(1, 20, vA, 0)), get(30, 31, vA, 0)}},
	{"open, applied before the server died", true,
		history{gaveUp(put(1, 2, vA, 0)), getAbsent(3, 4), get(5, 6, vA, 0), getAbsent(30, 31)}},
	{"open, seen while the server died", true,
		history{gaveUp(put(1, 5, vA, 0)), get(12, 13, vA, 0), getAbsent(30, 31)}},
	{"open, seen while the server died, after its loss was", false, history{
		put(1, 2, vB, 9), gaveUp(put(3, 5, vA, 0)), getAbsent(12, 13), get(14, 15, vA, 0)}},
	{"open, never applied, with a wipe", true,
		history{gaveUp(put(1, 2, vA, 0)), getAbsent(3, 4), getAbsent(30, 31)}},
	{"open del of another life", false, history{gaveUp(del(1, 2)), put(30, 31, vA, 0),
		getAbsent(32, 33)}},
	{"open incr of another life", false, history{gaveUp(incr(1, 2, 3, 0)), incr(30, 31, 1, 4)}},
	{"open incr of its life", true, history{gaveUp(incr(1, 2, 3, 0)), incr(3, 4, 1, 4),
		incr(30, 31, 1, 1)}},
	{"open, given up after the server died", true,
		history{gaveUp(put(1, 21, vA, 0)), getAbsent(22, 23), get(30, 31, vA, 0)}},
	{"open, called while the server died", true,
		history{gaveUp(put(11, 12, vA, 0)), getAbsent(22, 23), get(30, 31, vA, 0)}},
	{"open, of a process that was killed", true,
		history{lost(put(1, 2, vA, 0)), getAbsent(22, 23), get(30, 31, vA, 0)}},
	{"unknown across the wipe", true, history{unknown(put(1, 25, vA, 0)), get(30, 31, vA, 0)}},
	{"unknown across the wipe, not applied", true, history{put(1, 2, vB, 0),
		unknown(put(3, 25, vA, 0)), getAbsent(30, 31)}},
	{"unknown before the wipe", false, history{unknown(put(1, 2, vA, 0)), get(30, 31, vA, 0)}},
	{"unknown del across the wipe", true, history{put(1, 2, vB, 0), unknown(del(3, 25)),
		get(4, 5, vB, 0), putNew(26, 27, vC, 0), get(28, 29, vC, 0)}},
}

func TestWipe(t *testing.T) {
	for _, c := range wipeCases {
		testVerdict(t, c.name, c.legal, c.records, []event{wipe(10, 20)})
	}
	two := []event{wipe(10, 20), wipe(40, 50)}
	testVerdict(t, "open of the second life", true, history{gaveUp(put(21, 22, vA, 0)),
		getAbsent(23, 24), get(30, 31, vA, 0), getAbsent(60, 61)}, two)
	testVerdict(t, "open of the second life, in the third", false, history{
		gaveUp(put(21, 22, vA, 0)), getAbsent(23, 24), get(60, 61, vA, 0)}, two)
	testVerdict(t, "open of the first life, in the second", false, history{
		gaveUp(incr(1, 2, 3, 0)), incr(3, 4, 1, 1), incr(30, 31, 1, 4), getAbsent(60, 61)}, two)
	testVerdict(t, "given up between two wipes", true, history{
		gaveUp(put(1, 22, vA, 0)), getAbsent(23, 24), get(30, 31, vA, 0), getAbsent(60, 61)}, two)
	testVerdict(t, "given up between two wipes, in the third life", false, history{
		gaveUp(put(1, 22, vA, 0)), getAbsent(23, 24), get(60, 61, vA, 0)}, two)
	testVerdict(t, "a wipe ahead of the key", true, history{put(60, 61, vA, 0),
		get(62, 63, vA, 0)}, two)
}
