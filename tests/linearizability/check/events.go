// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GraceKV authors

package main

// What the supervisor did to server and clients: events.jsonl, one object a line.

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"sort"
)

const (
	eventBytesMax = 1 << 20
	never         = int64(math.MaxInt64)
)

// event lasted from begin to end, by the clients' clock. Where it wipes, the server lived at begin
// and was dead at end, and with it all that it had stored.
type event struct {
	Begin   int64  `json:"begin_ns"`
	End     int64  `json:"end_ns"`
	Nemesis string `json:"nemesis"`
	Who     string `json:"who"`
	Wipes   bool   `json:"wipes"`
	Words   string `json:"words"`
}

func readEvents(path string) ([]event, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var events []event
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, eventBytesMax)
	for number := 1; lines.Scan(); number++ {
		e, err := decodeEvent(lines.Bytes())
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %v", path, number, err)
		}
		events = append(events, e)
	}
	if err := lines.Err(); err == bufio.ErrTooLong {
		return nil, fmt.Errorf("%s: a line of more than %d bytes", path, eventBytesMax)
	} else if err != nil {
		return nil, fmt.Errorf("%s: %v", path, err)
	}
	sort.SliceStable(events, func(i, j int) bool { return events[i].Begin < events[j].Begin })
	wipes := wipesOf(events)
	for i := 1; i < len(wipes); i++ {
		if wipes[i].Begin <= wipes[i-1].End {
			return nil, fmt.Errorf("%s: the server was killed at %d, and again at %d, before it was "+
				"seen to be dead at %d", path, wipes[i-1].Begin, wipes[i].Begin, wipes[i-1].End)
		}
	}
	return events, nil
}

func decodeEvent(line []byte) (event, error) {
	var e event
	if len(bytes.TrimSpace(line)) == 0 {
		return e, fmt.Errorf("it is empty")
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return e, err
	}
	if e.Nemesis == "" {
		return e, fmt.Errorf("it names no nemesis")
	}
	if e.Begin <= 0 || e.End < e.Begin || e.End == never {
		return e, fmt.Errorf("it lasts from %d to %d ns", e.Begin, e.End)
	}
	return e, nil
}

func wipesOf(events []event) []event {
	var wipes []event
	for _, e := range events {
		if e.Wipes {
			wipes = append(wipes, e)
		}
	}
	return wipes
}
