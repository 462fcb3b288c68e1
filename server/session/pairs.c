/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The loop of the queue-pair thread, and what it does for sessions as a whole.
 *
 * It sleeps until a note, a connection that comes back from its worker, an event of the device or
 * one of the CM is there. It takes all notes that there are before anything else: so when many
 * sessions are over at once, the queue pairs of all of them are in ERR before the first of them is
 * taken apart. Of the rest it does some in a turn.
 *
 * WHERE MANY COME AT ONCE, each has a few steps to make, and waits for each no longer than its
 * time-out. Were they served in the order of their coming, all would be through at the same time,
 * or none, when that is too late. So queue pairs go before new sessions: those that have begun are
 * through first, and a job whose session has ended is not begun. Of new sessions some come in each
 * turn all the same.
 */
#include "server/session/pairs.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/mutant.h"
#include "common/base/time.h"
#include "server/session/session.h"

#define OPENS_MAX  8u /* a turn */
#define BEGINS_MAX 2u

int pairs_init(struct pairs *p)
{
	int rc = mailbox_create(&p->asks);

	if (rc)
		return rc;
	rc = mailbox_create(&p->obeyed);
	if (rc)
		mailbox_destroy(&p->asks);
	CDS_INIT_LIST_HEAD(&p->begun);
	CDS_INIT_LIST_HEAD(&p->opens);
	CDS_INIT_LIST_HEAD(&p->begins);
	CDS_INIT_LIST_HEAD(&p->failed);
	return rc;
}

void pairs_destroy(struct pairs *p)
{
	mailbox_destroy(&p->obeyed);
	mailbox_destroy(&p->asks);
}

void pairs_fatal(struct sessions *all, const char *why)
{
	atomic_store_explicit(&all->fatal, why, memory_order_relaxed);
	sessions_wake_control(all);
}

static void device_events(struct sessions *all)
{
	const struct rdma_device *dev = all->dev;
	struct rdma_event event;

	while (rdma_device_event(dev, &event) == 0) {
		log_line(event.fatal  ? LOG_ERROR
			 : event.port ? LOG_WARN
				      : LOG_DEBUG,
			 "rdma", "%s: %s", dev->name, event.text);
		if (event.fatal)
			pairs_fatal(all, event.text);
		if (event.last_receive) /* it is still there: events die with their queue pair */
			pairs_last_receive(all, event.context);
	}
}

void pairs_job_done(struct session *s)
{
	mailbox_post(&s->all->news, &s->job.note.mail);
}

static void begin(struct session *s)
{
	struct session_pairs *p = &s->pairs;
	struct sessions *all = s->all;

	s->job.err.code = rdma_buffer_create(all->dev, sizeof(struct epoch_slot),
					     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
					     "an epoch slot", &p->slot, &s->job.err);
	if (s->job.err.code == 0) {
		s->job.epoch = lease_join(&all->leases, &s->lease, p->slot.addr, s->number);
		cds_list_add_tail(&p->node, &all->pairs.begun);
		p->begun = true;
	}
	pairs_job_done(s);
}

/* The clock thread has let go of its lease, or never had it. */
static void left(struct session *s)
{
	struct grace *grace = sessions_grace(s->all);
	struct session_pairs *p = &s->pairs;

	if (p->begun) {
		grace_close_slot(grace, &s->lease.epoch);
		if (!p->unfenced && rdma_buffer_destroy(&p->slot)) {
			pairs_unfenced(s, "the epoch slot of a client could not be deregistered");
			pairs_watch(s); /* it was not waited for since its last queue pair went */
		}
		if (!p->unfenced)
			grace_leave(grace, &s->lease.epoch); /* it can READ nothing (I4) */
		reclaim_kick(s->all->store->reclaim);
	}
	mailbox_post(&s->all->news, &s->end.mail); /* it may be gone from now on */
}

void pairs_parted(struct session *s)
{
	if (s->pairs.begun && !MUTANT(lease_untold))
		lease_leave(&s->all->leases, &s->lease); /* left() goes on */
	else
		left(s);
}

static void end(struct session *s)
{
	struct session_pairs *p = &s->pairs;
	const struct opening o = p->opening;
	const bool job = p->job_stands || p->job_waits || (o.wanted && !o.cm);

	p->over = true;
	if (p->job_stands)
		cds_list_del(&p->job_node);
	p->job_stands = p->job_waits = false;
	p->opening = (struct opening){ 0 };
	if (p->begun)
		cds_list_del(&p->node);
	if (o.conn) /* its worker has it still: apart.c */
		pairs_part(s, o.conn);
	pairs_part_all(s, s->answer_until_ns);
	if (MUTANT(leave_early) && p->begun)
		lease_wait(&s->all->leases, &s->lease, false, time_now_ns());
	if (o.cm)
		cm_reject(o.cm, -ECONNRESET, "the session has ended");
	if (job)
		pairs_job_done(s);
	if (cds_list_empty(&p->apart))
		pairs_parted(s);
}

