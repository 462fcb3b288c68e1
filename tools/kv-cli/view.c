/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-cli/view.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "tools/kv-cli/text.h"

#define ROOMY_ROWS  30u /* from here on there are empty lines between the parts */
#define BAR_MAX	    30u
#define RATES_WIDTH 36u /* memory stands to the right of them */
#define CLASSES_AT  51u /* column of the table of block sizes */

static const char software_words[] = " (software: memory copies, not RDMA)";

/* A column of a figure to be read, with the heading above it. */
struct column {
	const char *heading;
	int width;
	const char *name;
	enum { COLUMN_NUMBER, COLUMN_RATE, COLUMN_FILL, COLUMN_BYTES } kind;
};

static bool value_of(const struct stats_table *t, const char *name, uint64_t *value)
{
	const struct stats_value *v = stats_find(t, name);

	*value = v ? v->value : 0;
	return v;
}

static const char *shown(char out[TEXT_SHORT_MAX], const struct stats_value *v,
			 const char *(*how)(char[TEXT_SHORT_MAX], uint64_t))
{
	return v ? how(out, v->value) : "-";
}

static const char *shown_ratio(char out[TEXT_SHORT_MAX], double ratio)
{
	if (ratio < 0)
		return "-";
	if (ratio >= 99.9995)
		return text_rate(out, ratio);
	snprintf(out, TEXT_SHORT_MAX, "%.*f", ratio < 9.9995 ? 3 : 2, ratio);
	return out;
}

static const char *shown_percent(char out[TEXT_SHORT_MAX], uint64_t part, uint64_t whole)
{
	double percent = whole ? 100 * (double)part / (double)whole : 0;

	if (!whole)
		return "-";
	snprintf(out, TEXT_SHORT_MAX, "%.0f%%", percent < 9999 ? percent : 9999);
	return out;
}

static void gap(struct frame *f)
{
	if (!f->rows || f->rows >= ROOMY_ROWS)
		frame_next(f);
}

/* A server of a long name is cut, and what is said of its device is not. */
static void draw_head(struct frame *f, const struct view *v, const struct stats_table *t)
{
	const char *words = v->software ? software_words : "";
	size_t room = f->columns,
	       others = strlen("kv-server ") + strlen(" on ") + strlen(v->device) + strlen(words);
	uint64_t ms, n;

	room = room > others + 16 ? room - others : 16;
	frame_head(f);
	if (strlen(v->server) > room)
		frame_put(f, "kv-server %.*s...", (int)room - 3, v->server);
	else
		frame_put(f, "kv-server %s", v->server);
	frame_put(f, " on %s%s", v->device, words);
	frame_next(f);
	if (value_of(t, "pid", &n))
		frame_put(f, "pid %" PRIu64, n);
	else
		frame_put(f, "pid -");
	if (value_of(t, "uptime_ms", &ms))
		frame_put(f, "   up %" PRIu64 "d %02u:%02u:%02u", ms / 86400000,
			  (unsigned)(ms / 3600000 % 24), (unsigned)(ms / 60000 % 60),
			  (unsigned)(ms / 1000 % 60));
	else
		frame_put(f, "   up -");
	if (value_of(t, "epoch", &n))
		frame_put(f, "   epoch %" PRIu64, n);
	if (value_of(t, "version", &n))
		frame_put(f, "   version %" PRIu64, n);
	frame_next(f);
	frame_put(f, "%s", v->status);
	if (v->status[0] || f->screen)
		frame_next(f);
}

/* A row of rates: two figures that have their place there whatever they are. */
static void draw_rate(struct frame *f, const char *label, const char *figure)
{
	frame_put(f, "%-8s %6s   ", label, figure);
}

