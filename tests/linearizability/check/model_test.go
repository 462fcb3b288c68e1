// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GraceKV authors

package main

// Each rule of the model, by histories that hold it and that break it.

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

var (
	vA, vB, vC = bytesOf(1), bytesOf(2), bytesOf(3)
	n5, n7     = uint64(5), uint64(7)
)

type history []record

type modelCase struct {
	name    string
	legal   bool
	records history
}

var readCases = []modelCase{
	{"empty", true, history{}},
	{"get of nothing", true, history{getAbsent(1, 2)}},
	{"get of number 0 in nothing", false, history{get(1, 2, 0, 0)}},
	{"get before any put", false, history{get(1, 2, vA, 0), put(3, 4, vA, 0)}},
	{"get of what was put", true, history{put(1, 2, vA, 9), get(3, 4, vA, 9)}},
	{"get while it is put", true, history{put(1, 9, vA, 9), getAbsent(2, 3), get(4, 5, vA, 9)}},
	{"get at the moment of a return", true, history{put(1, 2, vA, 9), getAbsent(2, 3)}},
	{"new, then old, in one put", false,
		history{put(1, 9, vA, 9), get(2, 3, vA, 9), getAbsent(4, 5)}},
	{"stale read", false, history{put(1, 2, vA, 0), put(3, 4, vB, 0), get(5, 6, vA, 0)}},
	{"false miss", false, history{put(1, 2, vA, 0), getAbsent(3, 4)}},
	{"wrong version", false, history{put(1, 2, vA, 9), get(3, 4, vA, 8)}},
	{"right value, version told later", false,
		history{put(1, 2, vA, 0), get(3, 4, vA, 9), get(5, 6, vA, 10)}},
	{"version told by a get", true,
		history{put(1, 2, vA, 0), get(3, 4, vA, 9), get(5, 6, vA, 9), get(7, 8, vA, 0)}},
	{"garbage", false, history{get(1, 2, valueGarbage, 0)}},
	{"garbage of a record", false, history{put(1, 2, vA, 0), get(3, 4, valueGarbage, 0)}},
	{"value nobody wrote", false, history{put(1, 2, vA, 0), get(3, 4, vB, 0)}},
	{"exists", true, history{put(1, 2, vA, 9), exists(3, 4, 9), exists(5, 6, 0)}},
	{"exists not", true, history{existsNot(1, 2), put(1, 4, vA, 9)}},
	{"exists of nothing", false, history{exists(1, 2, 0)}},
	{"exists not, but does", false, history{put(1, 2, vA, 9), existsNot(3, 4)}},
	{"exists in a wrong version", false, history{put(1, 2, vA, 9), exists(3, 4, 10)}},
	{"exists tells a get the version", false,
		history{put(1, 2, vA, 0), exists(3, 4, 9), get(5, 6, vA, 10)}},
}

var writeCases = []modelCase{
	{"put_new", true, history{putNew(1, 2, vA, 9), get(3, 4, vA, 9), putNewExists(5, 6, 9)}},
	{"put_new of what is there", false, history{put(1, 2, vA, 9), putNew(3, 4, vB, 10)}},
	{"put_new finds nothing", false, history{putNewExists(1, 2, 0)}},
	{"put_new names a version that was not", false, history{put(1, 2, vA, 9), putNewExists(3, 4, 8)}},
	{"put_new tells the version", false,
		history{put(1, 2, vA, 0), putNewExists(3, 4, 9), get(5, 6, vA, 8)}},
	{"put_new that failed writes nothing", false,
		history{put(1, 2, vA, 9), putNewExists(3, 4, 9), get(5, 6, bytesOf(99), 0)}},
	{"put_old", true, history{put(1, 2, vA, 9), putOld(3, 4, vB, 10), get(5, 6, vB, 10)}},
	{"put_old that is lost", false, history{put(1, 2, vA, 9), putOld(3, 4, vB, 0), get(5, 6, vA, 0)}},
	{"put_old of nothing", false, history{putOld(1, 2, vA, 9)}},
	{"put_old misses", true, history{putOldAbsent(1, 2), getAbsent(3, 4)}},
	{"put_old misses what is there", false, history{put(1, 2, vA, 9), putOldAbsent(3, 4)}},
	{"del", true, history{put(1, 2, vA, 9), del(3, 4), getAbsent(5, 6), delAbsent(7, 8)}},
	{"del of nothing", false, history{del(1, 2)}},
	{"del finds nothing, but there is", false, history{put(1, 2, vA, 9), delAbsent(3, 4)}},
	{"del twice", false, history{put(1, 2, vA, 9), del(3, 6), del(4, 5)}},
	{"resurrected delete", false, history{put(1, 2, vA, 9), del(3, 4), get(5, 6, vA, 0)}},
	{"insert behind a delete", true,
		history{put(1, 2, vA, 9), del(3, 4), put(5, 6, vB, 10), get(7, 8, vB, 10)}},
}

