/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The page of stats --watch: lines that fit, columns that line up, what is cut. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/time.h"
#include "tests/lib/unit.h"
#include "tools/kv-cli/view.h"

#define LINES 2048u

static struct stats_table table;
static struct frame frame;
static struct view view;
static char *lines[LINES]; /* of the page that was drawn last, without sequences */
static unsigned line_count;

static int setup(void **state)
{
	view = (struct view){ .server = "127.0.0.1:7471", .device = "mlx5_0", .status = "" };
	return 0;
}

static int teardown(void **state)
{
	stats_table_free(&table);
	frame_free(&frame);
	return 0;
}

/* A busy server with @sessions of them and @classes sizes of blocks, at its @looks. look. */
static void look(unsigned sessions, unsigned classes, unsigned looks)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	assert_non_null(f);
	fprintf(f, "pid 4194304\nuptime_ms %u\nepoch 18446744073709551615\nversion 1234567\n",
		93784000 + looks * 1000);
	fprintf(f,
		"sessions %u\nsessions_resumed 3\nconnections_refused 4\nqueue_pairs 70\n"
		"sessions_fenced_silent 1\nsessions_fenced_stuck 2\nsessions_fenced_protocol 5\n",
		sessions);
	fprintf(f, "client_gets %u\nclient_reads %u\nclient_retries %u\nrpc_puts %u\nrpc_dels 0\n",
		looks * 1230000, looks * 1291500, looks * 12, looks * 45600);
	fprintf(f, "memory_bytes_max 4294967296\nmemory_index_bytes 67108864\n"
		   "memory_directory_bytes 16777216\nmemory_data_bytes 1073741824\n"
		   "memory_block_bytes 536870912\nmemory_slab_bytes_waiting 0\n"
		   "deferred_bytes 33554432\ndeferred_bytes_max 134217728\n");
	fprintf(f,
		"records 1000000\nindex_slots 2000000\nindex_segments 977\nindex_splits %u\n"
		"index_merges 0\nindex_doublings 4\nindex_overflow_buckets 12\n",
		900 + 8 * looks);
	for (unsigned i = 0; i < classes; i++)
		fprintf(f, "class_%u_slabs %u\nclass_%u_used %u\nclass_%u_free 100\n", 64 + 64 * i,
			i + 1, 64 + 64 * i, 300 + i, 64 + 64 * i);
	for (unsigned i = 1; i <= sessions; i++)
		fprintf(f,
			"session_%u_pid %u\nsession_%u_epoch_lag 2\n"
			"session_%u_deferred_bytes 4096\nsession_%u_fences 0\n"
			"session_%u_gets %u\nsession_%u_reads %u\n",
			i, 100000 + i, i, i, i, i, i * 1000 * looks, i, i * 1500 * looks);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(stats_table_read(&table, text, looks * NS_PER_S), 0);
	free(text);
}

/* Draw, and check that the page fits; the lines then stand in lines[]. */
static void draw(unsigned rows, unsigned columns, bool screen)
{
	char *from, *to, *next;

	frame_begin(&frame, rows, columns, screen);
	assert_int_equal(view_draw(&frame, &view, &table), 0);
	assert_int_equal(buffer_append(&frame.text, "", 1), 0);
	assert_int_equal(strncmp(frame.text.data, "\033[H", 3) == 0, screen);
	for (from = to = frame.text.data; *from; from++) {
		if (*from == '\033') {
			assert_true(screen);
			from += strcspn(from, "HKJm");
		} else if (*from != '\r') {
			*to++ = *from;
		}
	}
	*to = '\0';
	line_count = 0;
	for (next = frame.text.data; next && *next;) {
		char *line = strsep(&next, "\n");

		assert_true(line_count < LINES);
		lines[line_count++] = line;
		if (columns && strlen(line) > columns)
			fail_msg("%zu columns: '%s'", strlen(line), line);
	}
	if (rows)
		assert_true(line_count <= rows);
}

/* The line that has @text. */
static unsigned find(const char *text)
{
	for (unsigned i = 0; i < line_count; i++) {
		if (strstr(lines[i], text))
			return i;
	}
	fail_msg("no '%s' on the page", text);
	return 0;
}

/* @figure ends where @heading ends, @below lines below it. */
static void column(const char *heading, unsigned below, const char *figure)
{
	unsigned at = find(heading);
	size_t end = (size_t)(strstr(lines[at], heading) - lines[at]) + strlen(heading);
	size_t len = strlen(figure);

	assert_true(at + below < line_count);
	if (strlen(lines[at + below]) < end || end < len ||
	    strncmp(lines[at + below] + end - len, figure, len) != 0 ||
	    (end > len && lines[at + below][end - len - 1] != ' ') ||
	    (lines[at + below][end] && lines[at + below][end] != ' '))
		fail_msg("no %s below %s in\n%s\n%s", figure, heading, lines[at],
			 lines[at + below]);
}

