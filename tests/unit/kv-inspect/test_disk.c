/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* log and snapshot, on a data directory that is written here byte by byte. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/hash.h"
#include "common/layout/log_format.h"
#include "common/layout/meta_format.h"
#include "common/layout/snapshot_format.h"
#include "tests/lib/folder.h"
#include "tests/lib/unit.h"
#include "tools/kv-inspect/disk.h"

#define IDENTITY 0x1234567812345678ull
#define BLOCKS	 8u

static const uint64_t store[2] = { 7, 8 };
static _Alignas(8) uint8_t file[BLOCKS * LOG_BLOCK];
static const struct program program = { .name = "kv-inspect", .usage = "" };

static const char *path_of(const char *name)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void write_file(const char *name, const void *bytes, size_t len)
{
	int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, len), len);
	close(fd);
}

static void write_meta(void)
{
	struct data_meta m = { .magic = META_MAGIC,
			       .format = META_FORMAT,
			       .store = { store[0], store[1] },
			       .hash_seed = 3,
			       .life = 5,
			       .clock_ms = 1700000000000 };

	m.checksum = meta_checksum(&m);
	write_file("meta", &m, sizeof(m));
}

/* A batch of one record at block @block. Returns its length. */
static uint32_t add(unsigned block, uint64_t position, enum log_kind kind, const char *key,
		    const char *value, uint64_t durable)
{
	struct log_batch_header *b = (void *)(file + block * LOG_BLOCK);
	struct log_record *r = (void *)(b + 1);

	*r = (struct log_record){ .kind = kind,
				  .position = position,
				  .version = life_first(5) + position + 1,
				  .key_len = (uint16_t)strlen(key),
				  .value_len = (uint32_t)strlen(value) };
	memcpy(r->data, key, r->key_len);
	memcpy(r->data + r->key_len, value, r->value_len);
	r->length = log_record_length(r->key_len, r->value_len);
	r->body = hash_bytes(r->data, r->key_len + r->value_len);
	r->checksum = log_record_checksum(r, IDENTITY);
	*b = (struct log_batch_header){ .magic = LOG_BATCH_MAGIC,
					.position = position,
					.durable = durable,
					.clock_ms = 1700000000001,
					.bytes = r->length,
					.records = 1 };
	b->checksum = log_batch_checksum(b, IDENTITY);
	return r->length;
}

/* Two PUTs of one key, and a DEL of another: 104 bytes each. */
static void write_log(void)
{
	struct log_segment_header *h = (void *)file;
	uint64_t position = 0;

	memset(file, 0, sizeof(file));
	*h = (struct log_segment_header){ .magic = LOG_SEGMENT_MAGIC,
					  .identity = IDENTITY,
					  .life = 5,
					  .store = { store[0], store[1] },
					  .bytes = sizeof(file),
					  .clock_ms = 1700000000000 };
	h->checksum = log_segment_checksum(h);
	position += add(1, position, LOG_PUT, "k", "one", 0);
	position += add(2, position, LOG_PUT, "k", "two", 104);
	position += add(3, position, LOG_DEL, "other", "", 208);
	assert_int_equal(position, 312);
	write_file("log/0000000000000000.log", file, sizeof(file));
}

static void write_chunk(unsigned number, enum snapshot_kind kind, const void *body, uint32_t len)
{
	struct snapshot_chunk *c = (void *)(file + number * SNAPSHOT_BLOCK);

	*c = (struct snapshot_chunk){ .magic = SNAPSHOT_MAGIC,
				      .identity = IDENTITY,
				      .number = number,
				      .kind = kind,
				      .bytes = len,
				      .items = 1 };
	memcpy(c + 1, body, len);
	c->checksum = snapshot_chunk_checksum(c);
}

static void write_snapshot(void)
{
	const struct snapshot_head head = { .store = { 7, 8 }, .hash_seed = 3, .life = 5 };
	const struct snapshot_foot foot = { .end = 208,
					    .records = 1,
					    .record_bytes = 128,
					    .version = life_first(5) + 1,
					    .chunks = 3 };
	struct {
		struct snapshot_record r;
		char data[8];
	} record = { { .version = life_first(5) + 1, .value_len = 3, .key_len = 1 }, "kone" };

	memset(file, 0, sizeof(file));
	write_chunk(0, SNAPSHOT_HEAD, &head, sizeof(head));
	write_chunk(1, SNAPSHOT_RECORDS, &record, snapshot_record_length(1, 3));
	write_chunk(2, SNAPSHOT_FOOT, &foot, sizeof(foot));
	write_file("snapshot/0000000000000000.snap", file, 3 * SNAPSHOT_BLOCK);
}

static int set_up(void **state)
{
	folder_empty(state);
	assert_ok(mkdir(path_of("log"), 0700));
	assert_ok(mkdir(path_of("snapshot"), 0700));
	write_meta();
	write_log();
	write_snapshot();
	return 0;
}

/* One byte of a file is another. */
static void flip(const char *name, off_t offset)
{
	int fd = open(path_of(name), O_RDWR);
	uint8_t byte;

	assert_int_equal(pread(fd, &byte, 1, offset), 1);
	byte ^= 1;
	assert_int_equal(pwrite(fd, &byte, 1, offset), 1);
	close(fd);
}

static struct disk_options options;
static json_t *doc;

static int look(int (*run)(struct tool *t), const char *path)
{
	char *operand = strdupa(path);
	struct tool t = { .program = &program,
			  .operand = &operand,
			  .operands = 1,
			  .json = true,
			  .rows = 1000,
			  .disk = &options,
			  .doc = json_object() };
	int code;

	json_decref(doc);
	doc = t.doc;
	code = run(&t);
	options = (struct disk_options){ .from = UINT64_MAX, .cut = UINT64_MAX };
	return code;
}

