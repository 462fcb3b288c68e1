/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Which server may answer, and for how long: what a backup promises, and what a primary may rely
 * on. lease.c has the argument. Nothing here reads a clock; all times are nanoseconds of
 * CLOCK_BOOTTIME of the machine whose structure it is. One thread each.
 */
#include <stdbool.h>
#include <stdint.h>

struct lease_terms {
	uint64_t length_ns; /* of a promise */
	uint32_t rho_ppm; /* rates of two clocks differ by so much at most */
};

/* What a backup has promised: it does not take over before. */
struct lease_promise {
	struct lease_terms terms;
	uint64_t term; /* whose primary it promised; 0: none yet */
	uint64_t beat; /* the last one that it has seen in that term */
	uint64_t until_ns;
	bool revoked; /* the primary's rights are being taken away: nothing is promised any more */
};

/*
 * lease_learn - the server has learned of @term, in which it is a backup. Nothing of an earlier
 * term counts; the time begins once more.
 * lease_beat - it sees beat @n of @term, then has read its clock: @now_ns. True: the promise
 * stands, answer @n. False: answer nothing.
 * lease_is_over - it may take over, as far as its promise goes.
 * lease_revoke - it is about to: from here on no beat of the term is answered.
 */
void lease_learn(struct lease_promise *p, uint64_t term, uint64_t now_ns);
bool lease_beat(struct lease_promise *p, uint64_t term, uint64_t n, uint64_t now_ns);
bool lease_is_over(const struct lease_promise *p, uint64_t now_ns);
void lease_revoke(struct lease_promise *p);

#define LEASE_BEATS_MAX 16u /* to one backup, whose answers are waited for */
#define LEASE_PEERS_MAX 8u

/* What a primary knows of one backup. */
struct lease_grant {
	uint64_t noted_ns[LEASE_BEATS_MAX]; /* its clock before beat n, at n modulo that */
	uint64_t sent; /* the last beat */
	uint64_t until_ns; /* the backup does not take over before; 0: nothing is known */
};

/*
 * lease_note - a beat is about to be sent, and the clock was read before: @now_ns. Returns its
 * number, from 1.
 * lease_answer - the backup has answered @n.
 * lease_until - before which nobody takes over: the least of those grants that count, bits of
 * @counted; where none does, the server is alone in sync: @now_ns, read before it was looked
 * whether it is, and the length.
 */
uint64_t lease_note(struct lease_grant *g, uint64_t now_ns);
void lease_answer(struct lease_grant *g, const struct lease_terms *terms, uint64_t n);
uint64_t lease_until(const struct lease_grant grant[LEASE_PEERS_MAX], unsigned counted,
		     const struct lease_terms *terms, uint64_t now_ns);