static void draw_memory(struct frame *f, const char *label, const struct stats_value *part,
			uint64_t whole, bool told)
{
	char a[TEXT_SHORT_MAX], b[TEXT_SHORT_MAX], c[TEXT_SHORT_MAX];
	unsigned room = f->columns > RATES_WIDTH + 34 ? f->columns - RATES_WIDTH - 34 : 0;
	double filled = part && whole ? (double)part->value / (double)whole : 0;
	unsigned marks;

	frame_to(f, RATES_WIDTH);
	frame_put(f, "%-9s %6s", label, shown(a, part, text_bytes));
	if (told)
		frame_put(f, " of %6s", whole ? text_bytes(b, whole) : "-");
	frame_to(f, RATES_WIDTH + 26);
	frame_put(f, " %4s ", part ? shown_percent(c, part->value, whole) : "-");
	if (room > BAR_MAX)
		room = BAR_MAX;
	marks = filled < 1 ? (unsigned)(filled * room + 0.5) : room; /* figures may be absurd */
	for (unsigned i = 0; i < room; i++)
		frame_put(f, "%s%s%s", i ? "" : "[", i < marks ? "#" : ".",
			  i + 1 < room ? "" : "]");
}

/* The sum of what the server has of its memory; NULL where it does not tell. */
static const struct stats_value *memory_total(const struct stats_table *t, struct stats_value *sum)
{
	static const char *const parts[] = { "memory_data_bytes", "memory_index_bytes",
					     "memory_directory_bytes" };

	*sum = (struct stats_value){ 0 };
	for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		const struct stats_value *v = stats_find(t, parts[i]);

		if (!v)
			return NULL;
		sum->value += v->value;
	}
	return sum;
}

/* Left what happens in a second, right what the memory is used for. */
static void draw_rates_and_memory(struct frame *f, const struct stats_table *t)
{
	static const char *const rates[][2][2] = {
		{ { "GET", "client_gets" }, { "PUT", "rpc_puts" } },
		{ { "READ", "client_reads" }, { "DEL", "rpc_dels" } },
		{ { "READ/GET", NULL }, { "update", "rpc_updates" } },
		{ { "retry", "client_retries" }, { "RPC GET", "rpc_gets" } },
		{ { "pulled B", "pulled_bytes" }, { "ping", "rpc_pings" } },
		{ { "pushed B", "pushed_bytes" }, { "stats", "rpc_stats" } },
		{ { "expired", "records_expired" }, { "refused", "rpc_refused" } },
	};
	static const struct {
		const char *label, *part, *whole;
	} memory[] = {
		{ "total", NULL, "memory_bytes_max" },
		{ "data", "memory_data_bytes", "memory_bytes_max" },
		{ "index", "memory_index_bytes", "memory_bytes_max" },
		{ "directory", "memory_directory_bytes", "memory_bytes_max" },
		{ "blocks", "memory_block_bytes", "memory_data_bytes" },
		{ "waiting", "memory_slab_bytes_waiting", "memory_data_bytes" },
		{ "deferred", "deferred_bytes", "deferred_bytes_max" },
	};
	double ratio = stats_ratio(stats_find(t, "client_reads"), stats_find(t, "client_gets"));
	struct stats_value sum;
	char text[TEXT_SHORT_MAX];
	uint64_t whole;

	frame_head(f);
	frame_put(f, "per second");
	frame_to(f, RATES_WIDTH);
	frame_put(f, "memory");
	frame_next(f);
	for (unsigned i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		const char *part = memory[i].part;

		for (unsigned k = 0; k < 2; k++) {
			const char *name = rates[i][k][1];

			draw_rate(f, rates[i][k][0],
				  name ? text_rate(text, stats_rate(t, name))
				       : shown_ratio(text, ratio));
		}
		value_of(t, memory[i].whole, &whole);
		draw_memory(f, memory[i].label, part ? stats_find(t, part) : memory_total(t, &sum),
			    whole, i == 0 || i > 3);
		frame_next(f);
	}
}

/* Headings above figures. */
static void draw_columns(struct frame *f, const struct stats_table *t, const struct column *columns)
{
	char text[TEXT_SHORT_MAX];
	uint64_t part, whole;

	gap(f);
	frame_head(f);
	for (const struct column *c = columns; c->heading; c++)
		frame_put(f, "%*s", c->width, c->heading);
	frame_next(f);
	for (const struct column *c = columns; c->heading; c++) {
		const char *figure = shown(text, stats_find(t, c->name), text_number);

		if (c->kind == COLUMN_BYTES)
			figure = shown(text, stats_find(t, c->name), text_bytes);
		if (c->kind == COLUMN_RATE)
			figure = text_rate(text, stats_rate(t, c->name));
		if (c->kind == COLUMN_FILL)
			figure = value_of(t, "records", &part) && value_of(t, c->name, &whole)
					 ? shown_percent(text, part, whole)
					 : "-";
		frame_put(f, "%*s", c->width, figure);
	}
	frame_next(f);
}

