/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The queue-pair thread: it makes queue pairs and epoch slots, takes them apart, and hears what the
 * device, the RDMA CM and the workers say of them. It alone calls verbs that may wait: on RoCE
 * ibv_modify_qp to RTR looks for the peer's link address, for up to a second. Who owns what stands
 * in session.h. Everything below is this thread's but for what its notes hand over.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <urcu/list.h>

#include "common/rdma/cm.h"
#include "common/rdma/exchange.h"
#include "server/session/note.h"
#include "server/session/reach.h"
#include "server/worker/worker.h"

struct session;
struct sessions;

/* All of them; part of struct sessions. */
struct pairs {
	struct mailbox asks; /* notes for this thread */
	struct mailbox obeyed; /* connections that come back from their workers */
	struct mail *obeyed_next; /* taken from there, and not looked at yet */
	struct cds_list_head begun; /* sessions that are not over, for requests of the CM */
	struct cds_list_head opens, begins; /* jobs that have come, oldest first */
	struct cds_list_head
		failed; /* connections that wait for their last receive, oldest first */
	unsigned untold; /* waits for the last receive of queue pairs in vain, since one was not */
	struct reach reach; /* GIDs that lead somewhere, and when others may be tried */
	uint64_t cm_deaf_ns; /* until then none of its events is taken, since one could not be */
	uint64_t cm_deaf_told_ns; /* the last line of the log about it */
	uint64_t cm_refusals; /* since cm_complaint_ns, without a line in the log */
	uint64_t cm_complaint_ns; /* when a refused request of the CM was logged last */
	bool stopping;
	/* Whose starts it. */
	pthread_t thread;
	bool runs;
	struct note stop;
};

/* A queue pair that is being made. One of a session at a time. */
struct opening {
	bool wanted;
	unsigned handle, credits;
	struct wire_qp offer; /* over the life line; ask 0: by the CM */
	struct cm *cm; /* by the CM, owned until it is accepted or rejected; NULL: not */
	uint8_t cm_mtu;
	struct conn *conn; /* made, and on its way to its worker; NULL: older ones must go first */
};

/* One session's share; part of struct session. */
struct session_pairs {
	struct cds_list_head node; /* in `begun` */
	bool begun; /* it has its slot, and is waited for where it has a queue pair */
	bool over; /* NOTE_END has come */
	bool given_up; /* it ends soon, by its life line */
	bool unfenced; /* a queue pair of it could not be destroyed: it is waited for to the end */
	struct rdma_buffer slot; /* struct epoch_slot */
	struct conn *conns[SESSION_QPS_MAX]; /* that workers answer on */
	struct cds_list_head apart; /* connections that are being taken apart */
	struct opening opening;
	struct cds_list_head job_node; /* in `opens` or `begins` */
	bool job_stands; /* there */
	bool job_waits; /* the session's, for the end of an opening by the CM */
	unsigned refusals; /* by the CM */
	int gid_index; /* that its queue pairs go out from, as logged last; -1: none yet */
};

/* pairs_init - and pairs_destroy, after all sessions. Returns 0 or a negative errno. */
int pairs_init(struct pairs *p);
void pairs_destroy(struct pairs *p);

/* pairs_start - the thread. Returns 0 or a negative errno with @err. */
int pairs_start(struct sessions *all, struct error *err);
/* pairs_stop - every NOTE_END has come back: end the thread. One that was not started is fine. */
void pairs_stop(struct sessions *all);

/* pairs_fatal - the server cannot go on: the control thread ends it. @why: static. Any thread. */
void pairs_fatal(struct sessions *all, const char *why);

/* Notes (pairs.c). pairs_job_done - the session's job is done: session->job has the result. */
void pairs_job_done(struct session *s);
/* pairs_parted - one that is over has no queue pair any more: its slot goes, and it comes back. */
void pairs_parted(struct session *s);

/*
 * Making one (queue_pairs.c). pairs_open_job - of the life line: session->job.
 * pairs_open - opening says what is wanted: older queue pairs of that handle are taken apart,
 * one is made and connected, its worker is told, and then the client.
 * pairs_open_on - go on with that, if an older one was in its way and is gone.
 * pairs_attached - its worker has it, or has not: c->result.
 */
void pairs_open_job(struct session *s);
void pairs_open(struct session *s);
void pairs_open_on(struct session *s);
void pairs_attached(struct session *s, struct conn *c);
/* pairs_close - that of @handle, where there is one; @cm: only if that connected it; NULL: any. */
void pairs_close(struct session *s, unsigned handle, const struct cm *cm);
/* pairs_watch - the session is waited for, and its lease runs, while it has a queue pair. */
void pairs_watch(struct session *s);

/* The CM (cm_requests.c). pairs_cm_events - take and obey some. pairs_refuse_cm - say why not, and
 * @cm is gone. */
void pairs_cm_events(struct sessions *all);
void pairs_refuse_cm(struct session *s, struct cm *cm, const struct error *err);

/* Taking apart (apart.c). pairs_part - one of its queue pairs, which goes to ERR at once. */
void pairs_part(struct session *s, struct conn *c);
/* pairs_part_all - all; @answer_until_ns: as session_end(). */
void pairs_part_all(struct session *s, uint64_t answer_until_ns);
/* pairs_parts - whether one of @handle is being taken apart. */
bool pairs_parts(const struct session *s, unsigned handle);
/*
 * pairs_unfenced - its client may go on to access memory: it is never left out of the wait (I4),
 * and the server ends. @why: static.
 */
void pairs_unfenced(struct session *s, const char *why);
/* pairs_drop - one that no worker has: now. */
void pairs_drop(struct session *s, struct conn *c);
/* pairs_last_receive - the device says that this one has given back its last receive. */
void pairs_last_receive(struct sessions *all, struct conn *c);
/*
 * pairs_work - go on with what has come back from workers, some of it, and with connections that
 * have waited for long enough. Returns ms until it wants to be called again; -1: it need not.
 */
int pairs_work(struct sessions *all);
