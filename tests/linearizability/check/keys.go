// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GraceKV authors

package main

// The history of one key. Slot and generation name a key, keys do not depend on each other, and a
// history is linearizable if that of each key is.

import "sort"

// operation is a record in the history of its key, or a wipe.
type operation struct {
	record
	end      int64 // as the check takes it: it took place from call to end, if it did
	doubt    doubt
	lifeLast int32 // it does nothing once the key has seen more wipes than that
}

// doubt: must an operation have taken place?
type doubt uint8

const (
	certain doubt = iota // it did
	late                 // it did, or will when nobody looks any more, or was undone at once
	mayNot               // it did or did not
)

const forever = int32(1<<31 - 1)

// groups is the order of a run's records by key: those of key k are order[first[k]:first[k+1]].
type groups struct {
	order []uint32
	first []int
}

func groupByKey(r *run) groups {
	first := make([]int, len(r.keys)+2)
	for i := 0; i < r.count; i++ {
		first[r.at(uint32(i)).key+2]++
	}
	for k := 2; k < len(first); k++ {
		first[k] += first[k-1]
	}
	order := make([]uint32, r.count)
	for i := 0; i < r.count; i++ {
		next := &first[r.at(uint32(i)).key+1]
		order[*next] = uint32(i)
		*next++
	}
	return groups{order, first[:len(r.keys)+1]}
}

// keyOperations are those of key k that matter for it, in the order of the files, and the wipes it
// went through ahead of them.
func keyOperations(r *run, g groups, wipes []event, k int) []operation {
	own := g.order[g.first[k]:g.first[k+1]]
	records := make([]*record, 0, len(own))
	for _, i := range own {
		records = append(records, r.at(i))
	}
	return buildOperations(records, wipes)
}

// dropped: an operation that did nothing, and nobody knows what it saw.
func dropped(r *record) bool {
	return r.outcome == outcomeFailed || r.outcome != outcomeDone && !r.writes()
}

func buildOperations(records []*record, wipes []event) []operation {
	first, last := never, int64(0)
	for _, r := range records {
		if dropped(r) {
			continue
		}
		if r.call < first {
			first = r.call
		}
		if r.outcome != outcomeOpen && r.ret > last {
			last = r.ret
		}
	}
	from := sort.Search(len(wipes), func(i int) bool { return wipes[i].End >= first })
	to := sort.Search(len(wipes), func(i int) bool { return wipes[i].Begin > last })
	if from > to {
		to = from
	}
	wipes = wipes[from:to]
	ops := make([]operation, 0, len(wipes)+len(records))
	for i, w := range wipes {
		ops = append(ops, operation{record: record{op: opWipe, call: w.Begin, ret: w.End,
			number: uint32(i)}, end: w.End, lifeLast: forever})
	}
	for _, r := range records {
		if !dropped(r) {
			ops = append(ops, newOperation(r, wipes))
		}
	}
	return ops
}

// newOperation says how long an operation may have taken place. An open one may whenever it likes,
// unless its call gave up before the server to which it went was dead: the next one never heard
// of it.
func newOperation(r *record, wipes []event) operation {
	o := operation{record: *r, end: r.ret, lifeLast: forever}
	switch r.outcome {
	case outcomeUnknown:
		o.doubt = mayNot
	case outcomeOpen:
		o.doubt, o.end = late, never
		i := sort.Search(len(wipes), func(i int) bool { return wipes[i].Begin >= r.call })
		for ; i < len(wipes) && wipes[i].End < r.ret; i++ {
		}
		if r.ret != 0 && i < len(wipes) {
			o.doubt, o.end, o.lifeLast = mayNot, wipes[i].End, int32(i)
		}
	}
	return o
}
