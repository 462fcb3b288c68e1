/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * HELLO and WELCOME. A stranger becomes a session when its HELLO is sound, and no other one of its
 * client is left; the WELCOME goes out when its slot is made.
 */
#include "server/session/session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/random.h"
#include "common/base/time.h"

#define WAITING_MAX (STRANGERS_MAX * 3 / 4)

static int check_hello(const struct wire_hello *h, struct error *err)
{
	if (h->layout_version != LAYOUT_VERSION || h->layout_hash != layout_hash())
		return error_set(err, -EPROTONOSUPPORT,
				 "the client was built for layout %u with hash %016" PRIx64
				 ", this server for %u with %016" PRIx64
				 " (install the same GraceKV release on both)",
				 h->layout_version, h->layout_hash, LAYOUT_VERSION, layout_hash());
	if (h->client_id[0] == 0 && h->client_id[1] == 0)
		return error_set(err, -EPROTO, "the client sent no client id");
	return 0;
}

static struct session *find_client(const struct cds_list_head *list, const uint64_t id[2])
{
	struct session *s;

	cds_list_for_each_entry (s, list, node) {
		if (s->client->id[0] == id[0] && s->client->id[1] == id[1])
			return s;
	}
	return NULL;
}

/* Whether it has to wait for the end of another session, which is then in *@awaits; NULL: of any.
 * Exactly once: no request of the older session is applied when the new one has its WELCOME. */
static bool must_wait(struct sessions *all, const uint64_t id[2], struct session **awaits)
{
	struct session *older = find_client(&all->list, id);

	if (older) {
		log_info("session", "client %s came back: its session %" PRIu64 " is fenced",
			 older->name, older->number);
		session_end(older, 0);
	}
	*awaits = find_client(&all->parting, id);
	if (*awaits)
		return true;
	return atomic_load_explicit(&all->counters.sessions, memory_order_relaxed) >=
		       SESSIONS_MAX &&
	       !cds_list_empty(&all->parting);
}

/* Of a group: where the others are, before the answer to HELLO. */
static void tell_servers(struct session *s)
{
	struct wire_server server[WIRE_GROUP_MEMBERS_MAX];
	const struct sessions *all = s->all;
	const unsigned count = all->servers ? all->servers(all->group_ctx, server) : 0;

	for (unsigned i = 0; i < count && !s->ending; i++) {
		const struct wire_frame frame = { .type = WIRE_SERVER, .server = server[i] };

		session_send(s, &frame);
	}
}

void session_welcome(struct session *s)
{
	const struct sessions *all = s->all;
	const struct rdma_buffer *slot = &s->pairs.slot; /* stands from BEGIN to END */
	struct wire_frame frame = {
		.type = WIRE_WELCOME,
		.welcome = {
			.session = s->number,
			.generation = s->number,
			.epoch = s->job.epoch,
			.server_incarnation = all->root->server_incarnation,
			.root_addr = (uintptr_t)all->root,
			.slot_addr = (uintptr_t)slot->addr,
			.root_rkey = all->root_rkey,
			.slot_rkey = slot->region.rkey,
			.lease_ms = all->lease_ms,
			.eager_max = RPC_EAGER_MAX,
			.key_max = KEY_MAX,
			.value_max = VALUE_MAX,
			.qps_max = SESSION_QPS_MAX,
			.credits_max = RPC_SLOTS_MAX,
			.resumed = s->resumed,
			.pid = (uint32_t)getpid(),
			.cm_token = s->cm_token,
			.cm_port = all->cm_port,
			.group_lease_ms = all->group_lease_ms,
			.rho_ppm = all->rho_ppm,
		},
	};

	snprintf(frame.welcome.device, sizeof(frame.welcome.device), "%s", all->dev->name);
	tell_servers(s);
	session_send(s, &frame);
}

