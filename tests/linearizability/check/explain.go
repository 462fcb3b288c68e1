// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GraceKV authors

package main

// Why a shrunk history is illegal: the longest order that fits, what the key holds after it, and
// which operations do not fit there.

import (
	"time"

	"github.com/anishathalye/porcupine"
)

const explainTime = 20 * time.Second

type explanation struct {
	ops   []operation // as they were checked, by call; what never ends does so after all others
	place []int       // of each in the longest order, from 1; 0: it is not in it
	holds string      // the key, after it
	stuck []int       // what must come next, and can not
	begin int64       // times are shown from here on: the first call of what took place
	end   int64
	model porcupine.Model
	info  porcupine.LinearizationInfo
}

// explain says why a part is illegal; `who` names an operation's maker. False: that was not found
// in time.
func explain(p part, who func(o *operation) string) (*explanation, bool) {
	e := &explanation{ops: append([]operation(nil), p.ops...), begin: never}
	e.model = newModel(p.start, prepare(e.ops))
	e.span()
	rows := assignLanes(e.ops)
	history := entries(e.ops, spansOf(e.ops)) // as they were, not narrowed
	for i := range history {
		history[i].ClientId, history[i].Metadata = rows[i], who(&e.ops[i])
		history[i].Call -= e.begin
		history[i].Return -= e.begin
	}
	result, info := porcupine.CheckOperationsVerbose(e.model, history, explainTime)
	e.info = info
	e.place = make([]int, len(e.ops))
	if result != porcupine.Illegal {
		return e, false
	}
	e.follow()
	return e, true
}

// span finds begin and end, and lets end what has none.
func (e *explanation) span() {
	for i := range e.ops {
		o := &e.ops[i]
		if o.doubt == certain && o.call < e.begin {
			e.begin = o.call
		}
		if o.call > e.end {
			e.end = o.call
		}
		if o.end != never && o.end > e.end {
			e.end = o.end
		}
	}
	if e.begin == never {
		e.begin = 0
	}
	e.end++
	for i := range e.ops {
		if e.ops[i].end == never {
			e.ops[i].end = e.end
		}
	}
}

// follow takes the longest order, and of several the one that begins with the earliest calls.
func (e *explanation) follow() {
	var longest []int
	for _, order := range e.info.PartialLinearizations()[0] {
		if len(order) > len(longest) || len(order) == len(longest) && less(order, longest) {
			longest = order
		}
	}
	s := e.model.Init()
	for n, i := range longest {
		e.place[i] = n + 1
		_, s = e.model.Step(s, &e.ops[i], nil)
	}
	e.holds = e.model.DescribeState(s)
	first := never // return among those that are not in the order: the next is called before it
	for i := range e.ops {
		if o := &e.ops[i]; e.place[i] == 0 && o.end < first {
			first = o.end
		}
	}
	for i := range e.ops {
		o := &e.ops[i]
		if e.place[i] == 0 && o.doubt == certain && o.call <= first {
			if ok, _ := e.model.Step(s, o, nil); !ok {
				e.stuck = append(e.stuck, i)
			}
		}
	}
}

func less(a, b []int) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}
