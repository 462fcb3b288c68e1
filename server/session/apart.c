/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Queue pairs are taken apart in the background, any number at a time.
 *
 * One goes to ERR at once: from then on its client reaches nothing through it, and it takes no
 * receive. Then it waits for its last receive to come back (receives.c), if the device tells of it,
 * for LAST_RECEIVE_NS at most; its worker drains it; it is destroyed; its worker forgets it; it is
 * freed. worker/apart.c says what each of these is for. No step waits: what comes next begins when
 * the device, the worker or the clock says so. So a thousand of them take about as long as one and
 * the calls of the device for the others.
 *
 * I4: a session is waited for until the last of its queue pairs is destroyed: pairs.apart has those
 * that are not gone yet, and pairs_parted() comes when it is empty. Where the device does not let
 * go of one, the session is waited for to the end, and the server ends (pairs_fatal()).
 *
 * A device that never tells of last receives: after UNTOLD_MAX waits in vain, of any number of
 * queue pairs at once, there is none until it tells of one.
 */
#include "common/base/time.h"
#include "server/session/session.h"

#define LAST_RECEIVE_NS (20 * NS_PER_MS)
#define UNTOLD_MAX	3u
#define OBEYED_MAX	32u /* a turn: notes are taken in between */

static void conn_gone(struct session *s, struct conn *c)
{
	conn_free(c);
	atomic_fetch_sub_explicit(&s->all->counters.queue_pairs, 1, memory_order_relaxed);
}

void pairs_unfenced(struct session *s, const char *why)
{
	s->pairs.unfenced = true;
	pairs_fatal(s->all, why);
}

/* No remote access through it after this, or never again a quiet moment. */
static void destroy(struct session *s, struct conn *c)
{
	if (conn_destroy(c))
		pairs_unfenced(s, "a queue pair of a client could not be destroyed");
}

void pairs_drop(struct session *s, struct conn *c)
{
	conn_fail(c);
	destroy(s, c);
	conn_gone(s, c);
}

/* It is in ERR, and no command of it is under way. */
static void await_receive(struct sessions *all, struct conn *c)
{
	struct pairs *p = &all->pairs;

	if (c->gave_back || p->untold >= UNTOLD_MAX) {
		conn_drain(c);
		return;
	}
	c->failed_ns = time_now_ns();
	c->waits = true;
	cds_list_add_tail(&c->failed_node, &p->failed);
}

static void wait_no_longer(struct conn *c)
{
	cds_list_del(&c->failed_node);
	c->waits = false;
	conn_drain(c);
}

void pairs_last_receive(struct sessions *all, struct conn *c)
{
	c->gave_back = true;
	all->pairs.untold = 0;
	if (c->waits)
		wait_no_longer(c);
}

void pairs_part(struct session *s, struct conn *c)
{
	cds_list_add_tail(&c->node, &s->pairs.apart);
	conn_fail(c);
	if (c->command == CONN_IDLE) /* else when it comes back */
		await_receive(s->all, c);
}

void pairs_part_all(struct session *s, uint64_t answer_until_ns)
{
	for (unsigned i = 0; i < SESSION_QPS_MAX; i++) {
		struct conn *c = s->pairs.conns[i];

		if (!c)
			continue;
		s->pairs.conns[i] = NULL;
		if (!answer_until_ns) {
			pairs_part(s, c);
			continue;
		}
		cds_list_add_tail(&c->node, &s->pairs.apart);
		conn_answer(c, answer_until_ns);
	}
}

bool pairs_parts(const struct session *s, unsigned handle)
{
	const struct conn *c;

	cds_list_for_each_entry (c, &s->pairs.apart, node) {
		if (c->handle == handle)
			return true;
	}
	return false;
}

/* One that was taken apart is gone: what waited for it goes on. */
static void parted(struct session *s, struct conn *c)
{
	cds_list_del(&c->node);
	conn_gone(s, c);
	if (!s->pairs.over)
		pairs_open_on(s);
	else if (cds_list_empty(&s->pairs.apart))
		pairs_parted(s);
}

/* Its worker has done what it was told. */
static void obeyed(struct sessions *all, struct conn *c)
{
	const enum conn_command command = c->command;
	struct session *s = c->session;

	c->command = CONN_IDLE;
	switch (command) {
	case CONN_ATTACH:
		c->attached = c->result == 0;
		if (s->pairs.opening.conn == c) {
			pairs_attached(s, c);
		} else if (c->attached) { /* it was taken apart meanwhile */
			await_receive(all, c);
		} else {
			destroy(s, c);
			parted(s, c);
		}
		break;
	case CONN_ANSWER:
		conn_fail(c);
		await_receive(all, c);
		break;
	case CONN_DRAIN:
		destroy(s, c);
		conn_detach(c);
		break;
	case CONN_DETACH:
		parted(s, c);
		break;
	case CONN_IDLE:
		break;
	}
}

static void wait_in_vain(struct sessions *all, uint64_t now)
{
	struct pairs *p = &all->pairs;
	struct conn *c, *next;
	bool any = false;

	cds_list_for_each_entry_safe (c, next, &p->failed, failed_node) {
		if (now - c->failed_ns < LAST_RECEIVE_NS && p->untold < UNTOLD_MAX)
			break;
		wait_no_longer(c);
		any = true;
	}
	p->untold += any;
}

int pairs_work(struct sessions *all)
{
	struct pairs *p = &all->pairs;
	struct mail *m;

	if (!p->obeyed_next)
		p->obeyed_next = mailbox_take(&p->obeyed);
	for (unsigned i = 0; i < OBEYED_MAX && (m = p->obeyed_next); i++) {
		p->obeyed_next = m->next;
		obeyed(all, conn_of_mail(m));
	}
	if (!cds_list_empty(&p->failed))
		wait_in_vain(all, time_now_ns());
	if (p->obeyed_next)
		return 0;
	return cds_list_empty(&p->failed) ? -1 : (int)(LAST_RECEIVE_NS / NS_PER_MS / 4);
}
