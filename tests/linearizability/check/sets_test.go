// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GraceKV authors

package main

import (
	"math/rand"
	"testing"
)

func randomState(random *rand.Rand) state {
	s := state{there: presence(random.Intn(3)), floor: uint64(random.Intn(4))}
	switch {
	case s.there == perhaps:
		s.anyValue = true
	case s.there == present && random.Intn(3) == 0:
		s.anyValue = true
	case s.there == present:
		s.value = []uint64{vA, vB, 0}[random.Intn(3)]
	}
	if s.there == present && random.Intn(2) == 0 {
		s.version, s.floor = s.floor+1, 0
	}
	return s
}

func randomDone(random *rand.Rand) operation {
	o := operation{record: record{op: uint8(opGet + random.Intn(opWipe-opGet+1)),
		outcome: outcomeDone, value: []uint64{vA, vB, 0}[random.Intn(3)],
		version: uint64(random.Intn(6)), extra: uint64(random.Intn(6))}, lifeLast: forever}
	if o.op == opIncr {
		o.value, o.extra = uint64(random.Intn(3)), uint64(random.Intn(8))
	}
	for o.op < opWipe && statusAllowed[o.op]&(1<<o.status) == 0 {
		o.status = uint8(random.Intn(statusNone))
	}
	return o
}

// A state that covers another one answers whatever that answers, and covers it afterwards.
func TestCovers(t *testing.T) {
	random := rand.New(rand.NewSource(9))
	covered, answered := 0, 0
	for n := 0; n < 300000; n++ {
		a, b, o := randomState(random), randomState(random), randomDone(random)
		if !b.covers(&a) {
			continue
		}
		covered++
		afterA, ok := apply(a, &o)
		if !ok {
			continue
		}
		answered++
		if afterB, ok := apply(b, &o); !ok || !afterB.covers(&afterA) {
			t.Fatalf("%+v covers %+v; %s makes %+v (%v) and %+v of them", b, a,
				operationWords(&o), afterB, ok, afterA)
		}
	}
	if covered < 10000 || answered < 1000 {
		t.Errorf("only %d covered, %d answered", covered, answered)
	}
}
