/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include <inttypes.h>
#include <stdio.h>

#include "client/src/link/device.h"
#include "common/base/table.h"
#include "common/base/time.h"
#include "tests/performance/grace_bench.h"
#include "tools/lib/samples.h"

#define RATE_PROMISED	  0.95 /* beside a stopped client, of the rate without */
#define FENCE_PROMISED	  1.10 /* leases, at most */
#define MESSAGES_PROMISED 10.0 /* below, in LEASE_PROMISED; others in proportion */
#define LEASE_PROMISED	  1000.0 /* ms, a second */

struct figures {
	struct spread rate[2], ratio, fence, silent, back; /* of part stop */
	double rate_ratio;
	struct spread puts[2]; /* of part cap */
	double deferred_share;
	double idle_rate, idle_rounds, idle_promised;
	struct spread get_ns[2], get_ratio;
	double reads[2], messages;
	uint64_t errors;
	bool kept_rate, kept_fence, kept_cap, kept_idle, kept_cost, kept;
};

static double share(double n, double of)
{
	return of > 0 ? n / of : 0;
}

static void judge(const struct grace_bench *b, struct figures *f)
{
	const struct grace_cost *cost = b->shared->cost;
	double lease = (double)b->o.lease_ms;

	f->errors = grace_errors(b);
	f->idle_promised = MESSAGES_PROMISED * LEASE_PROMISED / lease;
	f->kept_rate = f->rate_ratio >= RATE_PROMISED && f->errors == 0;
	f->kept_fence = f->silent.min >= lease && f->fence.max <= FENCE_PROMISED * lease;
	/* without fences nobody was in the way, and nothing is shown */
	f->kept_cap = f->deferred_share < 1 && b->cap.fences && b->cap.least_puts && f->errors == 0;
	f->kept_idle = f->idle_rate > 0 && f->idle_rate < f->idle_promised &&
		       b->shared->idle.reads == 0 && b->rpcs == 0;
	f->kept_cost = cost[0].gets && cost[0].gets == cost[1].gets &&
		       cost[0].reads == cost[1].reads && cost[0].messages && !cost[1].messages &&
		       !cost[0].reconnects && !cost[1].reconnects;
	f->kept = f->kept_rate && f->kept_fence && f->kept_cap && f->kept_idle && f->kept_cost;
}

static void work_out(struct grace_bench *b, struct figures *f)
{
	struct grace_cost *cost = b->shared->cost;
	const struct grace_idle *idle = &b->shared->idle;
	double ratio[GRACE_ROUNDS_MAX];

	f->get_ratio = samples_ratios(cost[0].ns, cost[1].ns, ratio, b->o.rounds);
	for (unsigned i = 0; i < 2; i++) {
		f->rate[i] = samples_spread(b->stop.slice[i], b->stop.slices[i]);
		f->puts[i] = samples_spread(b->cap.rate[i], b->cap.rounds);
		f->get_ns[i] = samples_spread(cost[i].ns, b->o.rounds);
		f->reads[i] = share((double)cost[i].reads, (double)cost[i].gets);
	}
	f->ratio = samples_spread(b->stop.ratio, b->stop.rounds);
	f->fence = samples_spread(b->stop.fence_ms, b->stop.rounds);
	f->silent = samples_spread(b->stop.silent_ms, b->stop.rounds);
	f->back = samples_spread(b->stop.back_ms, b->stop.rounds);
	f->rate_ratio = share(f->rate[1].median, f->rate[0].median);
	f->deferred_share = share((double)b->cap.deferred_most[1], (double)b->cap.deferred_max);
	f->idle_rate = share((double)idle->messages * 1e9, (double)idle->span_ns);
	f->idle_rounds = share((double)idle->rounds * 1e9, (double)idle->span_ns);
	f->messages = share((double)cost[0].messages, (double)cost[0].gets);
	judge(b, f);
}

static void row(struct table *t, const char *name, const struct spread *s, double unit)
{
	table_cell(t, "%s", name);
	table_cell(t, "%.1f", s->min / unit);
	table_cell(t, "%.1f", s->median / unit);
	table_cell(t, "%.1f", s->max / unit);
}

