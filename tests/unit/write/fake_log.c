/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tests/unit/write/fake_log.h"

#include <string.h>
#include <sys/eventfd.h>

#include "common/layout/meta_format.h"
#include "tests/lib/unit.h"

struct fake_log fake_log;

void fake_log_open(struct store *s)
{
	memset(&fake_log, 0, sizeof(fake_log));
	fake_log.tail = fake_log.committed = 1000;
	assert_ok(store_log_open(s, (struct log *)&fake_log, life_first(1)));
}

void fake_log_commit(void)
{
	fake_log.committed = fake_log.tail;
	if (fake_log.waiter && fake_log.waiter->wants <= fake_log.committed)
		eventfd_write(fake_log.waiter->fd, 1);
}

static _Thread_local unsigned number; /* of the record that this thread has begun */

int log_append_begin(struct log *l, uint32_t key_len, uint32_t value_len, struct log_place *out)
{
	const uint32_t length = log_record_length(key_len, value_len);

	if (fake_log.error)
		return fake_log.error;
	out->start = atomic_fetch_add(&fake_log.tail, length);
	out->end = out->start + length;
	number = atomic_fetch_add(&fake_log.records, 1);
	assert_true(number < FAKE_LOG_MAX);
	return 0;
}

void log_append_end(struct log *l, const struct log_place *at, const struct log_entry *e)
{
	struct fake_record *r = &fake_log.record[number];

	r->place = *at;
	r->entry = *e;
	r->filled = true;
}

void log_kick(struct log *l)
{
	fake_log.kicks++;
}

void log_push(struct log *l)
{
	log_kick(l);
}

void log_step(struct log *l)
{
}

uint64_t log_leave(struct log *l, bool waits)
{
	return UINT64_MAX;
}

uint64_t log_tail(const struct log *l)
{
	return fake_log.tail;
}

uint64_t log_committed(const struct log *l)
{
	return fake_log.committed;
}

bool log_has_failed(const struct log *l)
{
	return fake_log.failed;
}

void log_wait_join(struct log *l, struct log_waiter *w)
{
	fake_log.waiter = w;
}

void log_wait_leave(struct log *l, struct log_waiter *w)
{
	fake_log.waiter = NULL;
}

bool log_wait_arm(struct log *l, struct log_waiter *w, uint64_t position)
{
	w->wants = position;
	return fake_log.committed < position && !fake_log.failed;
}

void log_wait_disarm(struct log_waiter *w)
{
	w->wants = UINT64_MAX;
}
