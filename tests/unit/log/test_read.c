/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Where a log ends, and what of it is corrupt, on segments that the test writes by hand. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mutant.h"
#include "tests/unit/log/segments.h"

#define LONG_FILE (4u << 20)

static struct sim_disk *d;
static struct found found;
static struct error err;

static int begin(void **state)
{
	(void)state;
	d = sim_disk_create(512);
	err.text[0] = 0;
	return 0;
}

static int end(void **state)
{
	(void)state;
	sim_disk_destroy(d);
	return 0;
}

/* Zeroes, as a file that is preallocated has them. */
static void lengthen(const struct seg *s, uint64_t bytes)
{
	static const uint8_t zero[1];

	sim_disk_set(s->d, s->name, zero, 1, bytes - 1);
}

static void assert_numbers(uint64_t first, unsigned count)
{
	assert_int_equal(found.count, count);
	for (unsigned i = 0; i < count; i++)
		assert_int_equal(found.number[i], first + i);
}

UNIT_TEST(an_empty_directory, begin, end)
{
	struct log_survey s;

	assert_ok(found_read(&found, d, 0, &s, &err));
	assert_int_equal(s.segments, 0);
	assert_int_equal(s.end, 0);
	log_survey_free(&s);
	sim_disk_io(d)->make_dir(d, "log");
	sim_disk_make(d, "log/0000000000000000.new");
	sim_disk_make(d, "log/000000000000000.log");
	sim_disk_make(d, "log/000000000000000A.log");
	assert_ok(found_read(&found, d, 0, &s, &err));
	assert_int_equal(s.segments, 0);
	log_survey_free(&s);
}

UNIT_TEST(segments_follow_each_other, begin, end)
{
	struct log_survey s;
	uint64_t number = 0;
	struct seg a = seg_begin(d, 0, 1, 0), b;

	seg_batch(&a, 3, &number, 0);
	seg_batch(&a, 4, &number, a.position);
	b = seg_begin(d, a.position, 2, a.position);
	seg_batch(&b, 5, &number, b.position);
	lengthen(&b, LONG_FILE);
	assert_ok(found_read(&found, d, 0, &s, &err));
	assert_numbers(0, 12);
	assert_int_equal(s.segments, 2);
	assert_int_equal(s.segment[0].batches, 0); /* not looked at */
	assert_int_equal(s.segment[1].records, 5);
	assert_int_equal(s.end, b.position);
	assert_int_equal(s.durable, a.position);
	assert_int_equal(s.life, 2);
	assert_int_equal(s.clock_ms, 2001);
	assert_null(s.end_why);
	log_survey_free(&s);
	assert_ok(log_survey_look(&s, sim_disk_io(d), NULL, &err));
	assert_int_equal(s.segment[0].records, 7);
	assert_int_equal(s.segment[0].batches, 2);
	assert_int_equal(s.segment[0].behind, a.position);
	log_survey_free(&s);
}

/* Segments are made ahead of time, and so are their headers. */
UNIT_TEST(the_clock_of_the_last_batch, begin, end)
{
	struct log_survey s;
	uint64_t number = 0;
	struct seg a = seg_begin(d, 0, 3, 0), b;

	seg_batch(&a, 3, &number, 0);
	b = seg_begin(d, a.position, 5, a.position);
	seg_batch(&b, 3, &number, a.position);
	seg_begin(d, b.position, 4, b.position);
	assert_ok(found_read(&found, d, 0, &s, &err));
	assert_numbers(0, 6);
	assert_int_equal(s.segments, 3);
	assert_int_equal(s.clock_ms, 5001);
	assert_int_equal(s.segment[0].batches, 0);
	log_survey_free(&s);
}

