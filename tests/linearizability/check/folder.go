// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GraceKV authors

package main

// The folder of a run: one file for each thread, history.PROCESS.THREAD, and the supervisor's
// events.jsonl. Files are sparse and much longer than what was written: each is read up to its
// first record that was never begun, in small blocks.

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

const (
	readBytes  = 4096 * recordBytes
	chunkShift = 14
	chunkSize  = 1 << chunkShift

	processEnd = 1 << 20 // value ids have 20 bits for the process and 6 for the thread
	threadEnd  = 1 << 6
)

type client struct{ process, thread uint32 }

func (c client) String() string { return fmt.Sprintf("%d.%d", c.process, c.thread) }

type keyName struct{ slot, generation uint32 }

func (k keyName) String() string { return fmt.Sprintf("%d.%d", k.slot, k.generation) }

// run is all that a folder holds. Records lie in chunks, so that growing copies nothing.
type run struct {
	chunks  [][]record
	count   int
	clients []client
	keys    []keyName
	keyOf   map[keyName]uint32
	events  []event
}

func (r *run) at(i uint32) *record { return &r.chunks[i>>chunkShift][i&(chunkSize-1)] }

func (r *run) add(rec record, name keyName) error {
	key, known := r.keyOf[name]
	if !known {
		key = uint32(len(r.keys))
		r.keyOf[name] = key
		r.keys = append(r.keys, name)
	}
	rec.key = key
	if int64(r.count) >= 1<<32-1 {
		return fmt.Errorf("more than 2^32 records")
	}
	if r.count&(chunkSize-1) == 0 {
		r.chunks = append(r.chunks, make([]record, 0, chunkSize))
	}
	last := &r.chunks[len(r.chunks)-1]
	*last = append(*last, rec)
	r.count++
	return nil
}

// readRun reads a folder, or says in a sentence what is wrong with it.
func readRun(folder string) (*run, error) {
	paths, err := filepath.Glob(filepath.Join(escapeGlob(folder), "history.*"))
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(folder); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%s: it is no folder", folder)
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s: no files history.PROCESS.THREAD, nothing to check", folder)
	}
	sort.Strings(paths)
	r := &run{keyOf: map[keyName]uint32{}}
	for _, path := range paths {
		if err := r.readHistory(path); err != nil {
			return nil, err
		}
	}
	r.events, err = readEvents(filepath.Join(folder, "events.jsonl"))
	return r, err
}

// openFile opens a file that is one: a pipe would have no end, and no beginning either.
func openFile(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: it is not a regular file", path)
	}
	return os.Open(path)
}

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

func (r *run) readHistory(path string) error {
	var named client
	name := filepath.Base(path)
	_, err := fmt.Sscanf(name, "history.%d.%d", &named.process, &named.thread)
	if err != nil || name != "history."+named.String() {
		return fmt.Errorf("%s: the name is not history.PROCESS.THREAD", path)
	}
	f, err := openFile(path)
	if err != nil {
		return err
	}
	defer f.Close()

	block := make([]byte, readBytes)
	n, err := readBlock(f, block[:recordBytes])
	if err != nil {
		return fmt.Errorf("%s: %v", path, err)
	}
	started, err := decodeHead(block[:n], named)
	if err != nil {
		return fmt.Errorf("%s: head: %v", path, err)
	}
	r.clients = append(r.clients, named)
	number, call := uint32(0), int64(0)
	for {
		n, err := readBlock(f, block)
		if err != nil {
			return fmt.Errorf("%s: %v", path, err)
		}
		for at := 0; at < n; at += recordBytes {
			if n-at < recordBytes {
				return fmt.Errorf("%s: record %d: truncated, it has %d bytes of %d", path, number,
					n-at, recordBytes)
			}
			rec, slot, generation, end, err := decodeRecord(block[at : at+recordBytes])
			switch {
			case err == nil && end:
				return nil
			case err == nil && !started:
				err = fmt.Errorf("a record, in a file without head")
			case err == nil && rec.call < call:
				err = fmt.Errorf("called at %d, before the one ahead of it at %d", rec.call, call)
			}
			if err == nil {
				rec.client, rec.number, call = uint32(len(r.clients)-1), number, rec.call
				err = r.add(rec, keyName{slot, generation})
			}
			if err != nil {
				return fmt.Errorf("%s: record %d: %v", path, number, err)
			}
			number++
		}
		if n < len(block) {
			return nil
		}
	}
}

// readBlock: as many bytes as there are, up to all of b.
func readBlock(f io.Reader, b []byte) (int, error) {
	n, err := io.ReadFull(f, b)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return n, err
}

// decodeHead checks a head. Not started: it is all zero, or the file is empty, since the process
// was killed before it wrote one; there must be no record then.
func decodeHead(b []byte, named client) (started bool, err error) {
	zero := true
	for _, c := range b {
		zero = zero && c == 0
	}
	if zero && (len(b) == 0 || len(b) == recordBytes) {
		return false, nil
	}
	if len(b) < recordBytes {
		return false, fmt.Errorf("truncated, it has %d bytes of %d", len(b), recordBytes)
	}
	le := binary.LittleEndian
	if magic := le.Uint64(b); magic != historyMagic {
		return false, fmt.Errorf("magic is %#x, not %#x", magic, uint64(historyMagic))
	}
	head := client{le.Uint32(b[8:]), le.Uint32(b[12:])}
	if head != named {
		return false, fmt.Errorf("it says that it is of %v", head)
	}
	if head.process == 0 || head.process >= processEnd || head.thread >= threadEnd {
		return false, fmt.Errorf("process or thread of %v is out of range", head)
	}
	for _, c := range b[16:recordBytes] {
		if c != 0 {
			return false, fmt.Errorf("reserved bytes are not 0")
		}
	}
	return true, nil
}