static const struct column growth_columns[] = {
	{ "records", 8, "records", COLUMN_NUMBER },
	{ "slots", 8, "index_slots", COLUMN_NUMBER },
	{ "fill", 6, "index_slots", COLUMN_FILL },
	{ "segments", 9, "index_segments", COLUMN_NUMBER },
	{ "overflow", 9, "index_overflow_buckets", COLUMN_NUMBER },
	{ "splits", 8, "index_splits", COLUMN_NUMBER },
	{ "/s", 6, "index_splits", COLUMN_RATE },
	{ "merges", 7, "index_merges", COLUMN_NUMBER },
	{ "/s", 6, "index_merges", COLUMN_RATE },
	{ "double", 7, "index_doublings", COLUMN_NUMBER },
	{ "/s", 6, "index_doublings", COLUMN_RATE },
	{ 0 },
};

static const struct column session_columns[] = {
	{ "sessions", 8, "sessions", COLUMN_NUMBER },
	{ "resumed", 8, "sessions_resumed", COLUMN_NUMBER },
	{ "refused", 8, "connections_refused", COLUMN_NUMBER },
	{ "fenced: silent", 19, "sessions_fenced_silent", COLUMN_NUMBER },
	{ "stuck", 7, "sessions_fenced_stuck", COLUMN_NUMBER },
	{ "protocol", 9, "sessions_fenced_protocol", COLUMN_NUMBER },
	{ "queue pairs", 13, "queue_pairs", COLUMN_NUMBER },
	{ 0 },
};

static const struct column log_columns[] = {
	{ "log B/s", 8, "log_position", COLUMN_RATE },
	{ "records/s", 11, "log_records", COLUMN_RATE },
	{ "syncs/s", 9, "log_syncs", COLUMN_RATE },
	{ "p50 us", 8, "log_sync_us_p50", COLUMN_NUMBER },
	{ "p99 us", 8, "log_sync_us_p99", COLUMN_NUMBER },
	{ "pending", 9, "log_pending_bytes", COLUMN_BYTES },
	{ "on disk", 9, "log_bytes", COLUMN_BYTES },
	{ "refused", 9, "log_refused_space", COLUMN_NUMBER },
	{ "snapshots", 11, "snapshots", COLUMN_NUMBER },
	{ 0 },
};

enum { SESSION_PID, SESSION_GETS, SESSION_READS, SESSION_LAG, SESSION_DEFERRED, SESSION_FENCES };
enum { CLASS_SLABS, CLASS_USED, CLASS_FREE };

static void draw_session(struct frame *f, const struct stats_table *t, const struct stats_row *s)
{
	char a[TEXT_SHORT_MAX], b[TEXT_SHORT_MAX], c[TEXT_SHORT_MAX], d[TEXT_SHORT_MAX],
		e[TEXT_SHORT_MAX], pid[24] = "-";

	if (s->field[SESSION_PID])
		snprintf(pid, sizeof(pid), "%" PRIu64, s->field[SESSION_PID]->value);
	frame_put(f, "%7" PRIu64 "%8s%7s%9s", s->number, pid,
		  text_rate(a, stats_rate_of(t, s->field[SESSION_GETS])),
		  shown_ratio(b, stats_ratio(s->field[SESSION_READS], s->field[SESSION_GETS])));
	frame_put(f, "%6s%7s%6s", shown(c, s->field[SESSION_LAG], text_number),
		  shown(d, s->field[SESSION_DEFERRED], text_bytes),
		  shown(e, s->field[SESSION_FENCES], text_number));
}

static void draw_class(struct frame *f, const struct stats_row *s)
{
	char a[TEXT_SHORT_MAX], b[TEXT_SHORT_MAX], c[TEXT_SHORT_MAX], fill[TEXT_SHORT_MAX];
	const struct stats_value *used = s->field[CLASS_USED], *unused = s->field[CLASS_FREE];
	uint64_t all = used && unused ? used->value + unused->value : 0;

	frame_to(f, CLASSES_AT);
	frame_put(f, "%6" PRIu64 "%6s%6s%6s%5s", s->number,
		  shown(a, s->field[CLASS_SLABS], text_number), shown(b, used, text_number),
		  shown(c, unused, text_number),
		  used ? shown_percent(fill, used->value, all) : "-");
}

