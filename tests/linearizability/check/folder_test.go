// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GraceKV authors

package main

// Folders as a run leaves them, and what is refused of them.

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// encode is what ../client writes of a record.
func encode(r *record, slot, generation uint32) []byte {
	b := make([]byte, recordBytes)
	le := binary.LittleEndian
	le.PutUint64(b, uint64(r.call))
	le.PutUint64(b[8:], uint64(r.ret))
	le.PutUint32(b[16:], slot)
	le.PutUint32(b[20:], generation)
	b[24], b[25], b[26] = r.op, r.way, r.outcome
	errno := int32(-110)
	if r.outcome == outcomeDone {
		errno = statusErrno[r.status]
	}
	le.PutUint32(b[28:], uint32(errno))
	if r.setsValue() || r.op == opIncr || r.op == opAppend {
		le.PutUint64(b[32:], r.value)
	}
	if r.op == opCas || r.op == opDelIf {
		le.PutUint64(b[40:], r.extra)
	}
	if r.op == opGet || r.op == opGetDel {
		le.PutUint64(b[48:], r.value)
	}
	if r.op == opIncr {
		le.PutUint64(b[48:], r.extra)
	}
	le.PutUint64(b[56:], r.version)
	return b
}

func encodeHead(c client) []byte {
	b := make([]byte, recordBytes)
	binary.LittleEndian.PutUint64(b, historyMagic)
	binary.LittleEndian.PutUint32(b[8:], c.process)
	binary.LittleEndian.PutUint32(b[12:], c.thread)
	return b
}

func writeFile(t testing.TB, folder, name string, content []byte, size int64) {
	t.Helper()
	path := filepath.Join(folder, name)
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	if size != 0 {
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
	}
}

func writeEvents(t testing.TB, folder string, events []event) {
	t.Helper()
	var lines []byte
	for _, e := range events {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(append(lines, line...), '\n')
	}
	writeFile(t, folder, "events.jsonl", lines, 0)
}

// writeFolder writes histories of keys, each by clients of its own, into sparse files.
func writeFolder(t testing.TB, folder string, keys [][]record, events []event) {
	t.Helper()
	for k, records := range keys {
		files := map[uint32][]byte{}
		for i := range sortedByCall(records) {
			r := &records[i]
			if files[r.client] == nil {
				files[r.client] = encodeHead(client{uint32(k + 1), r.client})
			}
			files[r.client] = append(files[r.client], encode(r, uint32(k), 7)...)
		}
		for c, content := range files {
			writeFile(t, folder, "history."+client{uint32(k + 1), c}.String(), content, 64<<20)
		}
	}
	writeEvents(t, folder, events)
}

func runCheck(t testing.TB, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = execute(args, &out, &errs, func(string) {})
	return code, out.String(), errs.String()
}

func TestFolder(t *testing.T) {
	folder := t.TempDir()
	s := simulate(simOptions{seed: 3, clients: 4, operations: 500, open: 0.02, unknown: 0.02,
		reads: 0.5, wipes: 1})
	writeFolder(t, folder, [][]record{s.records(), {put(1, 2, vA, 9), get(3, 4, vA, 9)}}, s.wipes)
	writeFile(t, folder, "history.9.0", nil, 0) // of processes that were killed at once
	writeFile(t, folder, "history.9.1", nil, 64<<20)
	code, stdout, stderr := runCheck(t, "--json", folder)
	if code != exitLegal || stderr != "" {
		t.Fatalf("%d: %s%s", code, stdout, stderr)
	}
	var got summary
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(stdout, "null") {
		t.Errorf("a list is null: %s", stdout)
	}
	if got.Operations != 502 || got.Keys != 2 || got.Wipes != 1 || got.Files != 7 ||
		got.Checked+got.Dropped != 502 || got.KeyMax+2 != got.Checked || got.Open == 0 ||
		got.Unknown == 0 || got.InFlightMax < 2 || got.InFlightMax > 4 || got.Ops["put"] == 0 {
		t.Errorf("%s", stdout)
	}
	code, stdout, _ = runCheck(t, "--timeout", "1ns", folder)
	if code != exitUndecided || !strings.Contains(stdout, "undecided    2: ") {
		t.Errorf("%d: %s", code, stdout)
	}
}

func TestInFlight(t *testing.T) {
	ops := operationsOf(history{put(1, 5, vA, 0), get(2, 3, vA, 0), get(3, 4, vA, 0),
		lost(put(1, 1, vB, 0)), get(6, 7, vA, 0)}, nil)
	if most := mostInFlight(ops); most != 3 {
		t.Errorf("%d in flight", most)
	}
}
