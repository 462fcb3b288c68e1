/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * stats --watch: looks at the server's statistics, at each interval one, and shows each: on a
 * screen the page is drawn over the one before, otherwise pages or documents follow each other.
 *
 * Looks are made by a thread (asker.h), so that keys and signals are heard at once whatever the
 * server does. One that fails is shown too, and the next one connects again by itself. Figures of
 * before are not compared with those after it.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/time.h"
#include "tools/kv-cli/asker.h"
#include "tools/kv-cli/cli.h"
#include "tools/kv-cli/frame.h"
#include "tools/kv-cli/screen.h"
#include "tools/kv-cli/stats_json.h"
#include "tools/kv-cli/stats_table.h"
#include "tools/kv-cli/units.h"
#include "tools/kv-cli/view.h"

#define INTERVAL_MS   1000u
#define LEAVE_MS      200 /* how long an end waits for a look under way */
#define SILENT_NS     (1500 * NS_PER_MS) /* then it is said that no answer comes */
#define PLAIN_COLUMNS 100u

struct watch {
	struct cli *cli;
	struct screen *screen;
	struct asker *asker;
	struct stats_table table;
	struct frame frame;
	char device[48];
	char status[ERROR_TEXT_MAX + 80];
	struct error lost; /* of the last look */
	uint64_t lost_ns; /* since when looks fail */
	uint64_t interval_ns;
	uint64_t asked_ns; /* when the last look began */
	uint64_t next_ns; /* when the next one may */
	uint64_t looks; /* that have ended */
};

/* The server's device, from the words about the connection. */
static void watch_device(struct watch *w)
{
	const char *words = gkv_session_describe(w->cli->session);
	const char *name = words ? strstr(words, "device ") : NULL;
	size_t len;

	name = name ? name + strlen("device ") : "-";
	len = strcspn(name, ",;) ");
	snprintf(w->device, sizeof(w->device), "%.*s", (int)len, name);
}

static bool watch_software(const struct watch *w)
{
	return strncmp(w->device, "soft", 4) == 0;
}

static double seconds_since(uint64_t ns)
{
	return (double)(time_now_ns() - ns) / (double)NS_PER_S;
}

/* The line of words on the page, the most urgent ones. */
static void watch_words(struct watch *w)
{
	const struct stats_value *cut = stats_find(&w->table, "lines_left_out");
	char *text = w->status;
	size_t cap = sizeof(w->status);

	if (w->lost.code)
		snprintf(text, cap, "reconnecting for %.0f s: %s", seconds_since(w->lost_ns),
			 w->lost.text);
	else if (asker_busy(w->asker) && time_now_ns() >= w->asked_ns + SILENT_NS)
		snprintf(text, cap, "reconnecting: no answer for %.0f s",
			 seconds_since(w->asked_ns));
	else if (cut)
		snprintf(text, cap,
			 "%" PRIu64 " lines left out by the server: not all sessions are shown",
			 cut->value);
	else if (w->table.malformed)
		snprintf(text, cap, "%u lines of the server that are no figures were left out",
			 w->table.malformed);
	else if (screen_on(w->screen))
		snprintf(text, cap, "every %g s%s; q leaves", (double)w->interval_ns / NS_PER_S,
			 w->table.seconds > 0 ? "" : ", rates come with the next look");
	else
		units_time(text, time_wall_ms());
}

static int watch_draw(struct watch *w)
{
	const struct view view = { .server = w->cli->server,
				   .device = w->device,
				   .software = watch_software(w),
				   .status = w->status };
	unsigned rows = 0, columns = PLAIN_COLUMNS;
	bool on = screen_on(w->screen);
	int rc;

	watch_words(w);
	if (on)
		screen_size(w->screen, &rows, &columns);
	frame_begin(&w->frame, rows, columns, on);
	if (view_draw(&w->frame, &view, &w->table))
		return cli_error(CLI_FAILED, "stats: no memory");
	if (on) {
		rc = screen_show(w->screen, w->frame.text.data, w->frame.text.len);
		return rc ? cli_error(CLI_FAILED, "writing to the terminal: %s", error_name(rc))
			  : 0;
	}
	cli_write(stdout, w->frame.text.data, w->frame.text.len);
	putchar('\n');
	return cli_flush(stdout, "stdout");
}

static int watch_print_lost(struct watch *w)
{
	char now[UNITS_TIME_MAX];

	watch_words(w);
	printf("%s %s\n\n", units_time(now, time_wall_ms()), w->status);
	return cli_flush(stdout, "stdout");
}