static json_int_t number(const char *of, size_t row, const char *field)
{
	json_t *o = json_object_get(doc, of);

	return json_integer_value(
		json_object_get(json_is_array(o) ? json_array_get(o, row) : o, field));
}

static int begin(void **state)
{
	options = (struct disk_options){ .from = UINT64_MAX, .cut = UINT64_MAX };
	return folder_make(state);
}

static int end(void **state)
{
	json_decref(doc);
	return folder_remove(state);
}

UNIT_TEST(a_log_and_its_records, set_up)
{
	assert_int_equal(look(cmd_log, folder), TOOL_GOOD);
	assert_int_equal(json_integer_value(json_object_get(doc, "end")), 312);
	assert_int_equal(json_integer_value(json_object_get(doc, "durable")), 208);
	assert_int_equal(number("segment", 0, "records"), 3);
	assert_null(json_object_get(doc, "read"));
	options.records = true;
	options.from = 104;
	assert_int_equal(look(cmd_log, folder), TOOL_GOOD);
	assert_int_equal(json_array_size(json_object_get(doc, "record")), 2);
	assert_int_equal(number("record", 0, "position"), 104);
	assert_int_equal(number("record", 0, "value_bytes"), 3);
	assert_int_equal(number("read", 0, "records"), 2);
}

UNIT_TEST(what_a_cut_would_lose, set_up)
{
	static const struct {
		uint64_t cut;
		json_int_t records, keys, first;
	} cuts[] = { { 0, 3, 2, 0 },	 { 103, 3, 2, 0 },   { 104, 2, 2, 104 },
		     { 208, 1, 1, 208 }, { 311, 1, 1, 208 }, { 312, 0, 0, 0 } };

	for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
		options.cut = cuts[i].cut;
		assert_int_equal(look(cmd_log, folder), TOOL_GOOD);
		assert_int_equal(number("cut", 0, "lost_records"), cuts[i].records);
		assert_int_equal(number("cut", 0, "lost_keys"), cuts[i].keys);
		assert_int_equal(number("cut", 0, "first_lost"), cuts[i].first);
	}
}

/* Below what was durable it is corruption, and above it the end. */
UNIT_TEST(a_byte_that_is_wrong, set_up)
{
	flip("log/0000000000000000.log", 3 * LOG_BLOCK + 80); /* of the last batch */
	options.verify = true;
	assert_int_equal(look(cmd_log, folder), TOOL_GOOD);
	assert_int_equal(json_integer_value(json_object_get(doc, "end")), 208);
	assert_true(json_is_string(json_object_get(doc, "end_why")));
	write_log();
	flip("log/0000000000000000.log", LOG_BLOCK + 162); /* a value below */
	options.cut = 0; /* it is shown all the same, as far as it is whole */
	assert_int_equal(look(cmd_log, folder), TOOL_NO);
	assert_int_equal(number("segment", 0, "life"), 5);
	assert_int_equal(json_integer_value(json_object_get(doc, "end")), 0);
	write_log();
	flip("log/0000000000000000.log", 2 * LOG_BLOCK + 162);
	options.cut = 0;
	assert_int_equal(look(cmd_log, folder), TOOL_NO);
	assert_int_equal(json_integer_value(json_object_get(doc, "end")), 104);
	assert_int_equal(number("cut", 0, "lost_records"), 1);
}

UNIT_TEST(a_snapshot_that_is_whole_and_one_that_is_not, set_up)
{
	assert_int_equal(look(cmd_snapshot, folder), TOOL_GOOD);
	assert_int_equal(number("snapshot", 0, "records"), 1);
	options.verify = true;
	assert_int_equal(look(cmd_snapshot, path_of("snapshot/0000000000000000.snap")), TOOL_GOOD);
	assert_true(json_is_true(
		json_object_get(json_array_get(json_object_get(doc, "snapshot"), 0), "verified")));
	flip("snapshot/0000000000000000.snap", SNAPSHOT_BLOCK + 70);
	assert_int_equal(look(cmd_snapshot, folder), TOOL_GOOD); /* by its head and foot */
	options.verify = true;
	assert_int_equal(look(cmd_snapshot, folder), TOOL_NO);
	flip("snapshot/0000000000000000.snap", 2 * SNAPSHOT_BLOCK + 70);
	assert_int_equal(look(cmd_snapshot, folder), TOOL_NO);
	assert_int_equal(look(cmd_snapshot, path_of("meta")), TOOL_USAGE);
}

UNIT_TEST(directories_that_are_not_looked_at, set_up)
{
	int fd;

	assert_int_equal(look(cmd_log, path_of("nowhere")), TOOL_FAILED);
	assert_int_equal(look(cmd_log, path_of("log")), TOOL_FAILED); /* no meta */
	fd = open(path_of("LOCK"), O_RDWR | O_CREAT, 0600);
	assert_int_equal(write(fd, "4711\n", 5), 5);
	assert_ok(flock(fd, LOCK_EX));
	assert_int_equal(look(cmd_log, folder), TOOL_FAILED);
	close(fd);
	assert_int_equal(look(cmd_log, folder), TOOL_GOOD);
	flip("meta", 30);
	assert_int_equal(look(cmd_log, folder), TOOL_NO); /* and the log is shown */
	assert_int_equal(number("segment", 0, "records"), 3);
}

UNIT_GROUP(begin, end);
