/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * kv-test-client: one session and handle that stay open while tests do things to the server. One
 * command a line on stdin, one answer on stdout: "ok name=value ..." or "err CODE sentence". Keys
 * and values are in hex, "-" is empty.
 *
 *	kv-test-client HOST:PORT DEVICE [TIMEOUT_MS [LIFELINE_MS]]
 *	kv-test-client --layout		print version and hash of the memory layout
 *
 *	put KEY VALUE | get KEY | del KEY | ping | scan | stats
 *	fill PREFIX FIRST COUNT SIZE	write records PREFIX00000001, ... with values made of their
 *					number; "err CODE done=N ..." at the first failure
 *	stream PREFIX FIRST COUNT SIZE	the same, with a line "ack N" for each that succeeded
 *	check PREFIX FIRST COUNT SIZE	read them: how many are found, missing, wrong
 *	drop PREFIX FIRST COUNT		delete them
 *	count KEY COUNT			add 1 to KEY so many times; the last sum
 *	spin KEY MS			read KEY for this long
 *	rhythm get|put KEY MS		one of them each half a millisecond for this long, and the
 *					longest time between the ends of two
 *	raise KEY COUNT SIZE		write values 1 to COUNT, each filling SIZE bytes
 *	watch KEY MS SIZE		read such values: none may be torn or older than the last
 *	handles KEY COUNT		read KEY through so many handles more
 *	hold COUNT			open so many handles more, until the end
 *	session				what the session's housekeeper did
 *	quit
 */
#include <errno.h>
#include <gracekv.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/time.h"
#include "common/layout/root.h"

#define WORDS_MAX   6
#define HANDLES_MAX 64
#define RHYTHM_NS   500000

static struct gkv_session *session;
static struct gkv *handle;
static unsigned char *value; /* GKV_VALUE_MAX bytes */

static void answer_error(int code)
{
	printf("err %d %s\n", code, gkv_error(handle));
}