UNIT_TEST(test_page_of_24_rows, setup, teardown)
{
	look(200, 30, 1);
	look(200, 30, 2);
	draw(24, 80, true);
	assert_int_equal(line_count, 24);
	assert_string_equal(lines[0], "kv-server 127.0.0.1:7471 on mlx5_0");
	assert_string_equal(lines[1], "pid 4194304   up 1d 02:03:06   epoch 18446744073709551615"
				      "   version 1234567");
	find("GET       1.23M   PUT       45.6k   total      1.08G of  4.00G  27% [###.......]");
	find("READ      1.29M   DEL           0   data       1.00G            25% [###.......]");
	find("READ/GET  1.050   update        -   index      64.0M             2% [..........]");
	find("retry      12.0   RPC GET       -   directory  16.0M             0% [..........]");
	find("pulled B      -   ping          -   blocks      512M of  1.00G  50% [#####.....]");
	find("pushed B      -   stats         -   waiting        0 of  1.00G   0% [..........]");
	find("expired       -   refused       -   deferred   32.0M of   128M  25% [###.......]");
	column(" records", 1, "1.00M");
	column(" slots", 1, "2.00M");
	column(" fill", 1, "50%");
	column("overflow", 1, "12");
	column("splits", 1, "916");
	column("splits    /s", 1, "8.0");
	column("double", 1, "4");
	column("sessions", 1, "200");
	column("silent", 1, "1");
	column("stuck", 1, "2");
	column("protocol", 1, "5");
	/* the session with most GETs and the class with most slabs come first */
	column(" GET/s", 1, "200k");
	column("READ/GET   lag", 1, "2");
	column("lag  defer", 1, "4.00K");
	column("fence  block", 1, "1920");
	column("block slabs", 1, "30");
	column("free fill", 1, "77%");
	assert_non_null(strstr(lines[16], "  200  100200"));
	assert_non_null(strstr(lines[23], "... 193 more"));
	assert_non_null(strstr(strstr(lines[23], "more") + 1, "... 23 more"));
}

UNIT_TEST(test_taller_pages_have_more_rows, setup, teardown)
{
	look(30, 3, 1);
	draw(49, 120, true);
	assert_int_equal(line_count, 49);
	find("... 2 more");
	draw(60, 120, true);
	assert_null(strstr(lines[line_count - 1], "more"));
	assert_non_null(strstr(lines[find("session  ") + 30], " 100030"));
	for (unsigned rows = 1; rows < 60; rows++) {
		for (unsigned columns = 1; columns < 140; columns += 7)
			draw(rows, columns, true);
	}
	draw(0, 100, false);
	assert_non_null(strstr(lines[find("session  ") + 30], " 100030"));
	assert_int_equal(lines[line_count - 1][0], ' ');
}

UNIT_TEST(test_an_older_server, setup, teardown)
{
	assert_int_equal(stats_table_read(&table, "records 5\nsession_3_epoch_lag 7\n", 1), 0);
	draw(24, 80, true);
	find("pid -   up -");
	find("GET           -   PUT           -   total          - of      -    - [..........]");
	find("READ/GET      -   update        -   index          -              - [..........]");
	column(" records", 1, "5");
	column(" fill", 1, "-");
	column("pid  GET/s", 1, "-");
	column("READ/GET   lag", 1, "7");
	stats_table_free(&table);
	draw(24, 80, true);
	find("pid -   up -");
}

UNIT_TEST(test_a_software_device_is_called_so, setup, teardown)
{
	char name[300];

	view.device = "soft0";
	view.software = true;
	look(1, 1, 1);
	draw(24, 80, true);
	assert_string_equal(
		lines[0], "kv-server 127.0.0.1:7471 on soft0 (software: memory copies, not RDMA)");
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	view.server = name;
	draw(24, 80, true);
	assert_non_null(strstr(lines[0], "xxx... on soft0 (software: memory copies, not RDMA)"));
}

UNIT_TEST(test_words_and_bytes, setup, teardown)
{
	view.status = "reconnecting: \033[2J\xc3\xa9\n";
	view.server = "a\033b:1";
	look(1, 1, 1);
	frame_begin(&frame, 24, 80, true);
	assert_int_equal(view_draw(&frame, &view, &table), 0);
	assert_int_equal(buffer_append(&frame.text, "", 1), 0);
	assert_non_null(strstr(frame.text.data, "kv-server a?b:1 on"));
	assert_non_null(strstr(frame.text.data, "reconnecting: ?[2J???\033[K"));
}

/* A line that ends in the last column must not clear what stands there. */
UNIT_TEST(test_full_lines_are_not_cleared, setup, teardown)
{
	frame_begin(&frame, 2, 10, true);
	frame_put(&frame, "0123456789");
	frame_next(&frame);
	frame_put(&frame, "01234567 ");
	frame_to(&frame, 9);
	frame_put(&frame, "9 beyond");
	frame_next(&frame);
	frame_put(&frame, "no row");
	frame_next(&frame);
	assert_int_equal(frame_end(&frame), 0);
	assert_int_equal(frame.text.len, strlen("\033[H0123456789\r\n01234567 9"));
	assert_memory_equal(frame.text.data, "\033[H0123456789\r\n01234567 9", frame.text.len);
	frame_begin(&frame, 3, 10, true);
	frame_head(&frame);
	frame_put(&frame, "a  ");
	frame_next(&frame);
	assert_int_equal(frame_end(&frame), 0);
	assert_int_equal(buffer_append(&frame.text, "", 1), 0);
	assert_string_equal(frame.text.data, "\033[H\033[1ma\033[m\033[K\r\n\033[J");
}
