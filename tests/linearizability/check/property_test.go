// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GraceKV authors

package main

// What a linearizable store answers is legal, whatever happens to it. What it could not have
// answered is not.

import (
	"math/rand"
	"testing"

	"github.com/anishathalye/porcupine"
)

func randomOptions(random *rand.Rand) simOptions {
	return simOptions{
		seed: random.Int63(), clients: 1 + random.Intn(8), operations: 1 + random.Intn(120),
		open: random.Float64() * 0.06, unknown: random.Float64() * 0.06,
		untold: random.Float64(), numbers: random.Float64(), reads: 0.2 + random.Float64()*0.6,
		wipes: random.Intn(4),
	}
}

func TestLegalHistories(t *testing.T) {
	const runs = 1500
	random := rand.New(rand.NewSource(1))
	met := map[string]int{}
	for n := 0; n < runs; n++ {
		o := randomOptions(random)
		s := simulate(o)
		ops := operationsOf(s.records(), s.wipes)
		for i := range ops {
			met[opNames[ops[i].op]]++
			if ops[i].doubt == mayNot && ops[i].outcome == outcomeOpen {
				met["bounded"]++
			}
		}
		if prepare(ops) {
			met["sets"]++
		}
		if result := resultOf(s.records(), s.wipes); result != porcupine.Ok {
			t.Fatalf("run %d: %+v: %v", n, o, result)
		}
	}
	for _, name := range append(opNames[opGet:], "bounded", "sets") {
		if met[name] < 100 {
			t.Errorf("only %d of %s", met[name], name)
		}
	}
}

// older changes what one get saw to what another one had seen before it was called, of another
// write. sure: a third one between them had seen that gone. False: there are no such gets.
func older(records []record, random *rand.Rand) (sure, found bool) {
	var gets []*record
	for i := range records {
		r := &records[i]
		if r.op == opGet && r.outcome == outcomeDone && r.status == statusOK && isBytes(r.value) {
			gets = append(gets, r)
		}
	}
	for tries := 0; tries < 100 && len(gets) > 1; tries++ {
		a, b := gets[random.Intn(len(gets))], gets[random.Intn(len(gets))]
		if a.ret >= b.call || a.value == b.value {
			continue
		}
		for _, g := range gets {
			sure = sure || a.ret < g.call && g.ret < b.call && g.value != a.value
		}
		b.value = a.value
		if random.Intn(2) == 0 {
			b.version = 0
		}
		return sure, true
	}
	return false, false
}

func TestMutatedHistories(t *testing.T) {
	const runs = 1000
	random := rand.New(rand.NewSource(2))
	mutated, refused := 0, 0
	for n := 0; n < runs; n++ {
		o := randomOptions(random)
		o.numbers = 0
		s := simulate(o)
		records := s.records()
		sure, found := older(records, random)
		if !found {
			continue
		}
		mutated++
		result := resultOf(records, s.wipes)
		if result == porcupine.Illegal {
			refused++
		} else if sure || result == porcupine.Unknown {
			t.Errorf("run %d: %+v: %v", n, o, result)
		}
	}
	t.Logf("%d mutated, %d refused", mutated, refused)
	if mutated < runs/2 || refused*100 < mutated*90 {
		t.Errorf("%d of %d mutated histories were refused", refused, mutated)
	}
}