static int digit(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* Decodes in place; the hex text is twice as long, and may be long: no sscanf(), which measures all
 * that is left for each byte. */
static size_t unhex(char *text)
{
	size_t n = 0;

	for (int high, low; (high = digit(text[2 * n])) >= 0; n++) {
		low = digit(text[2 * n + 1]);
		if (low < 0)
			break;
		text[n] = (char)(high << 4 | low);
	}
	return n;
}

static void cmd_put(char **word)
{
	size_t key_len = unhex(word[0]), len = unhex(word[1]);
	uint64_t version = 0;
	int rc = gkv_put(handle, word[0], key_len, word[1], len, &version);

	if (rc)
		answer_error(rc);
	else
		printf("ok version=%" PRIu64 "\n", version);
}

static void cmd_get(char **word)
{
	size_t key_len = unhex(word[0]), len = 0;
	int rc = gkv_get(handle, word[0], key_len, value, GKV_VALUE_MAX, &len);

	if (rc) {
		answer_error(rc);
		return;
	}
	printf("ok value=");
	for (size_t i = 0; i < len; i++)
		printf("%02x", value[i]);
	puts("");
}

static void cmd_del(char **word)
{
	int rc = gkv_del(handle, word[0], unhex(word[0]));

	if (rc)
		answer_error(rc);
	else
		puts("ok");
}

static void cmd_ping(char **word)
{
	uint64_t ns = 0;
	int rc = gkv_ping(handle, &ns);

	if (rc)
		answer_error(rc);
	else
		printf("ok ns=%" PRIu64 "\n", ns);
}

static int count_record(void *arg, const void *key, size_t key_len, const void *bytes,
			const struct gkv_meta *meta)
{
	uint64_t *counts = arg;

	counts[0]++;
	counts[1] += meta->value_len;
	return 0;
}

static void cmd_scan(char **word)
{
	uint64_t counts[2] = { 0 };
	int rc = gkv_scan(handle, NULL, count_record, counts);

	if (rc)
		answer_error(rc);
	else
		printf("ok records=%" PRIu64 " bytes=%" PRIu64 "\n", counts[0], counts[1]);
}

static void cmd_stats(char **word)
{
	struct gkv_stats s;

	gkv_stats_get(handle, &s);
	printf("ok gets=%" PRIu64 " hits=%" PRIu64 " reads=%" PRIu64 " puts=%" PRIu64
	       " dels=%" PRIu64 " rpc_fallbacks=%" PRIu64 " reconnects=%" PRIu64 "\n",
	       s.gets, s.hits, s.reads, s.puts, s.dels, s.rpc_fallbacks, s.reconnects);
}

/* The value of record @number: a sequence that depends on all of the number. */
static void make_value(unsigned char *out, size_t size, uint64_t number)
{
	uint64_t x = number * 0x9e3779b97f4a7c15ull + 1;

	for (size_t i = 0; i < size; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		out[i] = (unsigned char)(x >> 32);
	}
}

static size_t make_key(char key[64], const char *prefix, uint64_t number)
{
	return (size_t)snprintf(key, 64, "%.40s%08" PRIu64, prefix, number);
}

static uint64_t number_of(const char *word)
{
	return strtoull(word, NULL, 10);
}

static void fill(char **word, bool acknowledge)
{
	uint64_t first = number_of(word[1]), count = number_of(word[2]);
	size_t size = number_of(word[3]);
	char key[64];

	for (uint64_t i = 0; i < count; i++) {
		size_t key_len = make_key(key, word[0], first + i);
		int rc;

		make_value(value, size, first + i);
		rc = gkv_put(handle, key, key_len, value, size, NULL);
		if (rc) {
			printf("err %d done=%" PRIu64 " %s\n", rc, i, gkv_error(handle));
			return;
		}
		if (acknowledge)
			printf("ack %" PRIu64 "\n", first + i);
	}
	printf("ok done=%" PRIu64 "\n", count);
}

static void cmd_fill(char **word)
{
	fill(word, false);
}

static void cmd_stream(char **word)
{
	fill(word, true);
}

static void cmd_check(char **word)
{
	uint64_t first = number_of(word[1]), count = number_of(word[2]), found = 0, missing = 0;
	size_t size = number_of(word[3]), len;
	unsigned char *want = malloc(size + 1);
	char key[64];

	for (uint64_t i = 0; want && i < count; i++) {
		size_t key_len = make_key(key, word[0], first + i);
		int rc = gkv_get(handle, key, key_len, value, GKV_VALUE_MAX, &len);

		make_value(want, size, first + i);
		if (rc && rc != -ENOENT) {
			free(want);
			answer_error(rc);
			return;
		}
		if (rc)
			missing++;
		else if (len == size && memcmp(value, want, size) == 0)
			found++;
	}
	free(want);
	printf("ok found=%" PRIu64 " missing=%" PRIu64 " wrong=%" PRIu64 "\n", found, missing,
	       count - found - missing);
}

static void cmd_count(char **word)
{
	size_t key_len = unhex(word[0]);
	int64_t sum = 0;

	for (uint64_t i = number_of(word[1]); i > 0; i--) {
		int rc = gkv_incr(handle, word[0], key_len, 1, &sum);

		if (rc) {
			answer_error(rc);
			return;
		}
	}
	printf("ok sum=%" PRId64 "\n", sum);
}

static void cmd_drop(char **word)
{
	uint64_t first = number_of(word[1]), count = number_of(word[2]), deleted = 0;

	for (uint64_t i = 0; i < count; i++) {
		char key[64];
		int rc = gkv_del(handle, key, make_key(key, word[0], first + i));

		if (rc && rc != -ENOENT) {
			answer_error(rc);
			return;
		}
		deleted += rc == 0;
	}
	printf("ok deleted=%" PRIu64 "\n", deleted);
}

static void cmd_spin(char **word)
{
	size_t key_len = unhex(word[0]), len;
	uint64_t now = time_now_ns(), end = now + number_of(word[1]) * NS_PER_MS, longest = 0;
	uint64_t gets = 0, misses = 0;

	while (now < end) {
		int rc = gkv_get(handle, word[0], key_len, value, GKV_VALUE_MAX, &len);
		uint64_t done = time_now_ns();

		if (rc && rc != -ENOENT) {
			answer_error(rc);
			return;
		}
		gets++;
		misses += rc == -ENOENT;
		longest = done - now > longest ? done - now : longest;
		now = done;
	}
	printf("ok gets=%" PRIu64 " misses=%" PRIu64 " max_us=%" PRIu64 "\n", gets, misses,
	       longest / 1000);
}

static void cmd_rhythm(char **word)
{
	const bool puts_it = strcmp(word[0], "put") == 0;
	size_t key_len = unhex(word[1]), len;
	uint64_t last = time_now_ns(), end = last + number_of(word[2]) * NS_PER_MS, longest = 0;
	uint64_t count = 0;

	while (last < end) {
		uint64_t done;
		int rc = puts_it ? gkv_put(handle, word[1], key_len, &count, sizeof(count), NULL)
				 : gkv_get(handle, word[1], key_len, value, GKV_VALUE_MAX, &len);

		if (rc) {
			answer_error(rc);
			return;
		}
		count++;
		done = time_now_ns();
		longest = done - last > longest ? done - last : longest;
		last = done;
		time_sleep(RHYTHM_NS);
	}
	printf("ok count=%" PRIu64 " max_us=%" PRIu64 "\n", count, longest / 1000);
}

/* @number over and over, zeros at the end. */
static void make_numbers(unsigned char *out, size_t size, uint64_t number)
{
	memset(out, 0, size);
	for (size_t i = 0; i + sizeof(number) <= size; i += sizeof(number))
		memcpy(out + i, &number, sizeof(number));
}

static void cmd_raise(char **word)
{
	size_t key_len = unhex(word[0]), size = number_of(word[2]);
	uint64_t count = number_of(word[1]);

	for (uint64_t i = 1; i <= count; i++) {
		int rc;

		make_numbers(value, size, i);
		rc = gkv_put(handle, word[0], key_len, value, size, NULL);
		if (rc) {
			answer_error(rc);
			return;
		}
	}
	puts("ok");
}

static void cmd_watch(char **word)
{
	size_t key_len = unhex(word[0]), size = number_of(word[2]), len;
	uint64_t end = time_now_ns() + number_of(word[1]) * NS_PER_MS, last = 0, seen;
	uint64_t gets = 0, torn = 0, older = 0, changes = 0;
	unsigned char *want = malloc(size + 1);

	while (want && time_now_ns() < end) {
		int rc = gkv_get(handle, word[0], key_len, value, GKV_VALUE_MAX, &len);

		if (rc) {
			free(want);
			answer_error(rc);
			return;
		}
		gets++;
		memcpy(&seen, value, sizeof(seen));
		make_numbers(want, size, seen);
		torn += len != size || memcmp(value, want, size) != 0;
		older += seen < last;
		changes += seen != last;
		last = seen;
	}
	free(want);
	printf("ok gets=%" PRIu64 " torn=%" PRIu64 " older=%" PRIu64 " changes=%" PRIu64
	       " last=%" PRIu64 "\n",
	       gets, torn, older, changes, last);
}

static void cmd_handles(char **word)
{
	struct gkv *more[HANDLES_MAX] = { NULL };
	size_t key_len = unhex(word[0]), len;
	uint64_t count = number_of(word[1]), opened = 0;
	int rc = 0;

	while (rc == 0 && opened < count && opened < HANDLES_MAX) {
		rc = gkv_open(session, NULL, &more[opened], NULL, 0);
		if (rc == 0)
			rc = gkv_get(more[opened], word[0], key_len, value, GKV_VALUE_MAX, &len);
		opened += more[opened] != NULL;
	}
	for (uint64_t i = 0; i < opened; i++)
		gkv_close(more[i]);
	printf("ok opened=%" PRIu64 " code=%d\n", opened, rc);
}

static struct gkv *held[HANDLES_MAX];

static void cmd_hold(char **word)
{
	uint64_t count = number_of(word[0]), opened = 0;
	char text[640];
	int rc = 0;

	while (rc == 0 && opened < count && opened < HANDLES_MAX)
		rc = gkv_open(session, NULL, &held[opened++], text, sizeof(text));
	if (rc)
		printf("err %d %s\n", rc, text);
	else
		puts("ok");
}

static void cmd_session(char **word)
{
	struct gkv_session_stats s;

	gkv_session_stats_get(session, &s);
	printf("ok rounds=%" PRIu64 " messages=%" PRIu64 " epoch=%" PRIu64 " announced=%" PRIu64
	       " reconnects=%" PRIu64 "\n",
	       s.rounds, s.messages, s.epoch, s.announced, s.reconnects);
}

static const struct {
	const char *name;
	unsigned words;
	void (*run)(char **word);
} commands[] = {
	{ "put", 2, cmd_put },	       { "get", 1, cmd_get },	      { "del", 1, cmd_del },
	{ "ping", 0, cmd_ping },       { "scan", 0, cmd_scan },	      { "stats", 0, cmd_stats },
	{ "fill", 4, cmd_fill },       { "stream", 4, cmd_stream },   { "check", 4, cmd_check },
	{ "drop", 3, cmd_drop },       { "spin", 2, cmd_spin },	      { "raise", 3, cmd_raise },
	{ "watch", 3, cmd_watch },     { "handles", 2, cmd_handles }, { "hold", 1, cmd_hold },
	{ "session", 0, cmd_session }, { "count", 2, cmd_count },     { "rhythm", 3, cmd_rhythm },
};

/* Returns false at "quit". */
static bool obey(char *line)
{
	char *word[WORDS_MAX] = { NULL }, *rest = NULL;
	unsigned n = 0;

	for (char *w = strtok_r(line, " \n", &rest); w && n < WORDS_MAX;
	     w = strtok_r(NULL, " \n", &rest))
		word[n++] = w;
	if (n == 0)
		return true;
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(word[0], commands[i].name) == 0 && n == commands[i].words + 1) {
			commands[i].run(word + 1);
			return true;
		}
	}
	if (strcmp(word[0], "quit") == 0)
		return false;
	printf("err %d not a command: %s with %u words\n", -EINVAL, word[0], n - 1);
	return true;
}