static void print_rows(const struct grace_bench *b, const struct figures *f)
{
	static const char *const head[] = { "what", ">min", ">median", ">max", NULL };
	struct table *t = table_new(head);

	row(t, "others' Kops/s, nobody stopped", &f->rate[0], 1e3);
	row(t, "others' Kops/s, one stopped", &f->rate[1], 1e3);
	row(t, "ms from SIGSTOP to the fence", &f->fence, 1);
	row(t, "ms from a beat to the fence", &f->silent, 1);
	row(t, "ms from SIGCONT to work again", &f->back, 1);
	row(t, "KPUT/s, nobody stuck", &f->puts[0], 1e3);
	row(t, "KPUT/s, two stuck", &f->puts[1], 1e3);
	row(t, "ns a GET, housekeeper at work", &f->get_ns[0], 1);
	row(t, "ns a GET, housekeeper at rest", &f->get_ns[1], 1);
	table_print(t, stdout);
	printf("\n%zu and %zu slices of %" PRIu64 " ms, %" PRIu64 " rounds of each kind\n",
	       b->stop.slices[0], b->stop.slices[1], b->o.slice_ms, b->o.rounds);
}

static const char *word(bool kept)
{
	return kept ? "kept" : "NOT KEPT";
}

static void print_table(const struct grace_bench *b, const struct figures *f)
{
	const struct grace_cap *c = &b->cap;
	const struct grace_cost *cost = b->shared->cost;

	printf("grace-bench %s, device %s, %" PRIu64 " clients at work, %" PRIu64
	       " keys, values of %" PRIu64 " B, %" PRIu64 " %% PUTs, lease %" PRIu64 " ms\n\n",
	       GRACEKV_VERSION, b->session->device->rdma->name, b->o.workers, b->o.keys,
	       b->o.value_len, b->o.puts, b->o.lease_ms);
	print_rows(b, f);
	printf("\nrate, one stopped / nobody   %.3f  (promised: at least %.2f; by rounds %.3f to "
	       "%.3f): %s\n",
	       f->rate_ratio, RATE_PROMISED, f->ratio.min, f->ratio.max, word(f->kept_rate));
	printf("leases until fenced          %.3f to %.3f  (promised: at most %.2f, from a beat at "
	       "least 1; %.3f): %s\n",
	       share(f->fence.min, (double)b->o.lease_ms),
	       share(f->fence.max, (double)b->o.lease_ms), FENCE_PROMISED,
	       share(f->silent.min, (double)b->o.lease_ms), word(f->kept_fence));
	printf("deferred, most / limit       %.3f of %.1f MB  (promised: below 1; %.3f with nobody "
	       "stuck): %s\n",
	       f->deferred_share, (double)c->deferred_max / 1e6,
	       share((double)c->deferred_most[0], (double)c->deferred_max), word(f->kept_cap));
	printf("  %" PRIu64 " fences of stuck sessions, %" PRIu64 " PUTs told to come again, the "
	       "slowest PUT took %.0f ms (%.0f with nobody stuck)\n",
	       c->fences, c->refused, (double)c->longest_ns[1] / 1e6,
	       (double)c->longest_ns[0] / 1e6);
	printf("messages a second, idle      %.2f in %.2f rounds, %u handles  (promised: below "
	       "%.0f): %s\n",
	       f->idle_rate, f->idle_rounds, GRACE_HANDLES, f->idle_promised, word(f->kept_idle));
	printf("READs per GET                %.6f, housekeeper at rest %.6f  (promised: the same): "
	       "%s\n",
	       f->reads[0], f->reads[1], word(f->kept_cost));
	printf("  %" PRIu64 " GETs each; messages per GET %.6f, of which the housekeeper's %.6f "
	       "(%" PRIu64 " rounds)\n",
	       cost[0].gets, f->reads[0] + f->messages, f->messages, cost[0].rounds);
	printf("  time of a GET, at work / at rest %.3f (%.3f to %.3f)\n", f->get_ratio.median,
	       f->get_ratio.min, f->get_ratio.max);
	printf("calls that failed            %" PRIu64 "\n", f->errors);
	if (b->session->device->rdma->software)
		puts("\nsoft0 is a software stand-in: these are memory copies and our code, not RDMA.");
}