static json_t *watch_document(struct watch *w)
{
	json_t *doc = json_pack("{s:s, s:s, s:b, s:I}", "server", w->cli->server, "device",
				w->device, "software_device", watch_software(w), "time_ms",
				(json_int_t)time_wall_ms());
	int bad;

	if (w->lost.code)
		bad = json_object_set_new(doc, "reconnecting", json_string(w->lost.text));
	else
		bad = json_object_update_new(doc, stats_json(&w->table)) ||
		      json_object_set_new(doc, "interval_s",
					  w->table.seconds > 0 ? json_real(w->table.seconds)
							       : json_null()) ||
		      json_object_set_new(doc, "rates", stats_json_rates(&w->table));
	if (!bad)
		return doc;
	json_decref(doc);
	return NULL;
}

/* A look has ended, well or not: show it. Returns 0 or CLI_FAILED after it printed why. */
static int watch_show(struct watch *w)
{
	int code;

	if (screen_on(w->screen))
		return watch_draw(w);
	screen_let(w->screen); /* a pipe may be full */
	if (w->cli->json)
		code = cli_print_json_line(watch_document(w));
	else
		code = w->lost.code ? watch_print_lost(w) : watch_draw(w);
	screen_hold(w->screen);
	return code;
}

static int watch_answer(struct watch *w)
{
	struct answer answer;
	int rc;

	if (!asker_take(w->asker, &answer))
		return 0;
	if (answer.err.code) {
		if (!w->lost.code)
			w->lost_ns = w->asked_ns;
		stats_table_lose(&w->table);
	} else {
		rc = stats_table_read(&w->table, answer.text, answer.at_ns);
		free(answer.text);
		if (rc)
			return cli_error(CLI_FAILED, "stats: no memory");
	}
	w->lost = answer.err;
	w->looks++;
	return watch_show(w);
}

static void watch_ask(struct watch *w)
{
	uint64_t now = time_now_ns();

	if (asker_busy(w->asker) || now < w->next_ns)
		return;
	w->next_ns += w->interval_ns;
	if (w->next_ns < now) /* the first one, or it took long */
		w->next_ns = now + w->interval_ns;
	w->asked_ns = now;
	asker_ask(w->asker);
}

/* Until it is left, or COUNT looks have ended. Returns enum cli_exit. */
static int watch_loop(struct watch *w)
{
	const uint64_t count = w->cli->given & CLI_COUNT ? w->cli->count : UINT64_MAX;
	int code = 0;

	while (code == 0 && w->looks < count) {
		uint64_t until;

		watch_ask(w);
		until = asker_busy(w->asker) ? time_now_ns() + NS_PER_S : w->next_ns;
		switch (screen_wait(w->screen, asker_fd(w->asker), until)) {
		case SCREEN_READY:
			code = watch_answer(w);
			break;
		case SCREEN_TIME:
			/* how long no answer has come */
			if (screen_on(w->screen) && asker_busy(w->asker))
				code = watch_draw(w);
			break;
		case SCREEN_REDRAW:
			code = watch_draw(w);
			break;
		case SCREEN_LEFT:
			return CLI_OK;
		}
	}
	return code;
}

/* The terminal first; then what waits for the server. Returns enum cli_exit. */
static int watch_end(struct watch *w, int code)
{
	bool ran_out = code == 0 && w->cli->given & CLI_COUNT && w->looks == w->cli->count;
	int number = screen_close(w->screen);
	bool stopped;

	if (ran_out && w->lost.code)
		code = cli_error(CLI_FAILED, "stats: %s", w->lost.text);
	frame_free(&w->frame);
	stats_table_free(&w->table);
	stopped = asker_stop(w->asker, LEAVE_MS);
	if (number == SIGINT && !w->cli->shell)
		number = 0;
	/* the handle is the thread's until its call ends: a line of the prompt has to wait for
	 * that, a process of its own need not */
	if (!stopped && !number && !w->cli->shell)
		_exit(code);
	if (number)
		raise(number);
	if (!stopped)
		asker_stop(w->asker, -1);
	return code;
}

int cli_watch(struct cli *cli)
{
	struct watch w = { .cli = cli };
	int rc;

	w.interval_ns = (cli->given & CLI_INTERVAL ? cli->interval_ms : INTERVAL_MS) * NS_PER_MS;
	if (cli_connect(cli))
		return CLI_FAILED;
	watch_device(&w);
	rc = asker_start(&w.asker, cli->handle);
	if (rc)
		return cli_error(CLI_FAILED, "stats --watch: no thread: %s", error_name(rc));
	rc = screen_open(&w.screen, !cli->json);
	if (rc) {
		asker_stop(w.asker, -1);
		return cli_error(CLI_FAILED, "stats --watch: no terminal: %s", error_name(rc));
	}
	return watch_end(&w, watch_loop(&w));
}
