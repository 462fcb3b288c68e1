/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tests/unit/log/writing.h"

#define VALUE_BYTES (17u << 20)

static const uint64_t store_id[2] = { 7, 8 };
static uint8_t *values; /* VALUE_BYTES: a value begins at its record's count */

uint64_t writing_clock(void *ctx)
{
	return time_wall_ms();
}

void writing_failed(void *ctx, const char *why)
{
	struct writing *w = ctx;

	snprintf(w->why, sizeof(w->why), "%s", why);
	atomic_fetch_add(&w->failures, 1);
}

void writing_disk(struct writing *w)
{
	*w = (struct writing){ .disk = sim_disk_create(4096) };
	w->io = sim_disk_io(w->disk);
	assert_ok(w->io->make_dir(w->io->ctx, "log"));
	assert_ok(w->io->sync_dir(w->io->ctx, ""));
}

static void make_values(void)
{
	uint64_t seed = 11;

	if (values)
		return;
	values = malloc(VALUE_BYTES);
	assert_non_null(values);
	for (uint64_t *v = (uint64_t *)values; (uint8_t *)v < values + VALUE_BYTES; v++)
		*v = unit_random(&seed);
}

static void open_log(struct writing *w, enum log_sync sync, unsigned sync_ms, uint64_t first,
		     const struct log_mirror *mirror)
{
	const struct log_config config = {
		.io = w->io,
		.mirror = mirror,
		.sync = sync,
		.sync_ms = sync_ms,
		.segment_bytes = LOG_SEGMENT_MIN,
		.ring_bytes = 36 * MIB,
		.store = { store_id[0], store_id[1] },
		.life = 3,
		.first = first,
		.clock_ms = writing_clock,
		.failed = writing_failed,
		.ctx = w,
	};
	struct error err = { 0 };

	make_values();
	if (log_open(&w->log, &config, &err))
		fail_msg("%s", err.text);
}

void writing_open(struct writing *w, enum log_sync sync, unsigned sync_ms, uint64_t first)
{
	open_log(w, sync, sync_ms, first, NULL);
}

void writing_open_mirrored(struct writing *w, enum log_sync sync, unsigned sync_ms,
			   const struct log_mirror *mirror)
{
	open_log(w, sync, sync_ms, 0, mirror);
}

void writing_over(struct writing *w, int rc)
{
	assert_int_equal(log_close(w->log), rc);
	sim_disk_destroy(w->disk);
}

static const uint8_t *value_of(uint64_t count)
{
	return values + count % 4096 * 8;
}

int try_put(struct log *l, unsigned writer, uint64_t count, uint32_t value_len, uint64_t *end)
{
	char key[32];
	struct log_entry e = {
		.kind = LOG_PUT,
		.version = count + 1,
		.client = { 1, writer },
		.sequence = count,
		.number = -1,
		.expiry_ms = 12,
		.handle = 3,
		.slot = 4,
		.key = key,
		.value = value_of(count),
		.key_len = (uint32_t)snprintf(key, sizeof(key), "key %u", writer),
		.value_len = value_len,
	};
	const struct hash_piece pieces[2] = { { key, e.key_len }, { e.value, e.value_len } };
	struct log_place at;
	int rc = log_append_begin(l, e.key_len, e.value_len, &at);

	if (rc)
		return rc;
	assert_int_equal(at.end - at.start, log_record_length(e.key_len, e.value_len));
	e.body = hash_pieces(pieces, 2);
	log_append_end(l, &at, &e);
	*end = at.end;
	return 0;
}

int try_append(struct log *l, unsigned writer, uint64_t count, uint32_t value_len, uint64_t *end)
{
	int rc = try_put(l, writer, count, value_len, end);

	if (rc == 0)
		log_kick(l);
	return rc;
}

uint64_t append(struct log *l, unsigned writer, uint64_t count, uint32_t value_len)
{
	const uint64_t until_ns = time_now_ns() + LONG_TIME_NS;
	uint64_t end = 0;
	int rc;

	while ((rc = try_append(l, writer, count, value_len, &end)) == -EBUSY &&
	       time_now_ns() < until_ns)
		time_sleep(20000);
	assert_int_equal(rc, 0);
	return end;
}

void await_committed(struct log *l, uint64_t position)
{
	const uint64_t until_ns = time_now_ns() + LONG_TIME_NS;

	while (log_committed(l) < position && time_now_ns() < until_ns)
		time_sleep(20000);
	assert_true(log_committed(l) >= position);
}

static int each(void *ctx, const struct log_record *r)
{
	uint64_t *counts = ctx;

	assert_int_equal(r->kind, LOG_PUT);
	assert_int_equal(r->client[0], 1);
	assert_true(r->client[1] < WRITERS);
	assert_int_equal(r->sequence, counts[r->client[1]]);
	assert_int_equal(r->version, r->sequence + 1);
	assert_int_equal(r->number, -1);
	assert_int_equal(r->expiry_ms, 12);
	assert_int_equal(r->handle, 3);
	assert_int_equal(r->slot, 4);
	assert_memory_equal(r->data + r->key_len, value_of(r->sequence), r->value_len);
	counts[r->client[1]]++;
	return 0;
}

void read_back(const struct log_io *io, uint64_t from, uint64_t counts[WRITERS])
{
	const struct log_reader reader = { .each = each, .ctx = counts };
	struct log_survey s;
	struct error err = { 0 };

	memset(counts, 0, WRITERS * sizeof(*counts));
	if (log_survey_make(&s, io, store_id, &err))
		fail_msg("%s", err.text);
	if (log_read(&s, io, from, s.end, &reader, &err))
		fail_msg("%s", err.text);
	assert_null(s.end_why);
	log_survey_free(&s);
}
