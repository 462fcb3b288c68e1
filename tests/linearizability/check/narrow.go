// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GraceKV authors

package main

// When can an operation have taken place? Between its call and its return; and, since the versions
// of a key only grow while a server lives, after all that told a smaller version, and ahead of all
// that told a greater one. So its time begins no earlier than the latest call of the ones before
// it, and ends no later than the earliest return of the ones after it. Porcupine, which knows
// nothing of versions until it tries, has far fewer orders to try then: what took seconds takes
// milliseconds.
//
// The verdict stays. What is narrowed lies within what it was, so an order that fits it fits the
// history. And an order that fits the history keeps to the versions, so it fits what is narrowed;
// where nothing is left of an operation's time there is no such order.
//
// Only what lies within the life of one server is narrowed: the next one's versions start over.
// What shares a moment with a wipe may be on either side of it.

import "sort"

// span is when an operation can have taken place.
type span struct{ call, end int64 }

// placed is an operation that told a version: that it wrote it, or that it was there.
type placed struct {
	op      int
	version uint64
	found   bool // the version was there; those that found it come after its writer
}

func (p placed) before(q placed) bool {
	return p.version < q.version || p.version == q.version && !p.found && q.found
}

func spansOf(ops []operation) []span {
	spans := make([]span, len(ops))
	for i := range ops {
		spans[i] = span{ops[i].call, ops[i].end}
	}
	return spans
}

// narrow returns the time of each operation; false: of one nothing is left.
func narrow(ops []operation) ([]span, bool) {
	spans := spansOf(ops)
	for _, life := range lives(ops) {
		narrowLife(ops, life, spans)
	}
	for _, s := range spans {
		if s.call > s.end {
			return spans, false
		}
	}
	return spans, true
}

// lives are the times between wipes, which come first among ops.
func lives(ops []operation) []span {
	var out []span
	from := int64(0)
	for i := range ops {
		if ops[i].op != opWipe {
			break
		}
		out = append(out, span{from, ops[i].call})
		from = ops[i].end
	}
	return append(out, span{from, never})
}

func narrowLife(ops []operation, life span, spans []span) {
	order := placeAll(ops, life)
	sort.Slice(order, func(i, j int) bool { return order[i].before(order[j]) })
	latest, begun := int64(0), 0 // of the calls of all before order[begun]
	for i, p := range order {
		for ; order[begun].before(p); begun++ {
			if c := ops[order[begun].op].call; c > latest {
				latest = c
			}
		}
		if s := &spans[order[i].op]; s.call < latest {
			s.call = latest
		}
	}
	earliest, ended := never, len(order)-1 // of the returns of all after order[ended]
	for i := len(order) - 1; i >= 0; i-- {
		for ; order[i].before(order[ended]); ended-- {
			if e := ops[order[ended].op].end; e < earliest {
				earliest = e
			}
		}
		if s := &spans[order[i].op]; s.end > earliest {
			s.end = earliest
		}
	}
}

// placeAll are those of a life that told a version.
func placeAll(ops []operation, life span) []placed {
	var out []placed
	writes := map[uint64]uint64{} // versions of bytes, which are unique in a run
	within := func(o *operation) bool {
		return o.op != opWipe && o.doubt == certain && o.outcome == outcomeDone &&
			o.call > life.call && o.end < life.end
	}
	for i := range ops {
		if o := &ops[i]; within(o) && givesBytes(o) && o.version != 0 {
			writes[o.value] = o.version
		}
	}
	for i := range ops {
		o := &ops[i]
		if !within(o) {
			continue
		}
		version, found := o.version, o.observes()
		switch {
		case o.sees():
			found = true
			if version == 0 && isBytes(o.value) {
				version = writes[o.value]
			}
		case o.op == opDelIf && o.status == statusOK:
			version, found = o.extra, true
		}
		if version != 0 {
			out = append(out, placed{i, version, found})
		}
	}
	return out
}
