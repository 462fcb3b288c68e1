// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GraceKV authors

package main

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func bad(change func(b []byte)) []byte {
	r := get(100, 200, vA, 9)
	b := encode(&r, 1, 1)
	change(b)
	return b
}

func badOf(r record, change func(b []byte)) []byte {
	b := encode(&r, 1, 1)
	change(b)
	return b
}

func nothing([]byte) {}

func put64(at int, v uint64) func(b []byte) {
	return func(b []byte) { binary.LittleEndian.PutUint64(b[at:], v) }
}

func put32(at int, v int32) func(b []byte) {
	return func(b []byte) { binary.LittleEndian.PutUint32(b[at:], uint32(v)) }
}

func put8(at int, v byte) func(b []byte) { return func(b []byte) { b[at] = v } }

func TestRefusedRecords(t *testing.T) {
	failed := withOutcome(put(1, 2, vA, 0), outcomeFailed)
	for _, c := range []struct {
		words  string
		record []byte
	}{
		{"before it was called", bad(put64(8, 99))},
		{"out of range", bad(put64(0, 1<<63))},
		{"out of range", bad(put64(8, 1<<63))},
		{"op 0", bad(put8(24, 0))},
		{"op 12", bad(put8(24, 12))},
		{"way 7", bad(put8(25, 7))},
		{"outcome 4", bad(put8(26, 4))},
		{"status -110", bad(put32(28, -110))},
		{"status -17", bad(put32(28, -17))},
		{"status 2 ", bad(put32(28, 2))},
		{"status -17", badOf(put(1, 2, vA, 0), put32(28, -17))},
		{"status -2", badOf(putNew(1, 2, vA, 0), put32(28, -2))},
		{"status -17", badOf(putOld(1, 2, vA, 0), put32(28, -17))},
		{"status -17", badOf(del(1, 2), put32(28, -17))},
		{"status -33", badOf(delIf(1, 2, 9), put32(28, -33))},
		{"status -2", badOf(incr(1, 2, 1, 1), put32(28, -2))},
		{"failed with status 0", badOf(failed, put32(28, 0))},
		{"saw 0xc0", bad(put64(48, 0xc000000000000001))},
		{"saw 0x80", bad(put64(48, 0x8000000000000001))},
		{"saw 0x20", bad(put64(48, 1<<61))},
		{"put of 0x80", badOf(put(1, 2, valueGarbage, 0), nothing)},
		{"cas of 0xc0", badOf(cas(1, 2, 9, 0xc000000000000001, 0), nothing)},
		{"incr of 0x40", badOf(incr(1, 2, int64(vA), 0), nothing)},
		{"before the one ahead of it", badOf(get(40, 60, vA, 0), nothing)},
		{"truncated", bad(nothing)[:63]},
	} {
		folder := t.TempDir()
		writeEvents(t, folder, nil)
		first := get(50, 60, vA, 9)
		if !strings.HasPrefix(c.words, "before the") {
			first.call = 1
		}
		content := append(encodeHead(client{3, 1}), encode(&first, 1, 1)...)
		writeFile(t, folder, "history.3.1", append(content, c.record...), 0)
		code, _, stderr := runCheck(t, folder)
		if code != exitRefused || !strings.Contains(stderr, c.words) ||
			!strings.Contains(stderr, "history.3.1: record 1: ") {
			t.Errorf("%q: %d: %s", c.words, code, stderr)
		}
	}
}

// A process that is killed leaves the record it was writing.
func TestUnfinishedRecords(t *testing.T) {
	for _, change := range []func(b []byte){nothing, put8(26, outcomeDone), put32(28, -110),
		put64(48, 0xc000000000000001), put64(56, 77)} {
		r := lost(incr(1, 2, 3, 3))
		b := encode(&r, 1, 1)
		change(b)
		got, _, _, _, err := decodeRecord(b)
		if err != nil || got.outcome != outcomeOpen || got.version != 0 || got.extra != 0 {
			t.Errorf("%+v: %v", got, err)
		}
	}
}

