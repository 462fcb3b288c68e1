// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GraceKV authors

package main

// What is left of an illegal history: little, and nothing that a store could have answered.

import (
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// Each step of shrinking makes a legal history of a legal one.
func TestShrinkingIsSound(t *testing.T) {
	const runs = 1500
	random := rand.New(rand.NewSource(5))
	for n := 0; n < runs; n++ {
		o := randomOptions(random)
		s := simulate(o)
		sh := part{ops: operationsOf(s.records(), s.wipes)}
		settleSeen(sh.ops)
		if w, found := findWindow(sh, time.Now().Add(testTimeout)); found {
			t.Fatalf("run %d: %+v: a window is illegal: %+v", n, o, w)
		}
		steps := ""
		for step := 0; step < 4; step++ {
			if len(sh.ops) == 0 {
				break
			}
			at := sh.ops[random.Intn(len(sh.ops))].call + int64(random.Intn(3)) - 1
			what := random.Intn(4)
			steps += " " + []string{"end", "begin", "looks", "leave"}[what]
			switch what {
			case 0:
				sh = sh.cutEnd(at)
			case 1:
				sh = sh.cutBegin(at)
			case 2:
				sh = sh.without(random.Intn(20), random.Intn(20))
			case 3:
				for i := range sh.ops {
					if o := &sh.ops[i]; o.doubt == certain && !o.observes() && random.Intn(4) == 0 {
						o.doubt = mayNot
					}
				}
			}
			if result := sh.judge(testTimeout); result != porcupine.Ok {
				t.Fatalf("run %d: %+v:%s: %v", n, o, steps, result)
			}
		}
	}
}

// plantStale: a get sees what others saw gone before it began.
func plantStale(gets []*record, random *rand.Rand) *record {
	for tries := 0; tries < 1000; tries++ {
		a, g := gets[random.Intn(len(gets))], gets[random.Intn(len(gets))]
		b := gets[random.Intn(len(gets))]
		if a.ret < g.call && g.ret < b.call && a.value != g.value && a.value != b.value {
			b.value, b.version = a.value, a.version
			return b
		}
	}
	return nil
}

// plantForeign: a get sees what nobody wrote.
func plantForeign(gets []*record, random *rand.Rand) *record {
	g := gets[random.Intn(len(gets))]
	g.value, g.version = bytesOf(1<<33), 0
	return g
}

func plant(records []record, seed int64) *record {
	random := rand.New(rand.NewSource(seed))
	var gets []*record
	for i := range records {
		r := &records[i]
		if r.op == opGet && r.outcome == outcomeDone && r.status == statusOK && isBytes(r.value) {
			gets = append(gets, r)
		}
	}
	plants := []func([]*record, *rand.Rand) *record{plantStale, plantForeign}
	return plants[seed%int64(len(plants))](gets, random)
}

func TestShrink(t *testing.T) {
	const runs, shownMax = 9, 12
	for seed := int64(0); seed < runs; seed++ {
		s := simulate(simOptions{seed: seed, clients: 8, operations: 2000, open: 0.003,
			unknown: 0.003, untold: 0.5, numbers: 0.1, reads: 0.6, wipes: int(seed % 3)})
		records := s.records()
		planted := plant(records, seed)
		if planted == nil {
			t.Errorf("seed %d: nothing to plant", seed)
			continue
		}
		sh := shrink(operationsOf(records, s.wipes))
		took, found := 0, false
		for _, o := range sh.ops {
			if o.doubt == certain {
				took++
			}
			found = found || o.client == planted.client && o.number == planted.number && o.op == opGet
		}
		t.Logf("seed %d: %d took place, %d may have", seed, took, len(sh.ops)-took)
		if took > shownMax || len(sh.ops) > 2*shownMax || !found {
			t.Errorf("seed %d: %d took place, of %d; planted: %v", seed, took, len(sh.ops), found)
		}
		if sh.judge(testTimeout) != porcupine.Illegal {
			t.Errorf("seed %d: what is left is legal", seed)
		}
	}
}

func TestReport(t *testing.T) {
	folder, reports := t.TempDir(), filepath.Join(t.TempDir(), "reports")
	s := simulate(simOptions{seed: 7, clients: 8, operations: 600, open: 0.01, unknown: 0.01,
		untold: 0.5, reads: 0.6, wipes: 1})
	records := s.records()
	planted := *plant(records, 0)
	during := event{Begin: planted.call, End: planted.ret, Nemesis: "pause", Who: "client 1"}
	keys := [][]record{{put(1, 2, vA, 9)}, records}
	for i := 0; i < reportsMax; i++ {
		keys = append(keys, history{get(1, 2, vA, 9), getAbsent(3, 4)})
	}
	writeFolder(t, folder, keys, append(s.wipes, during))
	code, stdout, stderr := runCheck(t, "--report", reports, folder)
	if code != exitIllegal || stderr != "" || !strings.Contains(stdout, "illegal      4: 1.7, ") {
		t.Errorf("%d: %s%s", code, stdout, stderr)
	}
	names, err := os.ReadDir(reports)
	if err != nil || len(names) != 2*reportsMax {
		t.Errorf("%v: %v", names, err)
	}
	words, err := os.ReadFile(filepath.Join(reports, "illegal.1.7.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"does not fit", "Nothing is assumed",
		"That was written by ", "pause of client 1, from ",
		operationWords(&operation{record: planted})} {
		if !strings.Contains(string(words), want) {
			t.Errorf("%q is not in:\n%s", want, words)
		}
	}
	t.Logf("\n%s", words)
}

// An illegal history that porcupine alone does not decide in a minute.
func TestWindows(t *testing.T) {
	s := simulate(simOptions{seed: 26, clients: 8, operations: 2000, open: 0.003, unknown: 0.003,
		untold: 1, numbers: 0.1, reads: 0.6, wipes: 2})
	records := s.records()
	if plant(records, 26) == nil {
		t.Fatal("nothing to plant")
	}
	if result := judgeKey(operationsOf(records, s.wipes), testTimeout); result != porcupine.Illegal {
		t.Errorf("%v", result)
	}
}

// A wipe that may not have taken place undoes nothing for sure.
func TestWipeInDoubt(t *testing.T) {
	records := history{put(1, 2, vA, 9), gaveUp(del(3, 4)), get(30, 31, vA, 9)}
	p := part{ops: operationsOf(records, []event{wipe(10, 20)})}
	if result := p.judge(testTimeout); result != porcupine.Illegal {
		t.Errorf("with the wipe: %v", result)
	}
	p.ops[0].doubt = mayNot
	if result := p.judge(testTimeout); result != porcupine.Ok {
		t.Errorf("without: %v", result)
	}
}

func TestGarbageIsShownAlone(t *testing.T) {
	o := simOptions{seed: 5, clients: 4, operations: 500, reads: 0.5, numbers: 0.2}
	records := simulate(o).records()
	for i := range records {
		r := &records[i]
		if i > 200 && r.op == opGet && r.outcome == outcomeDone && r.status == statusOK {
			r.value = valueGarbage
			break
		}
	}
	sh := shrink(operationsOf(records, nil))
	if len(sh.ops) > 2 || sh.judge(testTimeout) != porcupine.Illegal {
		t.Errorf("%d operations, %v", len(sh.ops), sh.judge(testTimeout))
	}
}
