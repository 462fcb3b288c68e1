// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GraceKV authors

package main

// Records by hand, for histories of one key.

import (
	"time"

	"github.com/anishathalye/porcupine"
)

const testTimeout = 20 * time.Second

func bytesOf(n uint64) uint64 { return valueBytes | 1<<40 | n }

func done(op uint8, call, ret int64, status uint8, value, extra, version uint64) record {
	return record{op: op, call: call, ret: ret, outcome: outcomeDone, status: status, value: value,
		extra: extra, version: version}
}

func get(call, ret int64, value, version uint64) record {
	return done(opGet, call, ret, statusOK, value, 0, version)
}

func getAbsent(call, ret int64) record { return done(opGet, call, ret, statusAbsent, 0, 0, 0) }

func exists(call, ret int64, version uint64) record {
	return done(opExists, call, ret, statusOK, 0, 0, version)
}

func existsNot(call, ret int64) record { return done(opExists, call, ret, statusAbsent, 0, 0, 0) }

func put(call, ret int64, value, version uint64) record {
	return done(opPut, call, ret, statusOK, value, 0, version)
}

func putNew(call, ret int64, value, version uint64) record {
	return done(opPutNew, call, ret, statusOK, value, 0, version)
}

func putNewExists(call, ret int64, version uint64) record {
	return done(opPutNew, call, ret, statusExists, bytesOf(99), 0, version)
}

func putOld(call, ret int64, value, version uint64) record {
	return done(opPutOld, call, ret, statusOK, value, 0, version)
}

func putOldAbsent(call, ret int64) record {
	return done(opPutOld, call, ret, statusAbsent, bytesOf(98), 0, 0)
}

func cas(call, ret int64, expected, value, version uint64) record {
	return done(opCas, call, ret, statusOK, value, expected, version)
}

func casAbsent(call, ret int64, expected uint64) record {
	return done(opCas, call, ret, statusAbsent, bytesOf(97), expected, 0)
}

func casOther(call, ret int64, expected, version uint64) record {
	return done(opCas, call, ret, statusExists, bytesOf(96), expected, version)
}

func del(call, ret int64) record { return done(opDel, call, ret, statusOK, 0, 0, 0) }

func delAs(call, ret int64, version uint64) record {
	return done(opDel, call, ret, statusOK, 0, 0, version)
}

func delAbsent(call, ret int64) record { return done(opDel, call, ret, statusAbsent, 0, 0, 0) }

func delIf(call, ret int64, expected uint64) record {
	return done(opDelIf, call, ret, statusOK, 0, expected, 0)
}

func delIfAbsent(call, ret int64, expected uint64) record {
	return done(opDelIf, call, ret, statusAbsent, 0, expected, 0)
}

func delIfOther(call, ret int64, expected, version uint64) record {
	return done(opDelIf, call, ret, statusExists, 0, expected, version)
}

func incr(call, ret int64, delta, sum int64) record {
	return done(opIncr, call, ret, statusOK, uint64(delta), uint64(sum), 0)
}

func add(call, ret int64, tail, version uint64) record {
	return done(opAppend, call, ret, statusOK, tail, 0, version)
}

func getDel(call, ret int64, value, version uint64) record {
	return done(opGetDel, call, ret, statusOK, value, 0, version)
}

func getDelAbsent(call, ret int64) record {
	return done(opGetDel, call, ret, statusAbsent, 0, 0, 0)
}

// appended is what value becomes where tail is added.
func appended(value, tail uint64) uint64 {
	s := state{there: present, value: value}
	s.append(tail, 0)
	return s.value
}

func incrBytes(call, ret int64) record { return done(opIncr, call, ret, statusDomain, 1, 0, 0) }

func withOutcome(r record, outcome uint8) record {
	r.outcome, r.status, r.version = outcome, statusNone, 0
	if r.op == opIncr {
		r.extra = 0
	}
	return r
}

// gaveUp is open: its call returned, and nobody knows whether it was or will be applied.
func gaveUp(r record) record { return withOutcome(r, outcomeOpen) }

// lost is open: its process was killed.
func lost(r record) record {
	r.ret = 0
	return withOutcome(r, outcomeOpen)
}

func unknown(r record) record { return withOutcome(r, outcomeUnknown) }

func wipe(begin, end int64) event {
	return event{Begin: begin, End: end, Nemesis: "kill-server", Who: "server", Wipes: true}
}

func operationsOf(records []record, wipes []event) []operation {
	var own []*record
	for i := range records {
		own = append(own, &records[i])
	}
	return buildOperations(own, wipes)
}

func resultOf(records []record, wipes []event) porcupine.CheckResult {
	return judge(operationsOf(records, wipes), state{}, testTimeout)
}