var conditionCases = []modelCase{
	{"cas", true, history{put(1, 2, vA, 9), cas(3, 4, 9, vB, 12), get(5, 6, vB, 12)}},
	{"cas of an unknown version", true, history{put(1, 2, vA, 0), cas(3, 4, 9, vB, 12)}},
	{"cas success on a wrong version", false, history{put(1, 2, vA, 9), cas(3, 4, 8, vB, 12)}},
	{"cas success on a version of before", false,
		history{put(1, 2, vA, 9), put(3, 4, vB, 0), cas(5, 6, 9, vC, 12)}},
	{"cas tells the version", false, history{put(1, 2, vA, 0), getAbsent(1, 2), exists(3, 4, 10),
		cas(5, 6, 9, vB, 12)}},
	{"cas of nothing", false, history{cas(1, 2, 9, vB, 12)}},
	{"cas of version 0", false, history{put(1, 2, vA, 0), cas(3, 4, 0, vB, 12)}},
	{"cas to an older version", false, history{put(1, 2, vA, 0), cas(3, 4, 9, vB, 7)}},
	{"cas to a version that is not told", false,
		history{put(1, 2, vA, 0), cas(3, 4, 9, vB, 0), get(5, 6, vB, 9)}},
	{"lost update", false, history{put(1, 2, vA, 9), cas(3, 6, 9, vB, 0), cas(4, 7, 9, vC, 0)}},
	{"cas without effect", false,
		history{put(1, 2, vA, 9), cas(3, 4, 9, vB, 0), get(5, 6, vA, 9)}},
	{"cas misses", true, history{casAbsent(1, 2, 9), put(3, 4, vA, 9)}},
	{"cas misses what is there", false, history{put(1, 2, vA, 9), casAbsent(3, 4, 9)}},
	{"cas finds another version", true,
		history{put(1, 2, vA, 9), casOther(3, 4, 8, 9), casOther(5, 6, 8, 0), get(7, 8, vA, 9)}},
	{"cas finds another, but is right", false, history{put(1, 2, vA, 9), casOther(3, 4, 9, 0)}},
	{"cas finds the version it expects", false, history{put(1, 2, vA, 0), casOther(3, 4, 9, 9)}},
	{"cas finds one in nothing", false, history{casOther(1, 2, 9, 0)}},
	{"cas finds a version that was not", false, history{put(1, 2, vA, 9), casOther(3, 4, 8, 7)}},
	{"cas finds, and tells", false,
		history{put(1, 2, vA, 0), casOther(3, 4, 8, 9), get(5, 6, vA, 10)}},
	{"del_if", true, history{put(1, 2, vA, 9), delIf(3, 4, 9), getAbsent(5, 6)}},
	{"del_if of an unknown version", true, history{put(1, 2, vA, 0), delIf(3, 4, 9)}},
	{"del_if of a wrong version", false, history{put(1, 2, vA, 9), delIf(3, 4, 8)}},
	{"del_if of version 0", false, history{put(1, 2, vA, 0), delIf(3, 4, 0)}},
	{"del_if of nothing", false, history{delIf(1, 2, 9)}},
	{"del_if without effect", false, history{put(1, 2, vA, 9), delIf(3, 4, 9), get(5, 6, vA, 9)}},
	{"del_if tells the version", false,
		history{put(1, 2, vA, 0), delIf(3, 4, 9), put(5, 6, vB, 9)}},
	{"del has a version", true, history{put(1, 2, vA, 9), delAs(3, 4, 10), put(5, 6, vB, 11)}},
	{"del has the version that was there", false, history{put(1, 2, vA, 9), delAs(3, 4, 9)}},
	{"put to the version of a del", false,
		history{put(1, 2, vA, 0), delAs(3, 4, 10), put(5, 6, vB, 10)}},
	{"put while the key is deleted, in a later version", false,
		history{put(1, 2, vA, 9), delAs(3, 6, 11), put(4, 5, vB, 10), get(7, 8, vB, 10)}},
	{"del_if misses", true, history{delIfAbsent(1, 2, 9)}},
	{"del_if misses what is there", false, history{put(1, 2, vA, 9), delIfAbsent(3, 4, 9)}},
	{"del_if finds another version", true, history{put(1, 2, vA, 9), delIfOther(3, 4, 8, 9)}},
	{"del_if finds another, but is right", false, history{put(1, 2, vA, 9), delIfOther(3, 4, 9, 0)}},
	{"del_if finds one in nothing", false, history{delIfOther(1, 2, 9, 0)}},
	{"del_if finds a version that was not", false,
		history{put(1, 2, vA, 9), delIfOther(3, 4, 8, 10)}},
}

