// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GraceKV authors

package main

// illegal.KEY.txt, for people: what cannot be, and the operations of which that is said.

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/anishathalye/porcupine"
)

const (
	reportsMax = 3
	pictureMax = 1000 // operations; a browser shows no more
)

type report struct {
	name    keyName
	whole   []operation // all of the key, and its wipes
	checked int
	shrunk  *shrinker
	e       *explanation
	found   bool
	clients []client
	events  []event
}

// writeReports shrinks the first keys that are illegal, and writes what it finds into a folder.
func writeReports(r *run, g groups, verdicts []verdict, folder string,
	tick func(words string)) ([]string, error) {
	wipes, count, paths := wipesOf(r.events), 0, []string{}
	for k, v := range verdicts {
		if v.result != porcupine.Illegal {
			continue
		}
		if count++; count > reportsMax {
			break
		}
		tick(fmt.Sprintf("shrinking the history of key %v", r.keys[k]))
		rep := report{name: r.keys[k], whole: keyOperations(r, g, wipes, k),
			checked: v.checked, clients: r.clients, events: r.events}
		rep.shrunk = shrink(rep.whole)
		rep.e, rep.found = explain(rep.shrunk.part, rep.who)
		path := filepath.Join(folder, "illegal."+rep.name.String())
		if err := os.MkdirAll(folder, 0o777); err != nil {
			return paths, err
		}
		if err := rep.write(path + ".txt"); err != nil {
			return paths, err
		}
		paths = append(paths, path+".txt")
		if len(rep.e.ops) <= pictureMax {
			if err := rep.draw(path + ".html"); err != nil {
				return paths, err
			}
			paths = append(paths, path+".html")
		}
	}
	return paths, nil
}

const legend = `
order: its place in the longest order that fits; "!": does not fit after that; "-": not in it
us:    from the first call of what took place; events and calls before that are negative
who:   PROCESS.THREAD; the file history.PROCESS.THREAD has the whole, *.PROCESS.stderr its words
`

func (r *report) write(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	r.writeWords(f)
	fmt.Fprint(f, legend)
	r.writeTable(f, "Took place:", true)
	r.writeTable(f, "May have taken place, once or never; it cannot be either way:", false)
	return f.Close()
}

func (r *report) writeWords(w io.Writer) {
	e := r.e
	fmt.Fprintf(w, "Key %v (slot %d, generation %d): no order of these operations explains what "+
		"they answered.\n\n", r.name, r.name.slot, r.name.generation)
	if !r.found || len(r.e.stuck) == 0 {
		fmt.Fprintf(w, "Which of them does not fit was not found.\n\n")
	} else {
		fmt.Fprintf(w, "The longest order that fits is that of the numbers. After it the key "+
			"holds: %s.\n", e.holds)
		for _, i := range e.stuck {
			r.writeStuck(w, &e.ops[i])
		}
		fmt.Fprintln(w)
	}
	took, may, did := r.count()
	fmt.Fprintf(w, "Of the key's %d operations %d are enough to show it", r.checked, took)
	if may != 0 {
		fmt.Fprintf(w, ", whether those that may have taken place, %d, did or not (%d of them "+
			"did)", may, did)
	}
	if r.shrunk.start.there == perhaps {
		fmt.Fprintf(w, ". Nothing is assumed of what the key held before.\n")
	} else {
		fmt.Fprintf(w, ". At the beginning the key was absent.\n")
	}
	r.writeEvents(w)
}

// writeStuck says what an operation would have needed, and where the value that it saw was from.
func (r *report) writeStuck(w io.Writer, o *operation) {
	fmt.Fprintf(w, "Then %s does not fit: %s.\n", r.sentence(o), needWords(o))
	if !o.sees() || !isBytes(o.value) {
		return
	}
	found := false
	for i := range r.whole {
		if by := &r.whole[i]; givesBytes(by) && by.value == o.value {
			fmt.Fprintf(w, "That was written by %s.\n", strings.TrimSuffix(r.sentence(by), ","))
			found = true
		}
	}
	if !found {
		fmt.Fprintf(w, "No single operation on this key wrote it.\n")
	}
}

func (r *report) sentence(o *operation) string {
	returned := "which never returned"
	if o.ret != 0 {
		returned = "returned at " + micros(o.ret-r.e.begin)
	}
	return fmt.Sprintf("%q of %s, called at %s us, %s,", operationWords(o), r.who(o),
		micros(o.call-r.e.begin), returned)
}

// count: operations, wipes aside, that took place and that may have, and of these those that did.
func (r *report) count() (took, may, did int) {
	for i := range r.e.ops {
		o := &r.e.ops[i]
		switch {
		case o.op == opWipe:
		case o.doubt == certain:
			took++
		case o.outcome == outcomeDone:
			did++
			may++
		default:
			may++
		}
	}
	return took, may, did
}

func (r *report) writeEvents(w io.Writer) {
	first := true
	for _, event := range r.events {
		if event.End < r.e.begin || event.Begin > r.e.end {
			continue
		}
		if first {
			fmt.Fprintf(w, "\nMeanwhile:\n")
		}
		first = false
		fmt.Fprintf(w, "  %s, from %s to %s us\n", eventWords(&event),
			micros(event.Begin-r.e.begin), micros(event.End-r.e.begin))
	}
}

func eventWords(e *event) string {
	words := e.Nemesis
	if e.Who != "" {
		words += " of " + e.Who
	}
	if e.Words != "" {
		words += ": " + e.Words
	}
	return words
}

func (r *report) who(o *operation) string {
	if o.op == opWipe {
		return "server"
	}
	return r.clients[o.client].String()
}

// micros: with nanoseconds, so that what lies close together can be told apart.
func micros(ns int64) string { return fmt.Sprintf("%.3f", float64(ns)/1000) }

func (r *report) writeTable(w io.Writer, title string, took bool) {
	const form = "%s\t%s\t%s\t%s\t  %s\n"
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	rows := 0
	for i := range r.e.ops {
		o := &r.e.ops[i]
		if (o.doubt == certain) != took {
			continue
		}
		if rows == 0 {
			fmt.Fprintf(w, "\n%s\n\n", title)
			fmt.Fprintf(table, form, "order", "call us", "return us", "who", "what")
		}
		rows++
		returned := "never"
		if o.ret != 0 {
			returned = micros(o.ret - r.e.begin)
		}
		fmt.Fprintf(table, form, r.mark(i), micros(o.call-r.e.begin), returned, r.who(o),
			r.rowWords(o))
	}
	table.Flush()
}

// mark: the place in the longest order, or that there is none.
func (r *report) mark(i int) string {
	if r.e.place[i] != 0 {
		return fmt.Sprint(r.e.place[i])
	}
	for _, s := range r.e.stuck {
		if s == i {
			return "!"
		}
	}
	return "-"
}

func (r *report) rowWords(o *operation) string {
	words := operationWords(o)
	if o.doubt == certain && o.op != opWipe && o.outcome != outcomeDone {
		words += ", but its value was seen"
	}
	return words
}