/* The first @count rows that fit @room lines; *@more: how many are left out, if any. */
static size_t rows_that_fit(size_t count, size_t room, size_t *more)
{
	size_t fit = count <= room ? count : room ? room - 1 : 0;

	*more = count - fit;
	return fit;
}

static void draw_tables(struct frame *f, const struct stats_table *t,
			const struct stats_row *sessions, size_t session_count,
			const struct stats_row *classes, size_t class_count)
{
	size_t room, sessions_fit, classes_fit, sessions_more, classes_more;

	gap(f);
	frame_head(f);
	frame_put(f, "%7s%8s%7s%9s%6s%7s%6s", "session", "pid", "GET/s", "READ/GET", "lag", "defer",
		  "fence");
	frame_to(f, CLASSES_AT);
	frame_put(f, "%6s%6s%6s%6s%5s", "block", "slabs", "used", "free", "fill");
	frame_next(f);
	room = frame_left(f);
	sessions_fit = rows_that_fit(session_count, room, &sessions_more);
	classes_fit = rows_that_fit(class_count, room, &classes_more);
	for (size_t i = 0; i < room; i++) {
		if (i < sessions_fit)
			draw_session(f, t, &sessions[i]);
		else if (i == sessions_fit && sessions_more)
			frame_put(f, "    ... %zu more", sessions_more);
		if (i < classes_fit) {
			draw_class(f, &classes[i]);
		} else if (i == classes_fit && classes_more) {
			frame_to(f, CLASSES_AT);
			frame_put(f, "   ... %zu more", classes_more);
		}
		if (!f->open)
			break;
		frame_next(f);
	}
}

/* Sessions at work come first, then those that hold memory back, then the oldest. */
static int by_work(const void *a, const void *b)
{
	const struct stats_row *x = a, *y = b;
	const int order[] = { SESSION_GETS, SESSION_DEFERRED };

	for (unsigned i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		const struct stats_value *v = x->field[order[i]], *w = y->field[order[i]];
		uint64_t p = v ? v->value : 0, q = w ? w->value : 0;

		if (order[i] == SESSION_GETS) {
			p = v && v->compared ? v->value - v->before : 0;
			q = w && w->compared ? w->value - w->before : 0;
		}
		if (p != q)
			return p > q ? -1 : 1;
	}
	return x->number < y->number ? -1 : x->number > y->number;
}

/* What takes most memory comes first: slabs are of one size. */
static int by_slabs(const void *a, const void *b)
{
	const struct stats_row *x = a, *y = b;
	uint64_t p = x->field[CLASS_SLABS] ? x->field[CLASS_SLABS]->value : 0;
	uint64_t q = y->field[CLASS_SLABS] ? y->field[CLASS_SLABS]->value : 0;

	if (p != q)
		return p > q ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

int view_draw(struct frame *f, const struct view *v, const struct stats_table *t)
{
	static const char *const of_session[] = { "pid",       "gets",		 "reads",
						  "epoch_lag", "deferred_bytes", "fences",
						  NULL };
	static const char *const of_class[] = { "slabs", "used", "free", NULL };
	autofree struct stats_row *sessions = NULL, *classes = NULL;
	size_t session_count, class_count;
	int rc = stats_rows(t, "session_", of_session, &sessions, &session_count);

	if (rc == 0)
		rc = stats_rows(t, "class_", of_class, &classes, &class_count);
	if (rc)
		return rc;
	qsort(sessions, session_count, sizeof(*sessions), by_work);
	qsort(classes, class_count, sizeof(*classes), by_slabs);
	draw_head(f, v, t);
	gap(f);
	draw_rates_and_memory(f, t);
	draw_columns(f, t, growth_columns);
	draw_columns(f, t, session_columns);
	if (stats_find(t, "log_position")) /* it has a data directory */
		draw_columns(f, t, log_columns);
	draw_tables(f, t, sessions, session_count, classes, class_count);
	return frame_end(f);
}
