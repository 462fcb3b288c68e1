/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A rack: sessions that are opened at one moment, each by a thread of its own, which from then on
 * reads and writes a key of each of its handles.
 *
 * What was acknowledged stands in a ledger, a file that outlives the process: the count that a
 * write carries is entered as begun before it and as acknowledged after it. A read must find a
 * count from acknowledged to begun, in this life and in the next one that has the same numbers.
 */
#include <stdbool.h>
#include <stdint.h>

#include <gracekv.h>

#define RACK_REST	UINT32_MAX /* the pause of sessions that do nothing */
#define RACK_HINT_BYTES (256u << 10) /* of a session, so that a machine holds many */

struct rack_options {
	struct gkv_options session;
	unsigned sessions, handles; /* of each */
	const char *ledger; /* a file of zeros, 16 bytes for each number that there ever is */
	unsigned first; /* of this rack's numbers; one for each handle */
};

/* rack_open - threads that open the sessions at @at_ns of time_now_ns(), and then work with
 * @pause_us between two turns and @value_len bytes. 0, or a negative errno. Once. */
int rack_open(const struct rack_options *o, uint64_t at_ns, uint32_t pause_us, unsigned value_len);

/* rack_pace - another pause, RACK_REST for no call at all; reads alone, or @writes as well. */
void rack_pace(uint32_t pause_us, bool writes);

/*
 * rack_beat - wait until each session has beaten for @hold_ms over one connection, the last time
 * within it or within 1 s, or @ms are over. Returns how many have; @at_ns receives when the last
 * of them made the first round of its connection.
 */
unsigned rack_beat(uint64_t ms, uint64_t hold_ms, uint64_t *at_ns);

/* rack_tell - its counts since rack_forget(), in one line on stdout. An attempt to open that failed
 * is no bad call: it is made again, and stderr says why. */
void rack_tell(void);
void rack_forget(void);

/*
 * rack_verify - read the keys of the ledger's first @count numbers, over a handle more of the first
 * session; nobody writes them meanwhile. Returns how many do not hold what was acknowledged, each
 * with a line on stderr, or a negative errno.
 */
int rack_verify(unsigned count);

/* rack_close - end the threads, close what they opened. */
void rack_close(void);