UNIT_TEST(from_a_position_on, begin, end)
{
	struct log_survey s;
	uint64_t number = 0;
	struct seg a = seg_begin(d, 4096, 1, 4096);
	uint64_t from;

	seg_batch(&a, 3, &number, a.position);
	seg_batch(&a, 4, &number, a.position);
	from = a.position;
	seg_batch(&a, 5, &number, a.position);
	assert_ok(found_read(&found, d, from, NULL, &err));
	assert_numbers(7, 5);
	assert_ok(found_read(&found, d, from + seg_record_bytes(7), &s, &err));
	assert_numbers(8, 4);
	log_survey_free(&s);
	assert_int_equal(found_read(&found, d, 0, NULL, &err), -EUCLEAN);
	assert_non_null(strstr(err.text, "begins at position 4096"));
}

/* etcd #14098 and others: its header is right, and what it promises is not all there. */
UNIT_TEST(torn_last_batch, begin, end)
{
	struct log_survey s;
	uint64_t number = 0;
	struct seg a = seg_begin(d, 0, 1, 0);
	uint64_t durable, torn;
	static const uint8_t zero[LOG_BLOCK];

	seg_batch(&a, 8, &number, 0);
	durable = a.position;
	seg_batch(&a, 30, &number, durable);
	torn = a.batch_at + 2 * LOG_BLOCK;
	sim_disk_set(d, a.name, zero, sizeof(zero), torn);
	lengthen(&a, LONG_FILE);
	assert_ok(found_read(&found, d, 0, &s, &err));
	assert_true(found.count > 8 && found.count < 38);
	assert_numbers(0, found.count);
	assert_int_equal(s.durable, durable);
	assert_int_equal(s.end, found.behind);
	assert_string_equal(s.end_name, a.name);
	assert_in_range(s.end_offset, a.batch_at, torn);
	assert_non_null(s.end_why);
	log_survey_free(&s);
}

/* A bit turned anywhere below the durable position: refused, by name and place. */
UNIT_TEST(corrupt_middle_is_refused, begin, end)
{
	uint64_t number = 0;
	struct seg a = seg_begin(d, 0, 1, 0);
	uint64_t first = a.offset;
	char hint[80];

	seg_batch(&a, 3, &number, 0);
	seg_batch(&a, 3, &number, a.position);
	seg_flip(d, a.name, first + sizeof(struct log_batch_header) + seg_record_bytes(0) + 100);
	if (MUTANT(cut_corrupt_middle)) {
		assert_ok(found_read(&found, d, 0, NULL,
				     &err)); /* the loss of two that were durable */
		assert_numbers(0, 1);
		return;
	}
	assert_int_equal(found_read(&found, d, 0, NULL, &err), -EUCLEAN);
	assert_non_null(strstr(err.text, "log/0000000000000000.log"));
	snprintf(hint, sizeof(hint), "offset %" PRIu64 ":",
		 first + sizeof(struct log_batch_header) + seg_record_bytes(0));
	assert_non_null(strstr(err.text, hint));
	snprintf(hint, sizeof(hint), "--recover-until %u`", seg_record_bytes(0));
	assert_non_null(strstr(err.text, hint));
	assert_non_null(strstr(err.text, "kv-inspect log DIR"));
}

/* A batch is gone without a trace; only a later one says that it was durable. */
UNIT_TEST(a_batch_of_zeroes_in_the_middle, begin, end)
{
	uint64_t number = 0;
	struct seg a = seg_begin(d, 0, 1, 0);
	uint64_t at, len;
	uint8_t *zero;

	seg_batch(&a, 3, &number, 0);
	at = a.offset;
	seg_batch(&a, 60, &number, a.position);
	len = a.offset - at;
	seg_batch(&a, 3, &number, a.position);
	zero = calloc(1, len);
	sim_disk_set(d, a.name, zero, len, at);
	free(zero);
	lengthen(&a, LONG_FILE);
	assert_int_equal(found_read(&found, d, 0, NULL, &err),
			 MUTANT(cut_corrupt_middle) ? 0 : -EUCLEAN);
}