func TestRefusedHeads(t *testing.T) {
	head := func(change func(b []byte)) []byte {
		b := encodeHead(client{3, 1})
		change(b)
		return b
	}
	r := get(1, 2, vA, 0)
	for _, c := range []struct {
		words, name string
		content     []byte
	}{
		{"magic", "history.3.1", head(put8(0, 1))},
		{"it is of 3.1", "history.4.1", head(nothing)},
		{"it is of 3.2", "history.3.1", head(put8(12, 2))},
		{"out of range", "history.0.1", head(put8(8, 0))},
		{"out of range", "history.3.64", head(put8(12, 64))},
		{"reserved", "history.3.1", head(put8(63, 1))},
		{"truncated", "history.3.1", head(nothing)[:63]},
		{"truncated", "history.3.1", make([]byte, 63)},
		{"without head", "history.3.1", append(make([]byte, recordBytes), encode(&r, 1, 1)...)},
		{"name", "history.3", head(nothing)},
		{"name", "history.3.01", head(nothing)},
	} {
		folder := t.TempDir()
		writeEvents(t, folder, nil)
		writeFile(t, folder, c.name, c.content, 0)
		code, _, stderr := runCheck(t, folder)
		if code != exitRefused || !strings.Contains(stderr, c.words) ||
			!strings.Contains(stderr, c.name) {
			t.Errorf("%q: %d: %s", c.words, code, stderr)
		}
	}
}

func TestRefusedEvents(t *testing.T) {
	good := `{"begin_ns":5,"end_ns":9,"nemesis":"kill","who":"server","wipes":true}` + "\n"
	for _, c := range []struct{ words, lines string }{
		{"line 2", good + "{\n"},
		{"more than 1048576 bytes", good + strings.Repeat("0", eventBytesMax+1)},
		{"empty", "\n"},
		{"no nemesis", `{"begin_ns":5,"end_ns":9}`},
		{"from 0 to 9", `{"end_ns":9,"nemesis":"kill"}`},
		{"from 9 to 8", `{"begin_ns":9,"end_ns":8,"nemesis":"kill"}`},
		{"line 1", `{"begin_ns":-1,"end_ns":9,"nemesis":"kill"}`},
		{"seen to be dead", good + good},
	} {
		folder := t.TempDir()
		writeFile(t, folder, "history.3.1", encodeHead(client{3, 1}), 0)
		writeFile(t, folder, "events.jsonl", []byte(c.lines), 0)
		code, _, stderr := runCheck(t, folder)
		if code != exitRefused || !strings.Contains(stderr, c.words) {
			t.Errorf("%q: %d: %s", c.words, code, stderr)
		}
	}
}

func TestRefusedRuns(t *testing.T) {
	folder := t.TempDir()
	for _, args := range [][]string{{}, {folder}, {folder, folder}, {"--timeout", "0", folder},
		{"--no", folder}, {folder + "/no"}} {
		if code, _, stderr := runCheck(t, args...); code != exitRefused || stderr == "" {
			t.Errorf("%v: %d: %s", args, code, stderr)
		}
	}
	writeFile(t, folder, "history.3.1", encodeHead(client{3, 1}), 0)
	if code, _, stderr := runCheck(t, folder); code != exitRefused ||
		!strings.Contains(stderr, "events.jsonl") {
		t.Errorf("without events: %d: %s", code, stderr)
	}
}

// A pipe in the place of a file is refused, not waited for; so are folders that are none.
func TestRefusedFiles(t *testing.T) {
	for _, name := range []string{"history.3.1", "events.jsonl"} {
		folder := t.TempDir()
		writeFile(t, folder, "history.3.0", encodeHead(client{3, 0}), 0)
		writeEvents(t, folder, nil)
		path := filepath.Join(folder, name)
		os.Remove(path)
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Skip("no pipe can be made: ", err)
		}
		code, _, stderr := runCheck(t, folder)
		if code != exitRefused || !strings.Contains(stderr, name+": it is not a regular file") {
			t.Errorf("%s: %d: %s", name, code, stderr)
		}
	}
	folder := t.TempDir()
	writeFile(t, folder, "file", nil, 0)
	for name, words := range map[string]string{"file": "no folder", "no": "no such file"} {
		code, _, stderr := runCheck(t, filepath.Join(folder, name))
		if code != exitRefused || !strings.Contains(stderr, words) {
			t.Errorf("%s: %d: %s", name, code, stderr)
		}
	}
}

// Any 64 bytes are refused, or an operation that the model can take.
func FuzzRecord(f *testing.F) {
	r := get(100, 200, vA, 9)
	f.Add(encode(&r, 1, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) != recordBytes {
			return
		}
		r, _, _, end, err := decodeRecord(b)
		if err != nil || end {
			return
		}
		if r.ret != 0 && r.ret < r.call || r.outcome == outcomeDone == (r.status == statusNone) {
			t.Errorf("%+v", r)
		}
		o := newOperation(&r, []event{wipe(10, 20)})
		operationWords(&o)
		needWords(&o)
		resultOf(history{r}, []event{wipe(10, 20)})
	})
}
