// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GraceKV authors

package main

// One record of a history as ../client/history.h lays it out, and its only decoder. Client
// processes are killed while they write: a record whose return_ns is 0 never returned, and nothing
// after `expected` is looked at. All else that the C side never writes is refused.

import (
	"encoding/binary"
	"fmt"
	"math"
)

const (
	historyMagic = 0x3230545349484b47 // "GKHIST02"
	recordBytes  = 64

	valueBytes   = uint64(0x4000000000000000) // bits 63 and 62 of 01: bytes
	valueGarbage = uint64(0x8000000000000000)
	numberEnd    = int64(1) << 61 // numbers lie between this and its negative
)

const (
	opGet = 1 + iota
	opExists
	opPut
	opPutNew
	opPutOld
	opCas
	opDel
	opDelIf
	opIncr
	opAppend
	opGetDel
	opWipe // of no file: the server was killed, and its store is lost
)

var opNames = []string{"", "get", "exists", "put", "put_new", "put_old", "cas", "del", "del_if",
	"incr", "append", "getdel", "wipe"}

const (
	wayCall = iota
	wayNoHints
	wayView
	wayInto
	wayBatch
	wayFlight
	wayAsked
	wayCount
)

var wayNames = []string{"call", "no_hints", "view", "into", "batch", "flight", "asked"}

const (
	outcomeOpen = iota
	outcomeDone
	outcomeUnknown
	outcomeFailed
	outcomeCount
)

// What an operation that is done returned, of the errnos that can be.
const (
	statusOK = iota
	statusAbsent
	statusExists
	statusDomain
	statusNone // of an operation that is not done
)

var statusErrno = []int32{0, -2, -17, -33} // ENOENT, EEXIST, EDOM

// The statuses with which each operation can be done.
var statusAllowed = [opWipe]uint8{
	opGet:    1<<statusOK | 1<<statusAbsent,
	opExists: 1<<statusOK | 1<<statusAbsent,
	opPut:    1 << statusOK,
	opPutNew: 1<<statusOK | 1<<statusExists,
	opPutOld: 1<<statusOK | 1<<statusAbsent,
	opCas:    1<<statusOK | 1<<statusAbsent | 1<<statusExists,
	opDel:    1<<statusOK | 1<<statusAbsent,
	opDelIf:  1<<statusOK | 1<<statusAbsent | 1<<statusExists,
	opIncr:   1<<statusOK | 1<<statusDomain,
	opAppend: 1 << statusOK,
	opGetDel: 1<<statusOK | 1<<statusAbsent,
}

// record is an operation. There are ten million of them: it has the fields that its op has, and no
// more.
type record struct {
	call, ret int64  // ret 0: it never returned
	value     uint64 // what is written; INCR: the delta; GET, GETDEL: what was seen
	extra     uint64 // CAS, DEL_IF: the version expected; INCR: the sum
	version   uint64 // 0: was not told
	key       uint32 // number of the key, see keys.go
	client    uint32 // number of the file
	number    uint32 // of the record in its file, from 0
	op        uint8
	way       uint8
	outcome   uint8
	status    uint8
}

// isBytes: it is no number; isAppended: and made of several.
func isBytes(value uint64) bool    { return value>>62 == 1 || isAppended(value) }
func isAppended(value uint64) bool { return value>>61 == 5 }

func isNumber(value uint64) bool {
	n := int64(value)
	return n > -numberEnd && n < numberEnd
}

// sees: it is done, and tells the value that was there.
func (r *record) sees() bool {
	return (r.op == opGet || r.op == opGetDel) && r.status == statusOK
}

// writes: it changes the key where it takes place.
func (r *record) writes() bool { return r.op != opGet && r.op != opExists }

// setsValue: where it takes place and its condition holds the key has r.value.
func (r *record) setsValue() bool { return r.op >= opPut && r.op <= opCas }

// observes: it is done, and changed nothing.
func (r *record) observes() bool {
	return r.outcome == outcomeDone && (!r.writes() || r.status != statusOK)
}

// decodeRecord reads one record of 64 bytes. end: it is the first that was never begun.
func decodeRecord(b []byte) (r record, slot, generation uint32, end bool, err error) {
	le := binary.LittleEndian
	call, ret := le.Uint64(b), le.Uint64(b[8:])
	if call == 0 {
		return r, 0, 0, true, nil
	}
	if call > math.MaxInt64 || ret > math.MaxInt64 {
		return r, 0, 0, false, fmt.Errorf("time %d or %d is out of range", call, ret)
	}
	if ret != 0 && ret < call {
		return r, 0, 0, false, fmt.Errorf("returned at %d, before it was called at %d", ret, call)
	}
	r = record{call: int64(call), ret: int64(ret), op: b[24], way: b[25], outcome: b[26],
		value: le.Uint64(b[32:]), extra: le.Uint64(b[40:]), version: le.Uint64(b[56:])}
	slot, generation = le.Uint32(b[16:]), le.Uint32(b[20:])
	if r.op < opGet || r.op > opGetDel {
		return r, 0, 0, false, fmt.Errorf("op %d is unknown", r.op)
	}
	if r.way >= wayCount {
		return r, 0, 0, false, fmt.Errorf("way %d is unknown", r.way)
	}
	if (r.setsValue() || r.op == opIncr || r.op == opAppend) && !isWritable(r.op, r.value) {
		return r, 0, 0, false, fmt.Errorf("%s of %#x, which is no value that is written",
			opNames[r.op], r.value)
	}
	if ret == 0 {
		r.outcome, r.version = outcomeOpen, 0
	}
	err = r.takeOutcome(int32(le.Uint32(b[28:])), le.Uint64(b[48:]))
	return r, slot, generation, false, err
}

func isWritable(op uint8, value uint64) bool {
	return isNumber(value) && op != opAppend || isBytes(value) && !isAppended(value) && op != opIncr
}

// takeOutcome checks status and seen, and takes from them what the op has.
func (r *record) takeOutcome(errno int32, seen uint64) error {
	r.status = statusNone
	if r.outcome >= outcomeCount {
		return fmt.Errorf("outcome %d is unknown", r.outcome)
	}
	if r.ret != 0 && (errno > 0 || errno < -4095) {
		return fmt.Errorf("status %d is no errno", errno)
	}
	if r.outcome == outcomeFailed && errno == 0 {
		return fmt.Errorf("it failed with status 0")
	}
	if r.outcome != outcomeDone {
		return nil
	}
	for status, e := range statusErrno {
		if e == errno && statusAllowed[r.op]&(1<<status) != 0 {
			r.status = uint8(status)
		}
	}
	if r.status == statusNone {
		return fmt.Errorf("%s is done with status %d, which it never returns", opNames[r.op], errno)
	}
	if r.sees() {
		if !isBytes(seen) && !isNumber(seen) && seen != valueGarbage {
			return fmt.Errorf("%s saw %#x, which tells no value", opNames[r.op], seen)
		}
		r.value = seen
	}
	if r.status == statusOK && r.op == opIncr {
		r.extra = seen
	}
	return nil
}
