// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GraceKV authors

// lin-check says whether what clients did is what one store, in some order, could have answered.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"
	"unsafe"
)

const (
	exitLegal     = 0
	exitIllegal   = 1
	exitRefused   = 2
	exitUndecided = 3
)

type options struct {
	timeout time.Duration
	report  string
	json    bool
	folder  string
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("lin-check", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.DurationVar(&o.timeout, "timeout", time.Minute, "how long one key may take")
	flags.StringVar(&o.report, "report", "", "where reports go (default FOLDER)")
	flags.BoolVar(&o.json, "json", false, "print the summary as one JSON object")
	flags.Usage = func() {
		fmt.Fprintln(stderr, "lin-check [--timeout 60s] [--report DIR] [--json] FOLDER")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() != 1 || o.timeout <= 0 {
		flags.Usage()
		return o, fmt.Errorf("one FOLDER is needed, and a timeout above 0")
	}
	o.folder = flags.Arg(0)
	if o.report == "" {
		o.report = o.folder
	}
	return o, nil
}

func execute(args []string, stdout, stderr io.Writer, tick func(words string)) int {
	begin := time.Now()
	o, err := parseOptions(args, stderr)
	if err == flag.ErrHelp {
		return exitLegal
	}
	if err != nil {
		fmt.Fprintf(stderr, "lin-check: %v\n", err)
		return exitRefused
	}
	tick("reading")
	r, err := readRun(o.folder)
	if err != nil {
		fmt.Fprintf(stderr, "lin-check: %v\n", err)
		return exitRefused
	}
	limitGarbage(r)
	g := groupByKey(r)
	verdicts := checkAll(r, g, o.timeout, func(done int) {
		tick(fmt.Sprintf("%d of %d keys", done, len(r.keys)))
	})
	s := summarize(r, verdicts)
	elapsed := time.Since(begin)
	s.Reports, err = writeReports(r, g, verdicts, o.report, tick)
	tick("")
	s.print(stdout, o.json, elapsed)
	if err != nil {
		fmt.Fprintf(stderr, "lin-check: a report could not be written: %v\n", err)
	}
	return s.exitCode()
}

// limitGarbage: what the checks leave behind may grow to so much, and not to as much as all records
// take.
func limitGarbage(r *run) {
	const garbage, rest = 256 << 20, 32 << 20
	percent := garbage * 100 / (r.count*int(unsafe.Sizeof(record{})) + rest)
	debug.SetGCPercent(percent)
}

const (
	progressAfter = 2 * time.Second
	progressEvery = 200 * time.Millisecond
)

// progress writes one line over and over, to a terminal. Words "" clear it.
func progress(f *os.File) func(words string) {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return func(string) {}
	}
	next := time.Now().Add(progressAfter)
	shown := false
	return func(words string) {
		if words == "" && shown {
			fmt.Fprint(f, "\r\x1b[K")
		}
		if words == "" || time.Now().Before(next) {
			return
		}
		next, shown = time.Now().Add(progressEvery), true
		fmt.Fprintf(f, "\r\x1b[K%s", words)
	}
}

func main() {
	os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr, progress(os.Stderr)))
}
