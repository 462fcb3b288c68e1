// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GraceKV authors

package main

// Operations and states, in words.

import (
	"fmt"
	"strings"
)

// valueWords: bytes are told by their writer: process, thread, number.
func valueWords(value uint64) string {
	switch {
	case value == valueGarbage:
		return "garbage"
	case isAppended(value):
		return fmt.Sprintf("bytes with more at the end (%x)", value&^(7<<61))
	case isBytes(value):
		id := value &^ valueBytes
		return fmt.Sprintf("bytes %d.%d.%d", id>>40, id>>34&(threadEnd-1), id&(1<<34-1))
	}
	return fmt.Sprintf("number %d", int64(value))
}

var wayWords = []string{"one-sided, with hints", "one-sided, without hints", "as a view",
	"into registered memory", "in a batch", "in flight", "by request"}

// operationWords says what was asked, what came, and which way.
func operationWords(o *operation) string {
	if o.op == opWipe {
		return "the server is killed, and its store lost"
	}
	words := askedWords(&o.record)
	switch o.outcome {
	case outcomeOpen:
		words += ", outcome open"
	case outcomeUnknown:
		words += ", outcome unknown"
	default:
		words += " -> " + answerWords(&o.record)
	}
	if o.way != wayCall || !o.writes() {
		words += ", " + wayWords[o.way]
	}
	return words
}

func askedWords(r *record) string {
	switch r.op {
	case opPut:
		return "put " + valueWords(r.value)
	case opPutNew:
		return "put " + valueWords(r.value) + " if absent"
	case opPutOld:
		return "put " + valueWords(r.value) + " if present"
	case opCas:
		return fmt.Sprintf("cas version %d to %s", r.extra, valueWords(r.value))
	case opDelIf:
		return fmt.Sprintf("del version %d", r.extra)
	case opAppend:
		return "append " + valueWords(r.value)
	case opIncr:
		return fmt.Sprintf("incr %+d", int64(r.value))
	}
	return opNames[r.op]
}

func answerWords(r *record) string {
	version := ""
	if r.version != 0 {
		version = fmt.Sprintf("version %d", r.version)
	}
	switch r.status {
	case statusAbsent:
		return "absent"
	case statusDomain:
		return "not a number"
	case statusExists:
		if r.op == opPutNew {
			return join("present", version)
		}
		return join("another version", version)
	}
	switch r.op {
	case opGet, opGetDel:
		return join(valueWords(r.value), version)
	case opExists:
		return join("present", version)
	case opDel, opDelIf:
		return join("deleted", version)
	case opIncr:
		return join(fmt.Sprint(int64(r.extra)), version)
	}
	if version == "" {
		return "done"
	}
	return version
}

func join(a, b string) string {
	if b == "" {
		return a
	}
	return a + " " + b
}

func stateWords(s *state) string {
	switch s.there {
	case absent:
		return "absent"
	case perhaps:
		return "not known yet"
	}
	value, version := "a value not known yet", fmt.Sprintf(" version %d", s.version)
	if !s.anyValue {
		value = valueWords(s.value)
	}
	if s.version == 0 {
		version = fmt.Sprintf(", version above %d", s.floor)
	}
	return value + version
}

// told: words with a version, if it was told.
func told(words string, version uint64) string {
	if version == 0 {
		return ""
	}
	return fmt.Sprintf(words, version)
}

// needWords says what the key would have to hold where a certain operation took place.
func needWords(o *operation) string {
	exact, older := told(" version %d", o.version), told(", in a version below %d", o.version)
	switch {
	case o.op == opWipe:
		return "it always does" // and is never asked for
	case o.sees() && o.value == valueGarbage:
		return "nobody writes such a value"
	case o.status == statusAbsent:
		return "it would have to be absent"
	case o.status == statusDomain:
		return "it would have to hold bytes"
	case o.status == statusExists && o.op != opPutNew:
		return fmt.Sprintf("it would have to hold another version than %d", o.extra) +
			told(", which is %d", o.version)
	case o.sees():
		return "it would have to hold " + valueWords(o.value) + exact
	case o.op == opExists || o.status == statusExists:
		return "it would have to hold something" + told(", in version %d", o.version)
	case o.op == opCas || o.op == opDelIf:
		return fmt.Sprintf("it would have to hold version %d", o.extra) + older
	case o.op == opIncr && o.outcome == outcomeDone:
		return fmt.Sprintf("it would have to hold number %d", int64(o.extra-o.value)) + older
	case o.op == opDel || o.op == opGetDel || o.op == opPutOld:
		return "it would have to hold something" + older
	case o.op == opPutNew:
		return "it would have to be absent" + told(", and have had no version from %d on", o.version)
	case o.version == 0:
		return "it always does"
	}
	return fmt.Sprintf("it must have had no version from %d on", o.version)
}

func describeOperation(input, _ interface{}) string { return operationWords(input.(*operation)) }

// describeState is of a state, or of a set of them.
func describeState(s interface{}) string {
	if one, single := s.(*state); single {
		return stateWords(one)
	}
	var words []string
	for i := range s.(*stateSet).states {
		words = append(words, stateWords(&s.(*stateSet).states[i]))
	}
	return strings.Join(words, "; or ")
}