var versionCases = []modelCase{
	{"put to an older version", false, history{put(1, 2, vA, 9), put(3, 4, vB, 8)}},
	{"put to the same version", false, history{put(1, 2, vA, 9), put(3, 4, vB, 9)}},
	{"repeated version after a delete", false,
		history{put(1, 2, vA, 9), del(3, 4), put(5, 6, vB, 9)}},
	{"version found after a delete", false,
		history{put(1, 2, vA, 9), del(3, 4), put(5, 6, vB, 0), get(7, 8, vB, 9)}},
	{"older version after two deletes", false, history{put(1, 2, vA, 9), del(3, 4),
		put(5, 6, vB, 0), del(7, 8), putNew(9, 10, vC, 8)}},
	{"floor is kept by a miss", false,
		history{put(1, 2, vA, 9), del(3, 4), getAbsent(5, 6), put(7, 8, vB, 5)}},
	{"a version between two", true,
		history{put(1, 2, vA, 9), put(3, 4, vB, 0), put(5, 6, vC, 11)}},
	{"no version between two", false,
		history{put(1, 2, vA, 9), put(3, 4, vB, 0), put(5, 6, vC, 10)}},
	{"no version between two, deleted", false,
		history{put(1, 2, vA, 9), put(3, 4, vB, 0), del(5, 6), put(7, 8, vC, 10)}},
	{"put_old to an older version", false, history{put(1, 2, vA, 9), putOld(3, 4, vB, 8)}},
	{"put_new to an older version", false,
		history{put(1, 2, vA, 9), del(3, 4), putNew(5, 6, vB, 8)}},
	{"versions order puts at a time", false,
		history{put(1, 9, vA, 8), put(1, 9, vB, 9), get(10, 11, vA, 8)}},
}

