/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tests/linearizability/client/actor.h"

#include <errno.h>
#include <stdlib.h>

#define PLACE(a, i) ((char *)(a)->places + (size_t)(i)*VALUE_BYTES_MAX)

int actor_create(struct actor *a, const char *folder, struct error *err)
{
	a->places = aligned_alloc(4096, (size_t)ACTOR_PLACES * VALUE_BYTES_MAX);
	if (!a->places)
		return error_set(err, -ENOMEM, "out of memory");
	a->call.place = PLACE(a, 0);
	for (unsigned i = 0; i < ACTOR_BATCH; i++)
		a->batch[i].place = PLACE(a, 1 + i);
	for (unsigned i = 0; i < ACTOR_LANES; i++)
		a->flight[i].place = PLACE(a, 1 + ACTOR_BATCH + i);
	return recorder_open(&a->recorder, folder, a->process, a->thread, err);
}

void actor_destroy(struct actor *a)
{
	recorder_close(&a->recorder);
	free(a->places);
}

void actor_step(struct actor *a)
{
	switch (actor_below(a, 8)) {
	case 0:
		batch_step(a);
		break;
	case 1:
	case 2:
		flight_step(a);
		break;
	default:
		call_step(a);
	}
	if (a->done >= 64) {
		board_count(&a->board->operations, a->done);
		a->done = 0;
	}
}

void actor_finish(struct actor *a, bool drain)
{
	if (drain)
		flight_drain(a);
	board_count(&a->board->operations, a->done);
	a->done = 0;
}

/* Writes among them were applied, or will be, or not; a read has told nobody anything. */
void actor_abandon(struct actor *a)
{
	for (unsigned i = 0; i < ACTOR_LANES; i++) {
		struct attempt *d = &a->flight[i];

		if (d->record)
			actor_ends(a, d, -ETIMEDOUT, NULL, 0, 0, 0, "its handle was closed");
	}
	a->flights = 0;
}
