// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GraceKV authors

package main

// Doubt is dear: a write that may take place at any time is tried everywhere, and one that may not
// have taken place makes states into sets of states. prepare() takes away what says nothing. Each
// step keeps the verdict:
//
//  1. A write in doubt whose value was seen took place, before the get that saw it returned: bytes
//     are unique in a run. (A shrunk history begins with a state of which nothing is known, which
//     may be what such a write left. It began before that moment then, and may come first.)
//  2. A write that may not have taken place, and may take place after all that is certain, need
//     not be left out: there it changes nothing.
//  3. The same just before a wipe, which undoes it, if it may take place until then.
//
// A late operation is tried where it has an effect, or changes nothing: it need not be left out
// where it has one, since it can be put where that does not matter. So is nothing but an operation
// that may not have taken place in need of a set of states.

// prepare changes ops. sets: some of them may not have taken place.
func prepare(ops []operation) (sets bool) {
	last, doubts := int64(0), 0
	for i := range ops {
		if o := &ops[i]; o.doubt != certain {
			doubts++
		} else if o.end > last {
			last = o.end
		}
	}
	if doubts == 0 {
		return false
	}
	settleSeen(ops)
	for i := range ops {
		o := &ops[i]
		if o.doubt != mayNot {
			continue
		}
		if o.end >= last {
			o.doubt, o.end = late, never
		} else if undone(ops, o) {
			o.doubt = late
		} else {
			sets = true
		}
	}
	return sets
}

func settleSeen(ops []operation) {
	writer := map[uint64]int{} // of a value: the index of its writer, if that is in doubt
	for i := range ops {
		if o := &ops[i]; o.doubt != certain && givesBytes(o) {
			writer[o.value] = i
		}
	}
	if len(writer) == 0 {
		return
	}
	for i := range ops { // bytes that were written twice say nothing
		if o := &ops[i]; givesBytes(o) {
			if w, found := writer[o.value]; found && w != i {
				delete(writer, o.value)
			}
		}
	}
	for i := range ops {
		o := &ops[i]
		if !o.sees() || o.doubt != certain {
			continue
		}
		if w, found := writer[o.value]; found && ops[w].call <= o.end {
			ops[w].doubt = certain
			if o.end < ops[w].end {
				ops[w].end = o.end
			}
		}
	}
}

func givesBytes(o *operation) bool { return o.setsValue() && !o.observes() && isBytes(o.value) }

// undone: a wipe lies within the time in which o may have taken place.
func undone(ops []operation, o *operation) bool {
	for i := range ops { // wipes come first
		w := &ops[i]
		if w.op != opWipe {
			return false
		}
		if w.doubt == certain && o.call <= w.call && w.end <= o.end {
			return true
		}
	}
	return false
}