/* HELLO was read and is sound: the stranger becomes a session, and its slot is asked for. */
static int session_begin(struct session *s, const struct wire_hello *h, struct error *err)
{
	struct sessions *all = s->all;
	int rc;

	if (atomic_load_explicit(&all->counters.sessions, memory_order_relaxed) >= SESSIONS_MAX)
		return error_set(err, -EUSERS, "the server has %u sessions, no more fit",
				 SESSIONS_MAX);
	rc = random_fill(&s->cm_token, sizeof(s->cm_token), err);
	if (rc)
		return rc;
	s->cm_token |= 1; /* never 0 */
	s->number = all->newest + 1;
	s->pid = h->pid;
	memcpy(s->name, h->name, sizeof(s->name));
	rc = clients_attach(all->clients, h->client_id, s->number, h->first_sequence, &s->client,
			    &s->resumed);
	if (rc)
		return error_set(err, rc, "the server cannot remember more clients: %s",
				 error_name(rc));
	cds_list_del(&s->node);
	cds_list_add_tail(&s->node, &all->list);
	s->begun = true;
	all->newest = s->number;
	session_count(&all->counters.strangers, -1);
	session_count(&all->counters.sessions, 1);
	session_count(&all->counters.resumed, s->resumed);
	log_info("session", "session %" PRIu64 " begins: %s, process %u%s", s->number, s->name,
		 s->pid, s->resumed ? ", a client that was here before" : "");
	session_post(s, NOTE_BEGIN);
	return 0;
}

/* Until what it waits for is there. */
static int wait(struct session *s, const struct wire_hello *h, struct error *err)
{
	if (!s->hello) {
		s->hello = malloc(sizeof(*s->hello));
		if (!s->hello)
			return error_set(err, -ENOMEM, "out of memory for a client that waits");
		*s->hello = *h;
	}
	session_pause(s);
	cds_list_add_tail(&s->waiting_node, &s->all->waiting);
	return 0;
}

/* For a server that is about to serve. All who wait are strangers yet, and others, as the servers
 * of its group, must find a place, too. */
static int wait_to_be_served(struct session *s, const struct wire_hello *h, struct error *err)
{
	const struct session_counters *c = &s->all->counters;

	if (!s->hello && atomic_load_explicit(&c->strangers, memory_order_relaxed) > WAITING_MAX)
		return error_set(err, -EAGAIN, "too many clients wait (come again in a moment)");
	return wait(s, h, err);
}

/* A sound HELLO of a stranger that is in no list of those that wait. */
static void try_to_begin(struct session *s, const struct wire_hello *h)
{
	struct sessions *all = s->all;
	struct error err = { 0 };
	enum sessions_serve may = SESSIONS_SERVED;

	if (all->serves)
		may = all->serves(all->group_ctx, h->server_incarnation,
				  time_now_ns() - s->hello_ns, &err);

	s->awaits = NULL;
	if (may == SESSIONS_LATER)
		wait_to_be_served(s, h, &err);
	else if (may == SESSIONS_SERVED && must_wait(all, h->client_id, &s->awaits))
		wait(s, h, &err);
	else if (may == SESSIONS_SERVED)
		session_begin(s, h, &err);
	else
		tell_servers(s);
	if (!err.code)
		return;
	session_refuse(s, 0, &err);
	s->ending = true;
}

void sessions_admit(struct sessions *all)
{
	while (!cds_list_empty(&all->ready)) {
		struct session *s = cds_list_first_entry(&all->ready, struct session, waiting_node);

		cds_list_del_init(&s->waiting_node);
		try_to_begin(s, s->hello);
		if (s->ending) {
			session_end(s, 0);
		} else if (s->begun) {
			free(s->hello);
			s->hello = NULL;
		}
	}
}

/* @gone is: strangers that waited for it, and the first that waits for any, are looked at again. */
void sessions_wake(struct sessions *all, const struct session *gone)
{
	struct session *s, *next;
	bool room = true;

	cds_list_for_each_entry_safe (s, next, &all->waiting, waiting_node) {
		if (s->awaits != gone && (s->awaits || !room))
			continue;
		room &= s->awaits == gone;
		cds_list_del(&s->waiting_node);
		cds_list_add_tail(&s->waiting_node, &all->ready);
	}
}

void sessions_retry(struct sessions *all)
{
	if (all->serves && !cds_list_empty(&all->waiting))
		sessions_wake(all, NULL);
}

void session_hello(struct session *s, const struct wire_hello *h)
{
	struct error err;

	s->hello_ns = time_now_ns();
	if (check_hello(h, &err) == 0) {
		try_to_begin(s, h);
		return;
	}
	session_refuse(s, 0, &err);
	s->ending = true;
}