var numberCases = []modelCase{
	{"incr of nothing", true, history{incr(1, 2, 3, 3), get(3, 4, 3, 0)}},
	{"incr of nothing, wrong", false, history{incr(1, 2, 3, 4)}},
	{"incr of a number", true, history{put(1, 2, n5, 0), incr(3, 4, -7, -2), incr(5, 6, 4, 2)}},
	{"double-applied incr", false, history{incr(1, 2, 3, 3), incr(3, 4, 3, 9)}},
	{"lost incr", false, history{incr(1, 5, 3, 3), incr(2, 6, 3, 3)}},
	{"incr that a get does not see", false, history{put(1, 2, n5, 0), incr(3, 4, 2, 7), get(5, 6, n5, 0)}},
	{"incr that a get sees", true, history{put(1, 2, n5, 0), incr(3, 4, 2, 7), get(5, 6, n7, 0)}},
	{"incr after a delete", true, history{put(1, 2, n5, 0), del(3, 4), incr(5, 6, 2, 2)}},
	{"incr of what was deleted", false, history{put(1, 2, n5, 0), del(3, 4), incr(5, 6, 2, 7)}},
	{"incr of bytes", true, history{put(1, 2, vA, 9), incrBytes(3, 4), get(5, 6, vA, 9)}},
	{"incr of bytes succeeds", false, history{put(1, 2, vA, 9), incr(3, 4, 1, int64(vA+1))}},
	{"incr of no bytes", false, history{put(1, 2, n5, 9), incrBytes(3, 4)}},
	{"incr of a negative that is no bytes", false, history{incr(1, 2, -1, -1), incrBytes(3, 4)}},
	{"incr of absent bytes", false, history{incrBytes(1, 2)}},
	{"incr has a new version", false,
		history{put(1, 2, n5, 9), incr(3, 4, 2, 7), get(5, 6, n7, 9)}},
	{"incr has its own version", false,
		history{done(opIncr, 1, 2, statusOK, 2, 2, 9), get(5, 6, 2, 10)}},
}

var appendCases = []modelCase{
	{"append to nothing", true, history{add(1, 2, vA, 9), get(3, 4, vA, 9)}},
	{"append to bytes", true,
		history{put(1, 2, vA, 8), add(3, 4, vB, 9), get(5, 6, appended(vA, vB), 9)}},
	{"append to a number", true,
		history{put(1, 2, n5, 0), add(3, 4, vB, 0), get(5, 6, appended(n5, vB), 0)}},
	{"append that a get does not see", false,
		history{put(1, 2, vA, 8), add(3, 4, vB, 9), get(5, 6, vA, 0)}},
	{"double-applied append", false,
		history{put(1, 2, vA, 0), add(3, 4, vB, 0), get(5, 6, appended(appended(vA, vB), vB), 0)}},
	{"lost append", false, history{put(1, 2, vA, 0), add(3, 6, vB, 0), add(4, 7, vC, 0),
		get(8, 9, appended(vA, vB), 0)}},
	{"appends in another order", true, history{put(1, 2, vA, 0), add(3, 6, vB, 0), add(4, 7, vC, 0),
		get(8, 9, appended(appended(vA, vC), vB), 0)}},
	{"append makes no number", false,
		history{put(1, 2, n5, 0), add(3, 4, vB, 0), incr(5, 6, 1, 6)}},
	{"append has a new version", false, history{put(1, 2, vA, 9), add(3, 4, vB, 9)}},
	{"append in doubt", true, history{put(1, 2, vA, 0), lost(add(3, 4, vB, 0)), get(5, 6, vA, 0),
		get(7, 8, appended(vA, vB), 0)}},
	{"append in doubt, applied twice", false, history{put(1, 2, vA, 0), lost(add(3, 4, vB, 0)),
		get(7, 8, appended(appended(vA, vB), vB), 0)}},
	{"getdel", true, history{put(1, 2, vA, 9), getDel(3, 4, vA, 9), getAbsent(5, 6)}},
	{"getdel of nothing", true, history{getDelAbsent(1, 2)}},
	{"getdel misses what is there", false, history{put(1, 2, vA, 9), getDelAbsent(3, 4)}},
	{"getdel without effect", false,
		history{put(1, 2, vA, 9), getDel(3, 4, vA, 9), get(5, 6, vA, 0)}},
	{"getdel of what was overwritten", false,
		history{put(1, 2, vA, 8), put(3, 4, vB, 9), getDel(5, 6, vA, 8)}},
	{"getdel twice", false, history{put(1, 2, vA, 9), getDel(3, 6, vA, 9), getDel(4, 7, vA, 9)}},
	{"getdel in another version", false, history{put(1, 2, vA, 9), getDel(3, 4, vA, 8)}},
	{"getdel, and an older version after it", false,
		history{put(1, 2, vA, 9), getDel(3, 4, vA, 9), put(5, 6, vB, 9)}},
	{"getdel in doubt", true,
		history{put(1, 2, vA, 9), lost(getDel(3, 4, 0, 0)), getAbsent(5, 6)}},
}

