/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* What both programs do. */
#include "tools/kv-bw-lat/main.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "tools/kv-bw-lat/perf.h"

static struct perf perf;

static void choose_name(struct perf *p)
{
	if (p->o.name)
		snprintf(p->name, sizeof(p->name), "%s", p->o.name);
	else /* runs side by side have keys of their own */
		snprintf(p->name, sizeof(p->name), "%s%05x", p->o.latency ? "lat" : "bw",
			 (unsigned)(bench_random(&(uint64_t){ time_wall_ns() ^ (uint64_t)getpid()
										       << 40 }) &
				    0xfffff));
}

/* A size from its beginning to its end. Returns 0 or an errno with p->error. */
static int one_size(struct perf *p, uint64_t size)
{
	struct perf_result *r = &p->result[p->results];
	struct error why;
	int rc = perf_keys_load(p, size), left;

	if (rc == 0 && !stop_wanted())
		rc = perf_measure(p, r);
	if (rc == 0 && r->op.ops) {
		if (!p->o.json)
			perf_table_row(p, r);
		if (p->o.unsorted && (p->o.json || p->o.json_file))
			r->kept = perf_json_kept(p);
		p->results++;
	}
	perf_release_handles(p);
	why = p->error;
	left = perf_keys_unload(p, rc);
	if (left && rc == 0)
		return left;
	p->error = why;
	if (left)
		error_set(&p->error, why.code, "%.400s; records named %s.%" PRIu64 ".* may be left",
			  why.text, p->name, size);
	return rc;
}

static int all_sizes(struct perf *p)
{
	int rc = 0;

	for (unsigned i = 0; i < p->o.sizes && rc == 0 && !stop_wanted(); i++) {
		rc = one_size(p, p->o.size[i]);
		if (ferror(stdout)) /* nobody reads on: head -1 */
			break;
	}
	return rc;
}

static int write_file(const struct perf *p, const json_t *doc)
{
	const char *name = p->o.json_file;
	FILE *out = fopen(name, "w");
	int bad;

	if (!out)
		return program_failed(perf_program(&p->o), name, error_name(errno));
	json_dumpf(doc, out, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
	fputc('\n', out);
	bad = ferror(out);
	if (fclose(out) || bad)
		return program_failed(perf_program(&p->o), name, "what was written is cut off");
	return 0;
}

/* The document, to where it is wanted. Returns an exit status. */
static int report(const struct perf *p)
{
	json_t *doc;
	int status = 0;

	if (!p->o.json && !p->o.json_file)
		return 0;
	doc = perf_json(p);
	if (!doc)
		return program_failed(perf_program(&p->o), "the report", "no memory");
	if (p->o.json_file)
		status = write_file(p, doc);
	if (p->o.json)
		program_print(doc, JSON_INDENT(2));
	else
		json_decref(doc);
	return status;
}

/* Before what takes long. */
static int check_file(const struct perf *p)
{
	FILE *out = p->o.json_file ? fopen(p->o.json_file, "a") : NULL;

	if (p->o.json_file && !out)
		return program_failed(perf_program(&p->o), p->o.json_file, error_name(errno));
	if (out)
		fclose(out);
	return 0;
}

static int run(struct perf *p)
{
	const struct program *program = perf_program(&p->o);
	int rc, status;

	if (check_file(p))
		return 3;
	rc = perf_connect(p);
	if (rc)
		return program_failed(program, "connecting", p->error.text);
	p->result = calloc(p->o.sizes, sizeof(*p->result));
	rc = p->result ? perf_threads_start(p) : -ENOMEM;
	if (rc)
		return program_failed(program, "starting", p->result ? p->error.text : "no memory");
	if (!p->o.json)
		perf_table_head(p);
	rc = all_sizes(p);
	p->complete = p->results == p->o.sizes && !stop_wanted();
	if (!p->o.json)
		perf_table_end(p);
	status = rc == 0 || p->results ? report(p) : 0;
	if (rc)
		return program_failed(program, "measuring", p->error.text);
	if (stop_wanted())
		return program_failed(program, "interrupted",
				      "what was measured by then is told, the records are deleted");
	return status;
}

int perf_main(bool latency, int argc, char **argv)
{
	int status;

	if (perf_options(latency, argc, argv, &perf.o, &status))
		return status;
	log_setup(perf_program(&perf.o)->name, LOG_WARN, LOG_TEXT);
	ticks_init();
	if (perf.o.cycles && !ticks.cycles)
		return program_failed(perf_program(&perf.o), "-C",
				      "this CPU's time stamp counter does not count at one rate "
				      "(constant_tsc and nonstop_tsc in /proc/cpuinfo)");
	stop_listen(); /* the records have to be deleted */
	choose_name(&perf);
	status = run(&perf);
	perf_threads_stop(&perf);
	perf_disconnect(&perf);
	for (unsigned i = 0; i < perf.results; i++)
		json_decref(perf.result[i].kept);
	free(perf.result);
	return program_end(perf_program(&perf.o), status);
}