static json_t *stop_json(const struct grace_bench *b, const struct figures *f)
{
	return json_pack("{s:o, s:o, s:f, s:o, s:o, s:o, s:o, s:I, s:I, s:b, s:b}",
			 "others_ops_per_s", program_spread(&f->rate[0]),
			 "others_ops_per_s_one_stopped", program_spread(&f->rate[1]), "ratio",
			 f->rate_ratio, "ratio_by_rounds", program_spread(&f->ratio),
			 "fenced_after_ms", program_spread(&f->fence), "fenced_after_beat_ms",
			 program_spread(&f->silent), "back_after_ms", program_spread(&f->back),
			 "slices", (json_int_t)b->stop.slices[0], "slices_one_stopped",
			 (json_int_t)b->stop.slices[1], "kept_rate", f->kept_rate, "kept_fence",
			 f->kept_fence);
}

static json_t *cap_json(const struct grace_bench *b, const struct figures *f)
{
	const struct grace_cap *c = &b->cap;

	return json_pack(
		"{s:o, s:o, s:I, s:I, s:I, s:f, s:I, s:I, s:I, s:f, s:f, s:b}", "puts_per_s",
		program_spread(&f->puts[0]), "puts_per_s_two_stuck", program_spread(&f->puts[1]),
		"deferred_bytes_max", (json_int_t)c->deferred_max, "deferred_bytes_most",
		(json_int_t)c->deferred_most[1], "deferred_bytes_most_nobody_stuck",
		(json_int_t)c->deferred_most[0], "deferred_share", f->deferred_share, "samples",
		(json_int_t)c->samples[1], "fences", (json_int_t)c->fences, "refused",
		(json_int_t)c->refused, "longest_put_ms", (double)c->longest_ns[0] / 1e6,
		"longest_put_ms_two_stuck", (double)c->longest_ns[1] / 1e6, "kept", f->kept_cap);
}

static json_t *cost_json(const struct grace_bench *b, const struct figures *f)
{
	const struct grace_cost *c = b->shared->cost;

	return json_pack("{s:I, s:f, s:f, s:f, s:I, s:o, s:o, s:o, s:b}", "gets",
			 (json_int_t)c->gets, "reads_per_get", f->reads[0], "reads_per_get_at_rest",
			 f->reads[1], "housekeeper_messages_per_get", f->messages,
			 "housekeeper_rounds", (json_int_t)c->rounds, "get_ns",
			 program_spread(&f->get_ns[0]), "get_ns_at_rest",
			 program_spread(&f->get_ns[1]), "get_ns_ratio",
			 program_spread(&f->get_ratio), "kept", f->kept_cost);
}

static void print_json(const struct grace_bench *b, const struct figures *f)
{
	json_t *doc = program_json(&grace_program);

	json_object_update_new(
		doc,
		json_pack("{s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "device",
			  b->session->device->rdma->name, "software_device",
			  b->session->device->rdma->software, "workers", (json_int_t)b->o.workers,
			  "keys", (json_int_t)b->o.keys, "value_bytes", (json_int_t)b->o.value_len,
			  "puts_percent", (json_int_t)b->o.puts, "lease_ms",
			  (json_int_t)b->o.lease_ms, "rounds", (json_int_t)b->o.rounds, "slice_ms",
			  (json_int_t)b->o.slice_ms));
	json_object_set_new(doc, "stop", stop_json(b, f));
	json_object_set_new(doc, "cap", cap_json(b, f));
	json_object_set_new(doc, "idle",
			    json_pack("{s:i, s:f, s:f, s:I, s:I, s:b}", "handles",
				      (int)GRACE_HANDLES, "messages_per_s", f->idle_rate,
				      "rounds_per_s", f->idle_rounds, "reads",
				      (json_int_t)b->shared->idle.reads, "requests",
				      (json_int_t)b->rpcs, "kept", f->kept_idle));
	json_object_set_new(doc, "cost", cost_json(b, f));
	json_object_set_new(doc, "errors", json_integer((json_int_t)f->errors));
	json_object_set_new(doc, "promises_kept", json_boolean(f->kept));
	program_print(doc, JSON_INDENT(2));
}

int grace_report(struct grace_bench *b)
{
	struct figures f = { 0 };

	work_out(b, &f);
	if (b->o.json)
		print_json(b, &f);
	else
		print_table(b, &f);
	if (!b->o.check || f.kept)
		return 0;
	fprintf(stderr, "grace-bench: a promise is not kept: see the figures\n");
	return 1;
}
