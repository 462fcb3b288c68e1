// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GraceKV authors

package main

// illegal.KEY.html: porcupine's picture, with the events above the operations.

import "github.com/anishathalye/porcupine"

const eventColor = "#ffd28a"

func (r *report) draw(path string) error {
	var notes []porcupine.Annotation
	for _, event := range r.events {
		if event.End < r.e.begin || event.Begin > r.e.end {
			continue
		}
		note := porcupine.Annotation{Tag: event.Who, Start: event.Begin - r.e.begin,
			End: event.End - r.e.begin, Description: event.Nemesis, Details: eventWords(&event),
			BackgroundColor: eventColor}
		if note.Tag == "" {
			note.Tag = event.Nemesis
		}
		notes = append(notes, note)
	}
	r.e.info.AddAnnotations(notes)
	return porcupine.VisualizePath(r.e.model, r.e.info, path)
}
