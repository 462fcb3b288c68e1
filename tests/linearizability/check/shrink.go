// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GraceKV authors

package main

// From an illegal history to a few operations that are illegal, too. What is left must follow from
// the whole: each step gives a history that is legal if the one before is. Let there be an order
// that explains the one before; then there is one for what the step leaves:
//
//  1. The end goes. After the moment T all is dropped that was called after it, or that only looks
//     and returned after it. A write that returned after it may be ahead of T in that order, with
//     its answer, or not: it becomes late. Order and answers of the others stay.
//  2. The beginning goes. What ended before the moment C is dropped, and what it left is a state of
//     which nothing is known. A write that began before C and ended after it may have been ahead of
//     C, and be part of that state, or not: it becomes one that may not have taken place. What only
//     looks, and lasted across C, is dropped. A late one that ended up ahead of C changes nothing
//     at the end. Life counts the wipes that surely were; fewer allow more.
//  3. What only looks is dropped: the others' answers do not depend on it.
//  4. A write is left out: it becomes one that may not have taken place. If the history is illegal
//     then, it is so with it and without it. It stays in all later checks; to delete it would be
//     wrong, since others may have seen what it did.
//
// Writes in doubt of which the whole history knows that they took place (prepare.go, 1) did so
// in all that is left of it; so these are settled first.
//
// 1 and 2 are monotone, and searched by halves. A check that is not decided in time counts as
// legal: then more is left than need be.

import (
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	shrinkTime  = 20 * time.Second
	windowTime  = 10 * time.Second // of that, to find a part that is illegal
	shrinkCheck = 2 * time.Second  // of one check
	leftOutMax  = 12
	roundsMax   = 8

	// The first cut leaves so many calls more than need be: or what is seen by operations that can
	// be dropped would be kept, in place of the writes that others saw.
	slack = 48
)

type shrinker struct {
	part
	leftOut  int
	deadline time.Time
}

// shrink takes the operations of a key, of which it was found that they are illegal.
func shrink(ops []operation) *shrinker {
	now := time.Now()
	s := &shrinker{deadline: now.Add(shrinkTime)}
	s.ops = append(s.ops, ops...)
	settleSeen(s.ops)
	if p, found := s.garbage(); found {
		s.part = p
		return s
	}
	s.part, _ = findWindow(s.part, now.Add(windowTime))
	s.part = s.searchEnd(s.illegal)
	s.part = s.searchBegin(slack, s.illegal)
	for round := 0; round < roundsMax; round++ {
		before := len(s.ops) - s.leftOut
		s.dropLooks()
		s.part = s.searchBegin(0, s.illegal)
		s.countLeftOut()
		s.leaveOut()
		if len(s.ops)-s.leftOut == before {
			break
		}
	}
	sort.SliceStable(s.ops, func(i, j int) bool { return comesBefore(&s.ops[i], &s.ops[j]) })
	return s
}

// garbage is a get whose value nobody writes: illegal by itself. The write of the version that it
// told is shown, whatever it has to do with it.
func (p part) garbage() (part, bool) {
	out := part{start: unknownState(0)}
	for i := range p.ops {
		g := &p.ops[i]
		if !g.sees() || g.value != valueGarbage {
			continue
		}
		for k := range p.ops {
			if w := &p.ops[k]; w.writes() && w.doubt == certain && g.version != 0 &&
				w.version == g.version && !w.observes() {
				out.ops = append(out.ops, *w)
				break
			}
		}
		out.ops = append(out.ops, *g)
		return out, true
	}
	return out, false
}

func comesBefore(a, b *operation) bool {
	if (a.op == opWipe) != (b.op == opWipe) { // prepare() wants wipes first
		return a.op == opWipe
	}
	return a.call < b.call
}

func (s *shrinker) illegal(p part) bool {
	timeout := time.Until(s.deadline)
	if timeout > shrinkCheck {
		timeout = shrinkCheck
	}
	return p.judge(timeout) == porcupine.Illegal
}

// dropLooks is step 3, in parts that become smaller.
func (s *shrinker) dropLooks() {
	for size := (s.countLooks() + 1) / 2; size > 0; size /= 2 {
		for first := 0; first < s.countLooks(); {
			if p := s.without(first, size); s.illegal(p) {
				s.part = p
			} else {
				first += size
			}
		}
	}
}

func (s *shrinker) countLooks() int {
	n := 0
	for i := range s.ops {
		if s.ops[i].observes() {
			n++
		}
	}
	return n
}

// without drops `size` of those that only look, from the one with number `first` on.
func (p part) without(first, size int) part {
	out := part{start: p.start}
	look := 0
	for _, o := range p.ops {
		if o.observes() {
			look++
			if look > first && look <= first+size {
				continue
			}
		}
		out.ops = append(out.ops, o)
	}
	return out
}

// leaveOut is step 4. A write whose value is seen by what is left must be shown.
func (s *shrinker) leaveOut() {
	seen := map[uint64]bool{}
	for i := range s.ops {
		if s.ops[i].sees() {
			seen[s.ops[i].value] = true
		}
	}
	for i := range s.ops {
		o := &s.ops[i]
		if s.leftOut >= leftOutMax {
			return
		}
		if o.doubt != certain || o.observes() || givesBytes(o) && seen[o.value] {
			continue
		}
		o.doubt = mayNot
		if s.illegal(s.part) {
			s.leftOut++
		} else {
			o.doubt = certain
		}
	}
}

func (s *shrinker) countLeftOut() {
	s.leftOut = 0
	for i := range s.ops {
		if o := &s.ops[i]; o.doubt == mayNot && (o.outcome == outcomeDone || o.op == opWipe) {
			s.leftOut++
		}
	}
}
