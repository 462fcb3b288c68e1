/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Operations in flight on the handle with hints, beside its calls. */
#include <errno.h>

#include "tests/linearizability/client/actor.h"

#define WAIT_MS	   50u
#define WAITS_MAX  2000u /* all operations have ended long before, by the session's time-out */
#define CANCEL_ONE 40u /* of so many */

static unsigned op_of(const struct attempt *d)
{
	switch (d->as.op) {
	case HISTORY_GET:
		return GKV_OP_GET;
	case HISTORY_EXISTS:
		return GKV_OP_EXISTS;
	case HISTORY_DEL:
	case HISTORY_DEL_IF:
		return GKV_OP_DEL;
	case HISTORY_INCR:
		return GKV_OP_INCR;
	case HISTORY_APPEND:
		return GKV_OP_APPEND;
	default:
		return GKV_OP_PUT;
	}
}

static void submit(struct actor *a, struct attempt *d)
{
	struct gkv_request q;

	q = (struct gkv_request){ .op = op_of(d),
				  .key = d->key,
				  .key_len = d->key_len,
				  .options = attempt_options(d),
				  .delta = d->delta,
				  .user = d };
	if (q.op == GKV_OP_GET || q.op == GKV_OP_PUT || q.op == GKV_OP_APPEND) {
		q.value = d->place;
		q.len = q.op == GKV_OP_GET ? VALUE_BYTES_MAX : d->len;
		q.memory = q.op == GKV_OP_GET && actor_below(a, 2) ? a->memory : NULL;
	}
	if (actor_below(a, 50) == 0)
		q.timeout_ms = 1 + (unsigned)actor_below(a, 5);
	actor_begins(a, d, HISTORY_FLIGHT);
	a->flights++;
	/* its depth is the number of lanes: there is room */
	if (gkv_submit(a->kv, &q, 1) != 1)
		actor_ends(a, d, -ENOTRECOVERABLE, NULL, 0, 0, 0, "gkv_submit() has no room");
}

static void land(struct actor *a, unsigned wait_ms)
{
	struct gkv_completion c[ACTOR_LANES];
	int n = wait_ms ? gkv_wait(a->kv, c, ACTOR_LANES, wait_ms)
			: gkv_poll(a->kv, c, ACTOR_LANES);

	for (int i = 0; i < n; i++) {
		struct attempt *d = c[i].user;

		actor_ends(a, d, c[i].status, d->place, c[i].len, c[i].meta.version, c[i].sum,
			   gkv_error(a->kv));
		a->flights--;
	}
}

void flight_step(struct actor *a)
{
	unsigned more = (unsigned)actor_below(a, ACTOR_LANES + 1);

	for (unsigned i = 0; i < ACTOR_LANES && more; i++) {
		struct attempt *d = &a->flight[i];

		if (d->record)
			continue;
		attempt_choose(a, d, ATTEMPT_FLIGHT);
		submit(a, d);
		more--;
	}
	if (a->flights && actor_below(a, CANCEL_ONE) == 0)
		gkv_cancel(a->kv, &a->flight[actor_below(a, ACTOR_LANES)]); /* in flight or not */
	land(a, actor_below(a, 2) ? 1 : 0);
}

void flight_drain(struct actor *a)
{
	for (unsigned i = 0; a->flights && i < WAITS_MAX; i++)
		land(a, WAIT_MS);
}