func TestModel(t *testing.T) {
	for _, cases := range [][]modelCase{readCases, writeCases, conditionCases, versionCases,
		numberCases, appendCases} {
		for _, c := range cases {
			testVerdict(t, c.name, c.legal, c.records, nil)
		}
	}
}

// A shrunk history begins with a state of which nothing is known.
var wildCases = []modelCase{
	{"get binds the value", false, history{get(1, 2, vA, 0), get(3, 4, vB, 0)}},
	{"get binds the version", false, history{get(1, 2, vA, 8), get(3, 4, vA, 9)}},
	{"get binds that it is there", false, history{get(1, 2, vA, 0), getAbsent(3, 4)}},
	{"get of garbage", false, history{get(1, 2, valueGarbage, 0)}},
	{"get of nothing binds", false, history{getAbsent(1, 2), exists(3, 4, 0)}},
	{"exists binds that it is there", false, history{exists(1, 2, 0), getAbsent(3, 4)}},
	{"exists leaves the value", true, history{exists(1, 2, 9), get(3, 4, vA, 9)}},
	{"put_new was absent", true, history{putNew(1, 2, vA, 1), get(3, 4, vA, 1)}},
	{"put_new exists", true, history{putNewExists(1, 2, 9), get(3, 4, vA, 9)}},
	{"put_old was there, in some version", false, history{putOld(1, 2, vA, 1)}},
	{"put_old was there", true, history{putOld(1, 2, vA, 2)}},
	{"cas binds", true, history{cas(1, 2, 9, vA, 10), get(3, 4, vA, 10)}},
	{"cas binds the version", false, history{cas(1, 2, 9, vA, 9)}},
	{"del", true, history{del(1, 2), getAbsent(3, 4)}},
	{"del, and again", false, history{del(1, 2), del(3, 4)}},
	{"del_if binds the version", false, history{delIf(1, 2, 9), put(3, 4, vA, 9)}},
	{"incr binds the sum", true, history{incr(1, 2, 3, 9), get(3, 4, 9, 0)}},
	{"incr binds", false, history{incr(1, 2, 3, 9), incr(3, 4, 3, 13)}},
	{"incr of bytes finds a record", false, history{incrBytes(1, 2), getAbsent(3, 4)}},
	{"incr of bytes", true, history{incrBytes(1, 2), get(3, 4, vA, 0)}},
	{"open incr of anything", true, history{lost(incr(1, 2, 3, 0)), getAbsent(3, 4),
		get(5, 6, 3, 0)}},
	{"open incr makes another version", true, history{exists(1, 2, 9), lost(incr(1, 2, 3, 0)),
		get(3, 4, n5, 10)}},
	{"open del", true, history{lost(del(1, 2)), get(3, 4, vA, 9), getAbsent(5, 6)}},
	{"wipe", false, history{get(1, 2, vA, 0), get(30, 31, vA, 0)}},
}

func TestWildStart(t *testing.T) {
	for _, c := range wildCases {
		want := porcupine.Illegal
		if c.legal {
			want = porcupine.Ok
		}
		ops := operationsOf(c.records, []event{wipe(10, 20)})
		if got := judge(ops, unknownState(0), testTimeout); got != want {
			t.Errorf("%s: %v, want %v", c.name, got, want)
		}
	}
}

func testVerdict(t *testing.T, name string, legal bool, records []record, wipes []event) {
	t.Helper()
	want := porcupine.Illegal
	if legal {
		want = porcupine.Ok
	}
	if got := resultOf(records, wipes); got != want {
		t.Errorf("%s: %v, want %v", name, got, want)
	}
}
