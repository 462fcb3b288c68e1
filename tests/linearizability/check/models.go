// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GraceKV authors

package main

// The model as porcupine takes it. Where each operation took place for sure, or can be put where it
// changes nothing (prepare.go), a state leads to one state at most. Where some may not have taken
// place, it leads to several, and the check's states are sets of them. porcupine has that, too
// (NondeterministicModel); here a set has no state that another one of it covers: writes whose
// versions are not told would fill it with states that differ in nothing but a floor.

import (
	"sort"

	"github.com/anishathalye/porcupine"
)

const arenaStates = 128

// arena is where a check's states lie: each is given once, and none is changed.
type arena struct{ free []state }

func (a *arena) keep(s state) *state {
	if len(a.free) == 0 {
		a.free = make([]state, arenaStates)
	}
	p := &a.free[0]
	a.free = a.free[1:]
	*p = s
	return p
}

// step writes the states that may follow s into next, and returns how many there are: none, s
// itself, another one, or both.
func step(s *state, o *operation, next *[2]state) int {
	after, ok := apply(*s, o)
	switch {
	case !ok && o.doubt == certain:
		return 0
	case !ok:
		next[0] = *s
		return 1
	case o.doubt != mayNot:
		next[0] = after
		return 1
	}
	next[0], next[1] = *s, after
	return 2
}

// newModel is the model of one check.
func newModel(start state, sets bool) porcupine.Model {
	if sets {
		return newSetModel(start)
	}
	a := &arena{}
	return porcupine.Model{
		Init: func() interface{} { return a.keep(start) },
		Step: func(from, input, _ interface{}) (bool, interface{}) {
			var next [2]state
			s := from.(*state)
			if step(s, input.(*operation), &next) == 0 {
				return false, from
			}
			if next[0] == *s {
				return true, from
			}
			return true, a.keep(next[0])
		},
		Equal:             func(a, b interface{}) bool { return *a.(*state) == *b.(*state) },
		DescribeOperation: describeOperation,
		DescribeState:     describeState,
	}
}

// stateSet is sorted, and none of its states covers another one.
type stateSet struct{ states []state }

func newSetModel(start state) porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return &stateSet{[]state{start}} },
		Step: func(from, input, _ interface{}) (bool, interface{}) {
			after := from.(*stateSet).step(input.(*operation))
			return len(after.states) != 0, after
		},
		Equal: func(a, b interface{}) bool { return a.(*stateSet).equal(b.(*stateSet)) },
		Hash:  func(s interface{}) uint64 { return s.(*stateSet).hash() },

		DescribeOperation: describeOperation,
		DescribeState:     describeState,
	}
}

func (set *stateSet) step(o *operation) *stateSet {
	after := &stateSet{make([]state, 0, len(set.states)+1)}
	var next [2]state
	for i := range set.states {
		for n := step(&set.states[i], o, &next); n > 0; n-- {
			after.add(next[n-1])
		}
	}
	s := after.states
	if len(s) > 1 {
		sort.Slice(s, func(i, j int) bool { return s[i].less(&s[j]) })
	}
	return after
}

func (set *stateSet) add(s state) {
	for i := range set.states {
		if set.states[i].covers(&s) {
			return
		}
	}
	kept := set.states[:0]
	for i := range set.states {
		if !s.covers(&set.states[i]) {
			kept = append(kept, set.states[i])
		}
	}
	set.states = append(kept, s)
}

func (set *stateSet) equal(other *stateSet) bool {
	if len(set.states) != len(other.states) {
		return false
	}
	for i := range set.states {
		if set.states[i] != other.states[i] {
			return false
		}
	}
	return true
}

func (set *stateSet) hash() uint64 {
	const prime = 0x9e3779b97f4a7c15
	h := uint64(len(set.states))
	for i := range set.states {
		s := &set.states[i]
		for _, v := range [4]uint64{s.value, s.version, s.floor, uint64(s.there)} {
			h = (h ^ v) * prime
			h ^= h >> 32
		}
	}
	return h
}

func (s *state) less(other *state) bool {
	switch {
	case s.there != other.there:
		return s.there < other.there
	case s.value != other.value:
		return s.value < other.value
	case s.version != other.version:
		return s.version < other.version
	case s.floor != other.floor:
		return s.floor < other.floor
	case s.life != other.life:
		return s.life < other.life
	}
	return !s.anyValue && other.anyValue
}

// covers: whatever can be answered from other on can be from s on.
func (s *state) covers(other *state) bool {
	if s.there != other.there && s.there != perhaps || s.life != other.life {
		return false
	}
	if !s.anyValue && (other.anyValue || s.value != other.value) {
		return false
	}
	if s.version != 0 || other.version != 0 {
		return s.version == other.version || s.version == 0 && other.version > s.floor
	}
	return s.floor <= other.floor
}
