// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GraceKV authors

package main

// A part of a history that is illegal by itself, whatever was ahead of it and behind it. That a
// legal history is so is found quickly: the first order that fits will do. That an illegal one has
// none is found when all have been tried, of all that was ahead of it, too. The part where it went
// wrong is much smaller, and if it is illegal (shrink.go, steps 1 and 2, say what that means), so
// is the whole.

import (
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	windowCheck = time.Second            // of each
	wholeCheck  = 300 * time.Millisecond // for this long the whole is tried first
)

var windowSizes = []int{32, 128, 512}

// part is a history that begins with a state.
type part struct {
	ops   []operation
	start state
}

func (p *part) judge(timeout time.Duration) porcupine.CheckResult {
	return judge(append([]operation(nil), p.ops...), p.start, timeout)
}

// moments are the times that a search tries, of what surely took place: each once and in order.
func (p *part) moments(of func(o *operation) int64) []int64 {
	var all []int64
	for i := range p.ops {
		if p.ops[i].doubt == certain {
			all = append(all, of(&p.ops[i]))
		}
	}
	sortTimes(all)
	kept := all[:0]
	for i, m := range all {
		if i == 0 || m != all[i-1] {
			kept = append(kept, m)
		}
	}
	return kept
}

func callOf(o *operation) int64 { return o.call }

func endOf(o *operation) int64 { return o.end }

// findWindow looks for a window that is illegal. Windows overlap by half.
func findWindow(p part, deadline time.Time) (part, bool) {
	calls := p.moments(callOf)
	for _, size := range windowSizes {
		for first := 0; first == 0 || first+size/2 < len(calls); first += size / 2 {
			w := p
			if last := first + size; last < len(calls) {
				w = w.cutEnd(calls[last])
			}
			if first > 0 {
				w = w.cutBegin(calls[first])
			}
			timeout := time.Until(deadline)
			if timeout > windowCheck {
				timeout = windowCheck
			}
			if timeout <= 0 {
				return p, false
			}
			if w.judge(timeout) == porcupine.Illegal {
				return w, true
			}
		}
	}
	return p, false
}

// judgeKey decides about the history of a key, which begins with nothing.
func judgeKey(ops []operation, timeout time.Duration) porcupine.CheckResult {
	deadline := time.Now().Add(timeout)
	p := part{ops: ops}
	if timeout <= wholeCheck {
		return p.judge(timeout)
	}
	result := p.judge(wholeCheck)
	if result != porcupine.Unknown {
		return result
	}
	settled := part{ops: append([]operation(nil), ops...)}
	settleSeen(settled.ops)
	if _, found := findWindow(settled, deadline); found {
		return porcupine.Illegal
	}
	return p.judge(time.Until(deadline))
}

// cutEnd is step 1 of shrink.go.
func (p part) cutEnd(end int64) part {
	out := part{start: p.start}
	for _, o := range p.ops {
		if o.call > end || o.end > end && o.observes() {
			continue
		}
		if o.end > end {
			o.doubt, o.end = late, never
		}
		out.ops = append(out.ops, o)
	}
	return out
}

// cutBegin is step 2 of shrink.go.
func (p part) cutBegin(begin int64) part {
	life := p.start.life
	var kept []operation
	for _, o := range p.ops {
		across := o.call < begin && o.end >= begin
		switch {
		case o.end < begin:
			if o.op == opWipe && o.doubt == certain {
				life++
			}
			continue
		case across && o.observes():
			continue
		case across && o.doubt == certain:
			o.doubt = mayNot
		}
		kept = append(kept, o)
	}
	return part{kept, unknownState(life)}
}

// searchEnd is the least that is illegal when the end is cut; p, if nothing less is.
func (p part) searchEnd(illegal func(part) bool) part {
	best, moments := p, p.moments(endOf)
	sort.Search(len(moments), func(i int) bool {
		cut := p.cutEnd(moments[i])
		if illegal(cut) {
			best = cut
			return true
		}
		return false
	})
	return best
}

// searchBegin is the same at the beginning, with `slack` moments more than need be.
func (p part) searchBegin(slack int, illegal func(part) bool) part {
	best, moments := p, p.moments(callOf)
	last := sort.Search(len(moments), func(i int) bool {
		cut := p.cutBegin(moments[i])
		if illegal(cut) {
			best = cut
			return false
		}
		return true
	}) - 1
	if last < 0 || slack == 0 {
		return best
	}
	if last < slack {
		return p
	}
	return p.cutBegin(moments[last-slack])
}
