// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GraceKV authors

package main

// The figures of a check: lines for people, or one JSON object.

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

type summary struct {
	Operations  int            `json:"operations"` // records
	Checked     int            `json:"checked"`
	Dropped     int            `json:"dropped"` // that did nothing, and nobody knows what they saw
	Open        int            `json:"open"`    // of those checked
	Unknown     int            `json:"unknown"`
	Keys        int            `json:"keys"`
	Wipes       int            `json:"wipes"`
	Events      int            `json:"events"`
	Files       int            `json:"files"`
	Ops         map[string]int `json:"ops"`
	Ways        map[string]int `json:"ways"`
	KeyMax      int            `json:"key_operations_max"`
	InFlightMax int            `json:"key_in_flight_max"`
	Illegal     int            `json:"illegal"`
	Undecided   int            `json:"undecided"`
	IllegalKeys []string       `json:"illegal_keys"`
	UndecidedOf []string       `json:"undecided_keys"`
	Reports     []string       `json:"reports"`
	Seconds     float64        `json:"seconds"`
}

func summarize(r *run, verdicts []verdict) summary {
	s := summary{Operations: r.count, Keys: len(r.keys), Wipes: len(wipesOf(r.events)),
		Events: len(r.events), Files: len(r.clients), Ops: map[string]int{}, Ways: map[string]int{},
		IllegalKeys: []string{}, UndecidedOf: []string{}, Reports: []string{}}
	var ops [opWipe]int
	var ways [wayCount]int
	for i := 0; i < r.count; i++ {
		rec := r.at(uint32(i))
		ops[rec.op]++
		ways[rec.way]++
	}
	for op := opGet; op < opWipe; op++ {
		s.Ops[opNames[op]] = ops[op]
	}
	for way := range ways {
		s.Ways[wayNames[way]] = ways[way]
	}
	for k, v := range verdicts {
		s.Checked += v.checked
		s.Open += v.open
		s.Unknown += v.unknown
		if v.checked > s.KeyMax {
			s.KeyMax = v.checked
		}
		if v.inFlight > s.InFlightMax {
			s.InFlightMax = v.inFlight
		}
		switch v.result {
		case porcupine.Illegal:
			s.IllegalKeys = append(s.IllegalKeys, r.keys[k].String())
		case porcupine.Unknown:
			s.UndecidedOf = append(s.UndecidedOf, r.keys[k].String())
		}
	}
	s.Dropped = s.Operations - s.Checked
	s.Illegal, s.Undecided = len(s.IllegalKeys), len(s.UndecidedOf)
	return s
}

func (s *summary) exitCode() int {
	switch {
	case s.Illegal != 0:
		return exitIllegal
	case s.Undecided != 0:
		return exitUndecided
	}
	return exitLegal
}

func (s *summary) print(w io.Writer, asJSON bool, elapsed time.Duration) {
	s.Seconds = float64(elapsed.Milliseconds()) / 1000
	if asJSON {
		line, err := json.Marshal(s)
		if err != nil {
			panic(err) // it has nothing that JSON can not say
		}
		fmt.Fprintf(w, "%s\n", line)
		return
	}
	line := func(name, format string, args ...interface{}) {
		fmt.Fprintf(w, "%-12s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("operations", "%d in %d files, of %d keys", s.Operations, s.Files, s.Keys)
	line("checked", "%d; %d open, %d unknown", s.Checked, s.Open, s.Unknown)
	line("dropped", "%d, which did nothing", s.Dropped)
	line("one key", "at most %d operations, at most %d in flight", s.KeyMax, s.InFlightMax)
	line("events", "%d; the store was lost %d times", s.Events, s.Wipes)
	line("ops", "%s", countWords(s.Ops, opNames[opGet:opWipe]))
	line("ways", "%s", countWords(s.Ways, wayNames))
	line("illegal", "%s", keyWords(s.IllegalKeys))
	line("undecided", "%s", keyWords(s.UndecidedOf))
	for _, path := range s.Reports {
		line("report", "%s", path)
	}
	line("seconds", "%.3f", s.Seconds)
}

func countWords(counts map[string]int, names []string) string {
	var words []string
	for _, name := range names {
		if counts[name] != 0 {
			words = append(words, fmt.Sprintf("%s %d", name, counts[name]))
		}
	}
	return strings.Join(words, ", ")
}

const keysNamed = 20

func keyWords(keys []string) string {
	if len(keys) == 0 {
		return "0"
	}
	words := fmt.Sprintf("%d: ", len(keys))
	if len(keys) > keysNamed {
		return words + strings.Join(keys[:keysNamed], ", ") + ", ..."
	}
	return words + strings.Join(keys, ", ")
}
