// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GraceKV authors

package main

// A store that is linearizable, and clients that do what they like with one key of it: operations
// get their times first, then they take place in the order of a moment between call and return, or
// later where they are open. Nothing here is shared with the model.

import (
	"math/rand"
	"sort"
)

type simOptions struct {
	seed       int64
	clients    int
	operations int
	open       float64 // part of the operations that end open
	unknown    float64
	untold     float64 // part of the answers that tell no version
	numbers    float64 // part of the puts that write a number
	reads      float64
	wipes      int
}

type simOp struct {
	r       record
	at      int64 // when it takes place
	applied bool
	skipped bool // never takes place
}

type simStore struct {
	there   bool
	value   uint64
	version uint64
	next    uint64
}

type sim struct {
	o        simOptions
	rand     *rand.Rand
	ops      []simOp
	wipes    []event
	died     []int64 // when exactly
	store    simStore
	sequence uint64
	known    []uint64 // of each client: the version it saw last
}

const (
	simDuration = 1000
	simDead     = 3000 // until the next server is there
)

func simulate(o simOptions) *sim {
	s := &sim{o: o, rand: rand.New(rand.NewSource(o.seed)), known: make([]uint64, o.clients)}
	s.store.next = 1
	s.schedule()
	next := 0
	for i := range s.ops {
		op := &s.ops[i]
		for next < len(s.died) && s.died[next] < op.at {
			s.store = simStore{next: 1}
			next++
		}
		s.perform(op, next)
	}
	return s
}

// schedule gives all operations their times, and brings them into their order.
func (s *sim) schedule() {
	free := make([]int64, s.o.clients)
	for i := range free {
		free[i] = 1 + s.rand.Int63n(simDuration)
	}
	for n := 0; n < s.o.operations; n++ {
		c := 0
		for i := range free {
			if free[i] < free[c] {
				c = i
			}
		}
		call := free[c] + s.rand.Int63n(simDuration/4)
		lasts := 1 + s.rand.Int63n(simDuration)
		op := simOp{r: record{call: call, ret: call + lasts, client: uint32(c), number: uint32(n),
			outcome: outcomeDone}}
		op.at = call + s.rand.Int63n(lasts+1)
		free[c] = op.r.ret
		s.decide(&op)
		s.ops = append(s.ops, op)
	}
	s.scheduleWipes(free[0])
	sort.SliceStable(s.ops, func(i, j int) bool { return s.ops[i].at < s.ops[j].at })
}

// decide: does the operation end open or unknown, and is it applied then?
func (s *sim) decide(op *simOp) {
	what := s.rand.Float64()
	switch {
	case what < s.o.open:
		op.r.outcome = outcomeOpen
		op.skipped = s.rand.Intn(3) == 0
		if s.rand.Intn(3) == 0 {
			op.at = op.r.ret + s.rand.Int63n(10*simDuration)
		}
		if s.rand.Intn(2) == 0 {
			op.r.ret = 0
		}
	case what < s.o.open+s.o.unknown:
		op.r.outcome = outcomeUnknown
		op.skipped = s.rand.Intn(2) == 0
	}
}

func (s *sim) scheduleWipes(end int64) {
	for n := 0; n < s.o.wipes; n++ {
		begin := int64(n+1) * end / int64(s.o.wipes+1)
		died := begin + s.rand.Int63n(simDuration)
		w := event{Begin: begin, End: died + s.rand.Int63n(simDuration), Nemesis: "kill-server",
			Who: "server", Wipes: true, Words: "SIGKILL"}
		s.wipes, s.died = append(s.wipes, w), append(s.died, died)
		for i := range s.ops {
			op := &s.ops[i]
			gone := op.r.ret != 0 && op.r.ret <= w.End && op.r.call <= w.Begin
			if op.r.outcome == outcomeOpen && gone && op.at > died {
				op.skipped = true
			}
			if op.at > died && op.at <= w.End+simDead && op.r.outcome == outcomeDone {
				op.skipped, op.r.outcome = true, outcomeFailed
			} else if op.at > died && op.at <= w.End+simDead {
				op.skipped = true
			}
		}
	}
}

