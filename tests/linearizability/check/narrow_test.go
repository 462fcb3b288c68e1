// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GraceKV authors

package main

// What is narrowed gets the verdict of what is not.

import (
	"math/rand"
	"testing"

	"github.com/anishathalye/porcupine"
)

// plainly is judge() with the times as they were recorded.
func plainly(ops []operation, start state) porcupine.CheckResult {
	sets := prepare(ops)
	return porcupine.CheckOperationsTimeout(newModel(start, sets), entries(ops, spansOf(ops)),
		testTimeout)
}

// disturb changes what one operation told of versions, or what it saw.
func disturb(records []record, random *rand.Rand) {
	a, b := &records[random.Intn(len(records))], &records[random.Intn(len(records))]
	switch random.Intn(3) {
	case 0:
		if a.version != 0 && b.version != 0 {
			a.version = b.version
		}
	case 1:
		if a.op == opGet && b.op == opGet && a.outcome == outcomeDone && b.outcome == outcomeDone {
			a.value, a.status, a.version = b.value, b.status, b.version
		}
	case 2:
		if a.version > 1 {
			a.version--
		}
	}
}

func TestNarrowing(t *testing.T) {
	const runs = 10000
	random := rand.New(rand.NewSource(3))
	met := map[string]int{}
	for n := 0; n < runs; n++ {
		o := randomOptions(random)
		o.operations = 1 + random.Intn(60) // or what is illegal takes long to refute plainly
		s := simulate(o)
		records := s.records()
		if random.Intn(4) != 0 {
			disturb(records, random)
		}
		want := plainly(operationsOf(records, s.wipes), state{})
		got := judge(operationsOf(records, s.wipes), state{}, testTimeout)
		if got != want {
			t.Fatalf("run %d: %+v: %v, and %v when it is narrowed", n, o, want, got)
		}
		met[string(want)]++
		ops := operationsOf(records, s.wipes)
		prepare(ops)
		when, fits := narrow(ops)
		if !fits {
			met["nothing left"]++
		}
		for i := range ops {
			if when[i].call < ops[i].call || when[i].end > ops[i].end {
				t.Fatalf("run %d: an operation's time has grown", n)
			}
			if when[i] != (span{ops[i].call, ops[i].end}) {
				met["narrowed"]++
			}
		}
	}
	for name, least := range map[string]int{string(porcupine.Ok): 500, "Illegal": 300,
		"nothing left": 100, "narrowed": 10000} {
		if met[name] < least {
			t.Errorf("only %d of %q", met[name], name)
		}
	}
}

// What ends or begins in the moment of a wipe is of either life: versions say nothing of it.
func TestNarrowingBesideAWipe(t *testing.T) {
	wipes := []event{wipe(10, 20)}
	testVerdict(t, "behind", true,
		history{put(20, 25, vA, 9), put(26, 27, vB, 4), get(28, 29, vB, 4)}, wipes)
	testVerdict(t, "ahead", true,
		history{put(1, 2, vA, 9), get(3, 4, vA, 9), put(5, 10, vB, 4), get(21, 22, vB, 4)}, wipes)
}
