/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What lead.c, of configurations, and lead_line.c, of each member's line, share. */
#include <pthread.h>

#include "server/member/lead.h"

/* How far a line's thread is: it writes that (release), the group's thread reads it (acquire). */
enum line_progress { LINE_BEGINS, LINE_CONNECTED, LINE_DONE };

/* One place: a member, or nobody. */
struct line {
	struct lead *lead;
	unsigned peer; /* place in mirror and beat */
	/* The group's thread. */
	enum lead_stage stage;
	uint64_t stage_ns; /* since when: time_now_ns() */
	struct wire_peer_hello who; /* life, node and address; of one that is awaited no more */
	bool was_in_sync; /* when this server took over: it learns nothing */
	bool beats; /* its pulse is with the thread of leases */
	bool runs; /* its thread was started, and not joined */
	uint64_t sent; /* LEAD_CATCHES_UP: position: it must hold all below */
	char why[96]; /* LEAD_CUT */
	/* Of its thread, while that runs. */
	struct admit_config config;
	struct admitted admitted;
	pthread_t thread;
	int rc;
	struct error err;
	_Atomic int progress; /* enum line_progress */
};

/* How far what a person wants is: lead_switch.c. */
enum yield_step {
	YIELD_NOTHING,
	YIELD_WAITS, /* for the proposer, which has something else to do */
	YIELD_ASKS, /* whether etcd answers */
	YIELD_RESTS, /* until no session is left */
	YIELD_PROPOSES,
};

struct yield {
	enum yield_step step;
	bool removes; /* it is no switch: `to` is taken out when etcd has answered */
	uint64_t to; /* life */
	uint64_t since_ns; /* of the step */
};

struct lead {
	struct lead_config config;
	uint64_t term; /* of its rings: the one in which it became primary */
	struct group_known known;
	struct line line[MIRROR_PEERS_MAX];
	bool opened, deposed;
	struct yield yield;
	bool proposes; /* an answer is due */
	int64_t replaces; /* then: what is to be replaced; */
	uint64_t promotes; /* and the life that is to be in sync; 0: it is something else */
	uint64_t rest_until_ns; /* nothing is proposed before: etcd has failed */
};

/*
 * lead_next - the configuration, to be changed and proposed. lead_propose - @next; @promotes as in
 * struct lead. lead_line - the place of a life; NULL.
 * lead_yield_turn - of what a person wants. lead_yield_answer - etcd has answered, and this server
 * is primary yet; @rc as of proposer_answer.
 */
struct group_config lead_next(const struct lead *l);
void lead_propose(struct lead *l, const struct group_config *next, uint64_t promotes);
struct line *lead_line(struct lead *l, uint64_t life);
void lead_yield_turn(struct lead *l);
void lead_yield_answer(struct lead *l, int rc, const struct error *err);

/*
 * line_await - @m was in sync when this server took over.
 * line_take - a member has come over @fd, to a place that is free, or that awaits it.
 * line_begin - the configuration has it: its thread starts.
 * line_turn - what can be done now.
 * line_cut - nothing more goes to it, soon: see line_is_cut(). @why: for people.
 * line_let_go - the same, and nothing is wrong with it.
 * line_is_cut - its queue pairs are destroyed: the configuration may go on without it.
 * line_free - the configuration does not have it, and nothing waits for it any more.
 */
void line_await(struct line *n, const struct group_member *m);
void line_take(struct line *n, int fd, const struct wire_peer_hello *who);
void line_begin(struct line *n);
void line_turn(struct line *n);
void line_cut(struct line *n, const char *why);
void line_let_go(struct line *n, const char *why);
bool line_is_cut(const struct line *n);
void line_free(struct line *n);
void line_stage(struct line *n, enum lead_stage stage);