// perform chooses what an operation is and does it. lives: how many servers died before.
func (s *sim) perform(op *simOp, lives int) {
	r := &op.r
	r.op, r.status = uint8(opPut+s.rand.Intn(opGetDel-opPut+1)), statusNone
	if s.rand.Float64() < s.o.reads {
		r.op = uint8(opGet + s.rand.Intn(2))
	}
	if r.op == opPut || s.rand.Intn(3) == 0 && r.op >= opDel && r.op != opIncr && r.op != opAppend {
		r.op = opPut // or the key is absent most of the time
	}
	r.way = uint8(s.rand.Intn(wayCount))
	if r.setsValue() {
		s.sequence++
		r.value = bytesOf(s.sequence)
		if s.rand.Float64() < s.o.numbers {
			r.value = uint64(s.rand.Intn(100))
		}
	}
	if r.op == opAppend {
		s.sequence++
		r.value = bytesOf(s.sequence)
	}
	if r.op == opIncr {
		r.value = uint64(s.rand.Intn(20) - 10)
	}
	if r.op == opCas || r.op == opDelIf {
		r.extra = s.known[r.client]
		if r.extra == 0 || s.rand.Intn(2) == 0 {
			r.extra = s.store.version + uint64(s.rand.Intn(2))
		}
	}
	if op.skipped {
		return
	}
	answer := *r
	op.applied = s.store.perform(&answer, s.rand)
	if answer.version != 0 {
		s.known[r.client] = answer.version
	}
	if s.rand.Float64() < s.o.untold {
		answer.version = 0
	}
	if r.outcome == outcomeDone {
		*r = answer
	}
}

// perform is the store itself: it answers, and says whether it changed.
func (s *simStore) perform(r *record, random *rand.Rand) bool {
	r.status = statusOK
	write := func(value uint64) bool {
		s.next += 1 + uint64(random.Intn(3))
		s.there, s.value, s.version = true, value, s.next
		r.version = s.version
		return true
	}
	switch {
	case r.op == opPut, r.op == opPutNew && !s.there, r.op == opPutOld && s.there:
		return write(r.value)
	case r.op == opPutNew:
		r.status, r.version = statusExists, s.version
	case r.op == opAppend && !s.there:
		return write(r.value)
	case r.op == opAppend:
		return write(appended(s.value, r.value))
	case r.op == opIncr && !s.there:
		r.extra = r.value
		return write(r.extra)
	case r.op == opIncr && isBytes(s.value):
		r.status = statusDomain
	case r.op == opIncr:
		r.extra = s.value + r.value
		return write(r.extra)
	case !s.there:
		r.status = statusAbsent
	case r.op == opGet:
		r.value, r.version = s.value, s.version
	case r.op == opExists:
		r.version = s.version
	case r.op == opGetDel:
		r.value, r.version = s.value, s.version
		s.there, s.value, s.version = false, 0, 0
		s.next += 1 + uint64(random.Intn(3))
		return true
	case r.op == opDel, r.op == opDelIf && r.extra == s.version:
		s.there, s.value, s.version = false, 0, 0
		s.next += 1 + uint64(random.Intn(3))
		r.version = s.next
		return true
	case r.op == opCas && r.extra == s.version:
		return write(r.value)
	default: // CAS or DEL_IF of another version
		r.status = statusExists
		r.version = s.version
	}
	return false
}

func (s *sim) records() []record {
	records := make([]record, len(s.ops))
	for i := range s.ops {
		records[i] = s.ops[i].r
	}
	return records
}

func sortedByCall(records []record) []record {
	sort.SliceStable(records, func(i, j int) bool { return records[i].call < records[j].call })
	return records
}
