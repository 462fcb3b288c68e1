// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GraceKV authors

package main

// What an operation costs: histories of 1500 operations of 8 clients, a few of them open. Under
// BenchmarkFolder they come from files, and all processors check.

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

const benchOperations = 1500

func benchOptions(seed int64, unknown float64) simOptions {
	return simOptions{seed: seed, clients: 8, operations: benchOperations, open: 0.003,
		unknown: unknown, untold: 0.2, numbers: 0.2, reads: 0.6, wipes: 2}
}

func benchmarkKeys(b *testing.B, unknown float64) {
	const keys = 32
	var sims []*sim
	for k := 0; k < keys; k++ {
		sims = append(sims, simulate(benchOptions(int64(k), unknown)))
	}
	b.ReportAllocs()
	b.ResetTimer()
	begin := time.Now()
	for n := 0; n < b.N; n++ {
		s := sims[n%keys]
		if result := resultOf(s.records(), s.wipes); result != porcupine.Ok {
			b.Fatal(result)
		}
	}
	reportOperation(b, begin, b.N*benchOperations)
}

func BenchmarkKey(b *testing.B) { benchmarkKeys(b, 0) }

func BenchmarkKeyWithSets(b *testing.B) { benchmarkKeys(b, 0.003) }

func BenchmarkFolder(b *testing.B) {
	const keys = 100
	folder := b.TempDir()
	var all [][]record
	for k := 0; k < keys; k++ {
		o := benchOptions(int64(k), 0)
		o.wipes = 0
		all = append(all, simulate(o).records())
	}
	writeFolder(b, folder, all, nil)
	b.ResetTimer()
	begin := time.Now()
	for n := 0; n < b.N; n++ {
		if code, stdout, stderr := runCheck(b, folder); code != exitLegal {
			b.Fatal(stdout, stderr)
		}
	}
	reportOperation(b, begin, b.N*keys*benchOperations)
}

func reportOperation(b *testing.B, begin time.Time, operations int) {
	b.ReportMetric(float64(time.Since(begin).Nanoseconds())/float64(operations), "ns/operation")
}
