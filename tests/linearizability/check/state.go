// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GraceKV authors

package main

// The model of one key: what it holds, and what each operation makes of it.
//
// Versions are the server's, and grow with each write. Not all are told: a record whose version is
// not known has one above `floor`, and the first that says which binds it. A write's version, and a
// DEL's, is above all that the key had before, also before it was deleted; a wipe begins a life in
// which they start over.
//
// A shrunk history begins in the middle (shrink.go), with a state of which nothing is known: is the
// key there, which value, which version. What is seen first binds that, too. Where a state keeps
// less than is known ("not version 12") more is accepted, never less.

type presence uint8

const (
	absent presence = iota
	present
	perhaps
)

// state is comparable: equal states have equal fields. What is not meant is 0: value and version
// of an absent key, floor of a known version.
type state struct {
	value    uint64
	version  uint64 // 0: not known
	floor    uint64 // the version is above it, and so is the next one's
	life     int32  // number of wipes before
	there    presence
	anyValue bool // the value is not known
}

func unknownState(life int32) state {
	return state{life: life, there: perhaps, anyValue: true}
}

// top is the least that the greatest version of this key so far can be.
func (s *state) top() uint64 {
	if s.version != 0 {
		return s.version
	}
	if s.there == present {
		return s.floor + 1
	}
	return s.floor
}

// bind: the record has this version, if it was told. False: it can not.
func (s *state) bind(version uint64) bool {
	if version == 0 || version == s.version {
		return true
	}
	if s.version != 0 || version <= s.floor {
		return false
	}
	s.version, s.floor = version, 0
	return true
}

// find: the key is there.
func (s *state) find() bool {
	if s.there == absent {
		return false
	}
	s.there = present
	return true
}

// expect: the key is there, in this version.
func (s *state) expect(version uint64) bool {
	return version != 0 && s.find() && s.bind(version)
}

// miss: the key is absent.
func (s *state) miss() bool {
	if s.there == present {
		return false
	}
	*s = state{floor: s.floor, life: s.life}
	return true
}

func (s *state) write(value, version uint64) bool {
	top := s.top()
	if version != 0 && version <= top {
		return false
	}
	if version != 0 {
		top = 0
	}
	*s = state{there: present, value: value, version: version, floor: top, life: s.life}
	return true
}

// remove: a DEL has a version of its own, if it was told.
func (s *state) remove(version uint64) bool {
	top := s.top()
	if version != 0 && version <= top {
		return false
	}
	if version != 0 {
		top = version
	}
	*s = state{floor: top, life: s.life}
	return true
}

// apply is what o makes of s; false: it can not take place here.
func apply(s state, o *operation) (state, bool) {
	ok := false
	switch {
	case o.op == opWipe:
		s, ok = state{life: s.life + 1}, true
	case o.outcome != outcomeDone:
		ok = s.life <= o.lifeLast && s.takeEffect(o)
	case o.status == statusOK:
		ok = s.succeed(o)
	case o.status == statusAbsent:
		ok = s.miss()
	case o.status == statusExists && o.op == opPutNew:
		ok = s.find() && s.bind(o.version)
	case o.status == statusExists:
		ok = s.find() && s.version != o.extra && o.version != o.extra && s.bind(o.version)
	case o.status == statusDomain:
		ok = s.find() && (s.anyValue || isBytes(s.value))
	}
	return s, ok
}

// succeed: the operation returned 0.
func (s *state) succeed(o *operation) bool {
	switch o.op {
	case opGet:
		return s.shows(o)
	case opGetDel:
		return s.shows(o) && s.remove(0)
	case opAppend:
		return s.append(o.value, o.version)
	case opExists:
		return s.find() && s.bind(o.version)
	case opPut:
		return s.write(o.value, o.version)
	case opPutNew:
		return s.there != present && s.write(o.value, o.version)
	case opPutOld:
		return s.find() && s.write(o.value, o.version)
	case opCas:
		return s.expect(o.extra) && s.write(o.value, o.version)
	case opDel:
		return s.find() && s.remove(o.version)
	case opDelIf:
		return s.expect(o.extra) && s.remove(o.version)
	case opIncr:
		return s.sums(o.value, o.extra) && s.write(o.extra, o.version)
	}
	return false
}

// shows: the key is there, with the value and in the version that o tells.
func (s *state) shows(o *operation) bool {
	if o.value == valueGarbage || !s.find() || !s.anyValue && s.value != o.value {
		return false
	}
	s.value, s.anyValue = o.value, false
	return s.bind(o.version)
}

// append: as value_read() in ../client/value.c tells it.
func (s *state) append(tail, version uint64) bool {
	value, anyValue := tail, s.anyValue || s.there == perhaps
	if s.there == present {
		value = mix(mix(s.value)^tail)&(1<<61-1) | 5<<61
	}
	if anyValue {
		value = 0
	}
	ok := s.write(value, version)
	s.anyValue = anyValue
	return ok
}

// mix is splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// sums: delta added to what is there is sum.
func (s *state) sums(delta, sum uint64) bool {
	switch {
	case s.there == absent:
		return delta == sum
	case s.anyValue:
		return true
	}
	return !isBytes(s.value) && s.value+delta == sum
}

// takeEffect: an operation without an answer was applied. False: it had no effect here.
func (s *state) takeEffect(o *operation) bool {
	switch o.op {
	case opPut:
		return s.write(o.value, 0)
	case opPutNew:
		return s.there != present && s.write(o.value, 0)
	case opPutOld:
		return s.find() && s.write(o.value, 0)
	case opCas:
		return s.expect(o.extra) && s.write(o.value, 0)
	case opDel, opGetDel:
		return s.find() && s.remove(0)
	case opAppend:
		return s.append(o.value, 0)
	case opDelIf:
		return s.expect(o.extra) && s.remove(0)
	case opIncr:
		if s.there != absent && !s.anyValue && isBytes(s.value) {
			return false
		}
		value, anyValue := s.value+o.value, s.anyValue
		s.write(value, 0)
		if anyValue {
			s.value, s.anyValue = 0, true
		}
		return true
	}
	return false
}