static void put_off(struct cds_list_head *jobs, struct session *s)
{
	cds_list_add_tail(&s->pairs.job_node, jobs);
	s->pairs.job_stands = true;
}

/* Returns whether more stand there. */
static bool do_some(struct cds_list_head *jobs, unsigned most, void (*job)(struct session *s))
{
	for (unsigned i = 0; i < most && !cds_list_empty(jobs); i++) {
		struct session *s = cds_list_first_entry(jobs, struct session, pairs.job_node);

		cds_list_del(&s->pairs.job_node);
		s->pairs.job_stands = false;
		job(s);
	}
	return !cds_list_empty(jobs);
}

static void take(struct sessions *all, struct note *note)
{
	switch (note->kind) {
	case NOTE_BEGIN:
		put_off(&all->pairs.begins, note->of);
		break;
	case NOTE_OPEN:
		put_off(&all->pairs.opens, note->of);
		break;
	case NOTE_CLOSE:
		pairs_open_job(note->of);
		break;
	case NOTE_END:
		end(note->of);
		break;
	case NOTE_LEASE_GOES:
		left(caa_container_of((struct lease *)note->of, struct session, lease));
		break;
	case NOTE_STOP:
		all->pairs.stopping = true;
		break;
	case NOTE_LEASE_COMES:
	case NOTE_FOUND: /* others' */
		break;
	}
}

static void take_notes(struct sessions *all)
{
	struct mail *next;

	for (struct mail *m = mailbox_take(&all->pairs.asks); m; m = next) {
		next = m->next; /* one that is sent back may be gone */
		take(all, note_of_mail(m));
	}
}

/* The shorter one, where -1 is for ever. */
static int sooner(int a_ms, int b_ms)
{
	return a_ms < 0 || (b_ms >= 0 && b_ms < a_ms) ? b_ms : a_ms;
}

/* ms until events of the CM are taken again, in which they are not listened for; -1: they are. */
static int deaf_ms(const struct pairs *p)
{
	const uint64_t now = time_now_ns();

	return now < p->cm_deaf_ns ? (int)((p->cm_deaf_ns - now) / NS_PER_MS) + 1 : -1;
}

static void *run(void *arg)
{
	struct sessions *all = arg;
	struct pairs *p = &all->pairs;

	while (!p->stopping) {
		struct pollfd fds[] = {
			{ .fd = p->asks.fd, .events = POLLIN },
			{ .fd = p->obeyed.fd, .events = POLLIN },
			{ .fd = rdma_device_event_fd(all->dev), .events = POLLIN },
			{ .fd = all->cm ? cm_listener_fd(all->cm) : -1, .events = POLLIN },
		};
		const bool opens = do_some(&p->opens, OPENS_MAX, pairs_open_job);
		const bool begins = do_some(&p->begins, BEGINS_MAX, begin);
		const int work_ms = pairs_work(all), cm_ms = deaf_ms(p);
		const int wait_ms = opens || begins ? 0 : sooner(work_ms, cm_ms);

		if (cm_ms >= 0)
			fds[3].fd = -1;
		if (poll(fds, sizeof(fds) / sizeof(fds[0]), wait_ms) < 0)
			continue;
		take_notes(all);
		if (fds[2].revents)
			device_events(all);
		if (fds[3].revents)
			pairs_cm_events(all);
	}
	return NULL;
}

int pairs_start(struct sessions *all, struct error *err)
{
	struct pairs *p = &all->pairs;
	int rc;

	p->stop = (struct note){ .kind = NOTE_STOP };
	rc = -pthread_create(&p->thread, NULL, run, all);
	if (rc)
		return error_set(err, rc,
				 "starting the thread of queue pairs failed: %s (raise the limit "
				 "of threads, or of memory)",
				 error_name(rc));
	pthread_setname_np(p->thread, "gkv-pairs");
	p->runs = true;
	return 0;
}

void pairs_stop(struct sessions *all)
{
	struct pairs *p = &all->pairs;

	if (!p->runs)
		return;
	mailbox_post(&p->asks, &p->stop.mail);
	pthread_join(p->thread, NULL);
	p->runs = false;
}
