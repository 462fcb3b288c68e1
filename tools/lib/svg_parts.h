/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What the plots of svg.h are made of. */
#include "tools/lib/svg.h"

#define SVG_LEFT   84.0
#define SVG_RIGHT  630.0
#define SVG_TOP	   56.0
#define SVG_LEGEND 22.0
#define SVG_GRID   "#d8d8d8"
#define SVG_FINE   "#f0f0f0"
#define SVG_INK	   "#222222"

/* Text at a place; @anchor: start, middle or end. */
void svg_words(FILE *out, double x, double y, const char *anchor, const char *text);

/* The same upright, read from below. */
void svg_words_up(FILE *out, double x, double y, const char *anchor, const char *text);

void svg_line(FILE *out, double x1, double y1, double x2, double y2, const char *stroke);

/* 1500 is 1.5k. */
void svg_number(char text[16], double v);

/* svg_open - the picture, with a legend of these, lines or @bars, at its right, title and note. */
void svg_open(FILE *out, double height, const struct svg_text *text,
	      const struct svg_series *series, unsigned count, bool bars);

/* svg_axes - what the axes say, of a field from SVG_TOP to @bottom. */
void svg_axes(FILE *out, const struct svg_text *text, double bottom);

const char *svg_colour(const struct svg_series *series, unsigned place);
