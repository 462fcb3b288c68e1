// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GraceKV authors

package main

// The check of one key's history, by porcupine: is there an order in which each operation took
// place between its call and its return, and answered as the model does?

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
)

// less is no time at all; porcupine takes 0 for no limit
const timeoutMin = time.Microsecond

// entries are the operations as porcupine takes them; their Input is the *operation.
func entries(ops []operation, when []span) []porcupine.Operation {
	out := make([]porcupine.Operation, len(ops))
	for i := range ops {
		out[i] = porcupine.Operation{Input: &ops[i], Call: when[i].call, Return: when[i].end}
	}
	return out
}

// judge checks ops, which it may change, from a state.
func judge(ops []operation, start state, timeout time.Duration) porcupine.CheckResult {
	if timeout < timeoutMin {
		return porcupine.Unknown
	}
	sets := prepare(ops)
	when, fits := narrow(ops)
	if !fits {
		return porcupine.Illegal
	}
	return porcupine.CheckOperationsTimeout(newModel(start, sets), entries(ops, when), timeout)
}

// verdict is what became of one key.
type verdict struct {
	result   porcupine.CheckResult
	checked  int
	open     int
	unknown  int
	inFlight int
}

func checkKey(ops []operation, timeout time.Duration) verdict {
	v := verdict{inFlight: mostInFlight(ops)}
	for i := range ops {
		switch {
		case ops[i].op == opWipe:
			continue
		case ops[i].outcome == outcomeOpen:
			v.open++
		case ops[i].outcome == outcomeUnknown:
			v.unknown++
		}
		v.checked++
	}
	v.result = judgeKey(ops, timeout)
	return v
}

// checkAll checks all keys, as many at a time as there are processors. tick is called after each.
func checkAll(r *run, g groups, timeout time.Duration, tick func(done int)) []verdict {
	verdicts := make([]verdict, len(r.keys))
	wipes := wipesOf(r.events)
	var next, done int64 = -1, 0
	var workers sync.WaitGroup
	var ticking sync.Mutex
	for i := 0; i < runtime.GOMAXPROCS(0); i++ {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for {
				k := int(atomic.AddInt64(&next, 1))
				if k >= len(r.keys) {
					return
				}
				verdicts[k] = checkKey(keyOperations(r, g, wipes, k), timeout)
				ticking.Lock()
				done++
				tick(int(done))
				ticking.Unlock()
			}
		}()
	}
	workers.Wait()
	return verdicts
}