/* The same, and nothing says that it was durable: the log ends before it, and says so. */
UNIT_TEST(a_batch_lost_and_the_next_one_kept, begin, end)
{
	struct log_survey s;
	uint64_t number = 0;
	struct seg a = seg_begin(d, 0, 1, 0);
	static const uint8_t zero[LOG_BLOCK];
	uint64_t at, durable;

	seg_batch(&a, 3, &number, 0);
	durable = a.position;
	at = a.offset;
	seg_batch(&a, 1, &number, durable);
	seg_batch(&a, 1, &number, durable);
	sim_disk_set(d, a.name, zero, sizeof(zero), at);
	assert_ok(found_read(&found, d, 0, &s, &err));
	assert_numbers(0, 3);
	assert_int_equal(s.end, durable);
	assert_int_equal(s.end_offset, at);
	assert_non_null(s.end_why);
	log_survey_free(&s);
}

/* A record that is right stands behind the cut, from an older life: it is never replayed. */
UNIT_TEST(valid_records_behind_the_cut, begin, end)
{
	uint64_t number = 0;
	struct seg a = seg_begin(d, 0, 1, 0), b;
	uint64_t cut;

	seg_batch(&a, 3, &number, 0);
	cut = a.position;
	seg_batch(&a, 6, &number, cut);
	number = 100;
	b = seg_begin(d, cut, 2, cut);
	seg_batch(&b, 2, &number, cut);
	if (MUTANT(read_past_cut)) {
		assert_int_equal(found_read(&found, d, 0, NULL, &err), -ERANGE);
		return;
	}
	assert_ok(found_read(&found, d, 0, NULL, &err));
	assert_int_equal(found.count, 5);
	assert_int_equal(found.number[2], 2);
	assert_int_equal(found.number[3], 100);
	assert_int_equal(found.number[4], 101);
}

/* The cut of --recover-until lies within a batch, and below what older segments call durable. */
UNIT_TEST(claims_above_the_cut_do_not_count, begin, end)
{
	uint64_t number = 0;
	struct seg a = seg_begin(d, 0, 1, 0), b;
	struct log_survey s;
	uint64_t cut = seg_record_bytes(0) + seg_record_bytes(1);

	seg_batch(&a, 5, &number, 0);
	seg_batch(&a, 5, &number, a.position);
	seg_flip(d, a.name, LOG_BLOCK + sizeof(struct log_batch_header) + cut + 8);
	assert_int_equal(found_read(&found, d, 0, NULL, &err),
			 MUTANT(cut_corrupt_middle) ? 0 : -EUCLEAN);
	b = seg_begin(d, cut, 2, cut);
	for (unsigned i = 0; i < 2; i++) {
		if (MUTANT(read_past_cut) || MUTANT(cut_corrupt_middle))
			break;
		assert_ok(found_read(&found, d, 0, &s, &err));
		assert_numbers(0, 2);
		assert_int_equal(s.durable, cut);
		assert_int_equal(s.end, cut);
		log_survey_free(&s);
	}
	number = 2;
	seg_batch(&b, 1, &number, cut);
	if (!MUTANT(read_past_cut)) {
		assert_ok(found_read(&found, d, 0, NULL, &err));
		assert_numbers(0, 3);
	}
}

UNIT_TEST(a_cut_within_a_record, begin, end)
{
	uint64_t number = 0;
	struct seg a = seg_begin(d, 0, 1, 0);

	seg_batch(&a, 5, &number, 0);
	seg_begin(d, seg_record_bytes(0) + 8, 2, 8);
	if (MUTANT(cut_corrupt_middle) || MUTANT(read_past_cut))
		return;
	assert_int_equal(found_read(&found, d, 0, NULL, &err), -EUCLEAN);
	assert_non_null(strstr(err.text, "begins within a record"));
}

UNIT_TEST(a_segment_is_missing, begin, end)
{
	uint64_t number = 0;
	struct seg a = seg_begin(d, 0, 1, 0), b;

	seg_batch(&a, 5, &number, 0);
	b = seg_begin(d, a.position + 8, 1, a.position);
	seg_batch(&b, 5, &number, b.position);
	if (MUTANT(cut_corrupt_middle) || MUTANT(read_past_cut))
		return;
	assert_int_equal(found_read(&found, d, 0, NULL, &err), -EUCLEAN);
	assert_non_null(strstr(err.text, a.name));
	assert_ok(found_read(&found, d, b.position - seg_record_bytes(9), NULL, &err));
	assert_numbers(9, 1);
}

