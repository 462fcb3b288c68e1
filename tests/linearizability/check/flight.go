// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GraceKV authors

package main

import "sort"

// mostInFlight is the greatest number of operations between their calls and returns at one moment.
// Those that never returned are not counted: for how long they lasted is not known.
func mostInFlight(ops []operation) int {
	calls := make([]int64, 0, len(ops))
	returns := make([]int64, 0, len(ops))
	for i := range ops {
		if o := &ops[i]; o.op != opWipe && o.ret != 0 {
			calls, returns = append(calls, o.call), append(returns, o.ret)
		}
	}
	sortTimes(calls)
	sortTimes(returns)
	most, ended := 0, 0
	for begun, call := range calls {
		for returns[ended] < call {
			ended++
		}
		if n := begun + 1 - ended; n > most {
			most = n
		}
	}
	return most
}

func sortTimes(t []int64) { sort.Slice(t, func(i, j int) bool { return t[i] < t[j] }) }

// assignLanes gives each operation a row, so that those of a row do not overlap, and rows of one
// client lie side by side.
func assignLanes(ops []operation) []int {
	order := make([]int, len(ops))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(i, j int) bool {
		a, b := &ops[order[i]], &ops[order[j]]
		if wa, wb := a.op == opWipe, b.op == opWipe; wa != wb {
			return wa
		}
		if a.client != b.client {
			return a.client < b.client
		}
		return a.call < b.call
	})
	rows, count := make([]int, len(ops)), 0
	var ends []int64 // of the rows of this client
	for n, i := range order {
		o := &ops[i]
		if n > 0 {
			before := &ops[order[n-1]]
			if before.client != o.client || (before.op == opWipe) != (o.op == opWipe) {
				count += len(ends)
				ends = ends[:0]
			}
		}
		lane := 0
		for lane < len(ends) && ends[lane] >= o.call {
			lane++
		}
		if lane == len(ends) {
			ends = append(ends, 0)
		}
		ends[lane] = o.end
		rows[i] = count + lane
	}
	return rows
}