int main(int argc, char **argv)
{
	struct gkv_options options;
	char text[640] = "", *line = NULL;
	size_t cap = 0;
	int rc;

	if (argc == 2 && strcmp(argv[1], "--layout") == 0) {
		printf("%u %" PRIu64 "\n", LAYOUT_VERSION, layout_hash());
		return 0;
	}
	if (argc < 3)
		return fputs("kv-test-client: HOST:PORT and DEVICE are wanted\n", stderr), 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	gkv_options_init(&options);
	options.server = argv[1];
	options.device = argv[2];
	options.timeout_ms = argc > 3 ? (unsigned)number_of(argv[3]) : options.timeout_ms;
	options.lifeline_ms = argc > 4 ? (unsigned)number_of(argv[4]) : options.lifeline_ms;
	value = malloc(GKV_VALUE_MAX);
	rc = value ? gkv_session_open(&options, &session, text, sizeof(text)) : -ENOMEM;
	if (rc == 0)
		rc = gkv_open(session, NULL, &handle, NULL, 0);
	if (rc)
		printf("err %d %s\n", rc, text[0] ? text : gkv_strerror(rc));
	else
		puts("ok");
	while (rc == 0 && getline(&line, &cap, stdin) > 0 && obey(line))
		;
	for (unsigned i = 0; i < HANDLES_MAX; i++)
		gkv_close(held[i]);
	gkv_close(handle);
	gkv_session_close(session);
	free(value);
	free(line);
	return rc ? 3 : 0;
}