/* A header that never reached the disk: left out where nothing was durable at its first
 * position. */
UNIT_TEST(a_segment_never_begun, begin, end)
{
	struct log_survey s;
	uint64_t number = 0;
	struct seg a = seg_begin(d, 0, 1, 0), b;
	static const uint8_t zero[LOG_BLOCK];
	uint64_t end_of_a;

	seg_batch(&a, 5, &number, 0);
	end_of_a = a.position;
	b = seg_begin(d, end_of_a, 2, end_of_a);
	sim_disk_set(d, b.name, zero, sizeof(zero), 0);
	assert_ok(found_read(&found, d, 0, &s, &err));
	assert_numbers(0, 5);
	assert_int_equal(s.segments, 1);
	assert_string_equal(s.end_name, b.name);
	log_survey_free(&s);
	seg_batch(&a, 1, &number, end_of_a);
	seg_batch(&a, 1, &number, a.position);
	assert_int_equal(found_read(&found, d, 0, NULL, &err), -EUCLEAN);
	seg_flip(d, b.name, 3);
	assert_int_equal(found_read(&found, d, 0, NULL, &err), -EUCLEAN);
	assert_non_null(strstr(err.text, b.name));
}

UNIT_TEST(anothers_segment, begin, end)
{
	uint64_t other[2] = { 1, 2 };
	struct log_survey s;

	seg_begin(d, 0, 1, 0);
	assert_int_equal(log_survey_make(&s, sim_disk_io(d), other, &err), -EXDEV);
	assert_ok(log_survey_make(&s, sim_disk_io(d), NULL, &err));
	log_survey_free(&s);
}

UNIT_TEST(short_and_failing_reads, begin, end)
{
	uint64_t number = 0;
	struct seg a = seg_begin(d, 0, 1, 0);

	for (unsigned i = 0; i < 40; i++)
		seg_batch(&a, 100, &number, a.position);
	for (unsigned i = 0; i < 8; i++) {
		sim_disk_short_read(d, i);
		assert_ok(found_read(&found, d, 0, NULL, &err));
		assert_numbers(0, 4000);
	}
	for (unsigned i = 0; i < 4; i++) {
		sim_disk_fail(d, SIM_READ, i, -EIO);
		assert_int_equal(found_read(&found, d, 0, NULL, &err), -EIO);
		assert_non_null(strstr(err.text, a.name));
	}
}

/* Bits all over a small log, and lengths of its file: an answer, and never a wrong record. */
UNIT_TEST(bits_and_lengths, begin, end)
{
	uint64_t number = 0;
	struct seg a = seg_begin(d, 0, 1, 0);
	uint8_t keep[4 * LOG_BLOCK];
	int64_t size;

	seg_batch(&a, 2, &number, 0);
	seg_batch(&a, 2, &number, a.position);
	size = sim_disk_size(d, a.name);
	assert_true(size <= (int64_t)sizeof(keep));
	sim_disk_get(d, a.name, keep, (size_t)size, 0);
	for (int64_t at = 0; at < size; at += 5) {
		uint8_t turned = keep[at] ^ (uint8_t)(1u << at % 8);

		sim_disk_set(d, a.name, &turned, 1, (uint64_t)at);
		if (found_read(&found, d, 0, NULL, &err) == 0)
			assert_numbers(0, found.count);
		sim_disk_set(d, a.name, keep + at, 1, (uint64_t)at);
	}
	for (int64_t len = 0; len < size; len += 40) {
		sim_disk_make(d, a.name);
		sim_disk_set(d, a.name, keep, (size_t)len, 0);
		if (found_read(&found, d, 0, NULL, &err) == 0)
			assert_numbers(0, found.count);
	}
}
