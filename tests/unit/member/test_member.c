/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* A group whose primaries and backups die, give way, and are taken out: nothing is lost, and nobody
 * answers beside another one. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mutant.h"
#include "common/base/parse.h"
#include "common/rdma/tcp.h"
#include "tests/lib/unit.h"
#include "tests/unit/member/group.h"

#define FAIL_OVERS 6u

UNIT_GROUP(nodes_begin, nodes_finish);

UNIT_TEST(primaries_die)
{
	/* It shows where the new primary opens before the old one knows: sought until found. */
	const unsigned times = MUTANT(take_over_early) ? 30 * FAIL_OVERS : FAIL_OVERS;
	pthread_t writer;

	group_start(&writer);
	for (unsigned i = 0; i < times; i++) {
		struct node *dies = atomic_load(&primary);

		await_written();
		time_sleep(unit_below(50 * NS_PER_MS));
		kill_while_written(dies);
		await_in_sync(NODES - 1);
		await_written();
		node_start((unsigned)(dies - node));
		await_in_sync(NODES);
	}
	assert_true(atomic_load(&leads) > FAIL_OVERS);
	group_end(writer);
}

/* Nobody is left who has all: a machine that is busy makes a primary take out a backup that stands
 * still for too long, and then it died alone. */
static bool is_over(void)
{
	const struct group_known now = known();
	const uint64_t last = now.config.primary;

	for (unsigned i = 0; i < NODES; i++)
		if (node[i].member && node[i].life == last)
			return false;
	return now.modified && group_in_sync(&now.config) == 1;
}

/* The next one dies as soon as it leads, or before; the last one goes on alone. False: it did not
 * come to that. */
static bool two_die(void)
{
	struct node *first, *second = NULL;
	pthread_t writer;

	group_start(&writer);
	first = atomic_load(&primary);
	kill_while_written(first);
	if (!is_over()) {
		await_in_sync(1);
		second = atomic_load(&primary);
		time_sleep(unit_below(100 * NS_PER_MS));
		kill_while_written(second);
	}
	if (!second || is_over()) {
		group_kill(writer);
		return false;
	}
	await_in_sync(1);
	await_written();
	node_start((unsigned)(first - node));
	node_start((unsigned)(second - node));
	group_end(writer);
	return true;
}

UNIT_TEST(two_die_one_after_the_other)
{
	unsigned done = 0;

	for (unsigned i = 0; i < 3 * FAIL_OVERS && done < FAIL_OVERS / 2; i++)
		done += two_die();
	assert_int_equal(done, FAIL_OVERS / 2);
}

/* Backups die, and writes go on. */
UNIT_TEST(backups_die)
{
	pthread_t writer;

	group_start(&writer);
	for (unsigned i = 0; i < FAIL_OVERS / 2; i++) {
		const unsigned at = (unsigned)(atomic_load(&primary) - node);
		const unsigned dies = (at + 1 + (unsigned)unit_below(NODES - 1)) % NODES;

		kill_while_written(&node[dies]);
		await_written();
		node_start(dies);
		await_in_sync(NODES);
	}
	group_end(writer);
}

/* etcd stands still, and writes go on. */
UNIT_TEST(etcd_is_stopped)
{
	pthread_t writer;

	group_start_calmly(&writer);
	real_signal(etcd, SIGSTOP);
	await_written();
	time_sleep(2 * CALM_MS * NS_PER_MS);
	await_written();
	real_signal(etcd, SIGCONT);
	group_end(writer);
}

/* A backup goes by the group's terms, and not by those that it would have founded one with: it has
 * waited for somebody to do so. If it took over by its own, the primary could answer yet. */
UNIT_TEST(terms_are_those_of_the_group)
{
	const uint64_t end_ns = time_now_ns() + PATIENCE_NS;
	struct member_state s;
	uint64_t began_ns;
	pthread_t writer;

	group_prepare(true, LEASE_MS / 3);
	node[1].was_member = true;
	node_start(1);
	do {
		assert_true(time_now_ns() < end_ns);
		time_sleep(NS_PER_MS);
		member_look(node[1].member, &s);
	} while (s.role != MEMBER_WAITS);
	lease_ms = CALM_MS;
	node_start(0);
	await_in_sync(2);
	assert_ok(pthread_create(&writer, NULL, write_on, NULL));
	await_written();
	began_ns = time_now_ns();
	kill_while_written(&node[0]);
	await_in_sync(1);
	assert_ptr_equal(atomic_load(&primary), &node[1]);
	assert_true(time_now_ns() - began_ns > CALM_MS / 2 * NS_PER_MS); /* beats are closer */
	group_kill(writer);
}

/* As kv-cluster: asks @n, and waits. Returns 0: @done; or what it was refused with. */
static int ask(const struct node *n, enum wire_group_what what, const char *name,
	       struct wire_group_done *done)
{
	struct wire_frame f = { .type = WIRE_GROUP_ASK, .group_ask = { .what = what } };
	const uint64_t end_ns = time_now_ns() + PATIENCE_NS;
	struct exchange_reader reader = { 0 };
	char host[256] = "", port[8] = "";
	int fd, rc;

	snprintf(f.group_ask.node, sizeof(f.group_ask.node), "%s", name);
	assert_ok(parse_host_port("", n->address, host, port, &err));
	assert_ok(tcp_connect(host, port, end_ns, &fd, &err));
	assert_ok(exchange_send(fd, &f, end_ns, &err));
	rc = exchange_recv(fd, &reader, WIRE_GROUP_DONE, &f, end_ns, &err);
	close(fd);
	*done = f.group_done;
	return rc;
}

static struct node *another(const struct node *than)
{
	return &node[((unsigned)(than - node) + 1 + (unsigned)unit_below(NODES - 1)) % NODES];
}

/* Until it is said, or the one that was asked is not primary any more. */
static int ask_primary(enum wire_group_what what, const char *name, struct wire_group_done *done)
{
	struct node *p;

	while (!(p = atomic_load(&primary)))
		time_sleep(NS_PER_MS);
	return ask(p, what, name, done);
}

/* Nobody serves while another one does, and nothing is lost. */
UNIT_TEST(primaries_give_way)
{
	struct wire_group_done done;
	pthread_t writer;

	group_start(&writer);
	for (unsigned i = 0; i < FAIL_OVERS; i++) {
		struct node *p = atomic_load(&primary), *to = another(p);
		const uint64_t term = known().config.term;

		await_written();
		assert_ok(ask(p, WIRE_GROUP_ASK_SWITCH, to->name, &done));
		assert_int_equal(done.term, term + 1);
		assert_int_equal(known().config.primary, to->life);
		await_written();
		await_in_sync(NODES);
	}
	assert_int_equal(ask_primary(WIRE_GROUP_ASK_SWITCH, "nobody", &done), -ENOENT);
	assert_int_equal(ask_primary(WIRE_GROUP_ASK_SWITCH, atomic_load(&primary)->name, &done),
			 -EALREADY);
	assert_int_equal(ask(another(atomic_load(&primary)), WIRE_GROUP_ASK_SWITCH, "", &done),
			 -EREMOTE);
	group_end(writer);
}

/* etcd stands still: the switch waits for it, or is off, and writes go on. */
UNIT_TEST(a_switch_that_etcd_does_not_answer)
{
	struct wire_group_done done;
	pthread_t writer;
	struct node *p;
	uint64_t term;

	group_start_calmly(&writer);
	p = atomic_load(&primary);
	term = known().config.term;
	real_signal(etcd, SIGSTOP);
	assert_true(ask(p, WIRE_GROUP_ASK_SWITCH, "", &done) < 0);
	await_written();
	real_signal(etcd, SIGCONT);
	assert_ptr_equal(atomic_load(&primary), p);
	assert_int_equal(known().config.term, term);
	group_end(writer);
}

/* Whoever is taken out by a person knows it, and does not come back by itself. */
UNIT_TEST(a_person_takes_one_out)
{
	struct wire_group_done done;
	struct group_known now;
	struct node *goes;
	pthread_t writer;

	group_start(&writer);
	goes = another(atomic_load(&primary));
	assert_int_equal(ask_primary(WIRE_GROUP_ASK_REMOVE, "nobody", &done), -ENOENT);
	assert_int_equal(ask_primary(WIRE_GROUP_ASK_REMOVE, atomic_load(&primary)->name, &done),
			 -EINVAL);
	assert_ok(ask_primary(WIRE_GROUP_ASK_REMOVE, goes->name, &done));
	now = known();
	assert_int_equal(group_in_sync(&now.config), NODES - 1);
	for (const uint64_t end_ns = time_now_ns() + PATIENCE_NS; !atomic_load(&goes->ended);) {
		check_so_far(end_ns);
		time_sleep(NS_PER_MS);
	}
	assert_int_equal(atomic_load(&goes->why), WIRE_PEER_DISMISSED);
	await_written();
	group_end(writer); /* it is started again by a person */
}

/* All have died. A person says which one is to go on, and it is the only one that is asked. */
UNIT_TEST(all_are_gone_and_a_person_says_who_goes_on)
{
	struct wire_group_done done;
	pthread_t writer;
	uint64_t term;

	group_start(&writer);
	atomic_store(&stop_writing, true);
	pthread_join(writer, NULL);
	term = known().config.term;
	for (unsigned i = 0; i < NODES; i++) {
		node_kill(&node[i]);
		atomic_store(&node[i].serves, false); /* as the person says */
	}
	memset(acknowledged, 0, NUMBERS_MAX); /* it is lost */
	node_start(1);
	for (const uint64_t end_ns = time_now_ns() + PATIENCE_NS;
	     ask(&node[1], WIRE_GROUP_ASK_FORCE, "", &done);) {
		assert_int_equal(err.code, -EBUSY); /* it asks etcd yet */
		check_so_far(end_ns);
		time_sleep(10 * NS_PER_MS);
	}
	assert_int_equal(done.term, term + 1);
	assert_int_equal(ask(&node[1], WIRE_GROUP_ASK_FORCE, "", &done), -EBUSY);
	atomic_store(&stop_writing, false);
	await_in_sync(1);
	assert_ok(pthread_create(&writer, NULL, write_on, NULL));
	node_start(0);
	node_start(2);
	await_written();
	group_end(writer);
}

/* Directories: all die, and come back with what they had. */

static void await_ended(unsigned count)
{
	const uint64_t end_ns = time_now_ns() + PATIENCE_NS;
	unsigned ended;

	do {
		check_so_far(end_ns);
		time_sleep(NS_PER_MS);
		ended = 0;
		for (unsigned i = 0; i < NODES; i++)
			ended += node[i].member && atomic_load(&node[i].ended);
	} while (ended < count);
}

/* The primary last: nobody takes over meanwhile. */
static void all_die(void)
{
	struct node *last = atomic_load(&primary);

	for (unsigned i = 0; i < NODES; i++)
		if (node[i].member && &node[i] != last)
			kill_while_written(&node[i]);
	if (last && last->member)
		kill_while_written(last);
}

static void all_start(void)
{
	atomic_store(&dies_opening, false);
	for (unsigned i = 0; i < NODES; i++)
		node_start(i);
}

static void all_come_back(void)
{
	all_die();
	all_start();
	await_in_sync(NODES);
	await_written();
}

/* The primary dies, and so does who is named in its place, before it has answered anybody, and at
 * times another one after that. The first one comes back with all that was acknowledged. */
UNIT_TEST(who_took_over_never_answered)
{
	pthread_t writer;

	group_keep(&writer);
	for (unsigned i = 0; i < FAIL_OVERS / 2; i++) {
		struct node *p = atomic_load(&primary);

		await_written();
		atomic_store(&dies_opening, true);
		kill_while_written(p);
		await_ended(1 + i % 2);
		all_come_back();
	}
	group_end(writer);
}

/* The same by a planned switch: the one that gave way has not gone yet. */
UNIT_TEST(who_was_switched_to_never_answered)
{
	struct wire_group_done done;
	pthread_t writer;

	group_keep(&writer);
	await_written();
	atomic_store(&dies_opening, true);
	assert_ok(ask_primary(WIRE_GROUP_ASK_SWITCH, "", &done));
	await_ended(2);
	all_come_back();
	group_end(writer);
}

/* A server that has answered, and may lack some of it, gives nothing back: a person decides. */
UNIT_TEST(who_answered_waits_for_a_person)
{
	struct wire_group_done done;
	pthread_t writer;
	struct node *p;
	uint64_t life;

	group_keep(&writer);
	kill_while_written(atomic_load(&primary));
	await_in_sync(NODES - 1);
	p = atomic_load(&primary);
	life = p->life;
	await_written();
	atomic_store(&dies_opening, true);
	kill_while_written(p);
	all_die();
	atomic_store(&forgets, true);
	all_start();
	for (const uint64_t end_ns = time_now_ns() + PATIENCE_NS; known().config.primary != life;) {
		check_so_far(end_ns); /* if the third one was named, it gives back */
		time_sleep(NS_PER_MS);
	}
	time_sleep(4 * NS_PER_S); /* it waits for less */
	assert_int_equal(known().config.primary, life);
	assert_ok(ask(p, WIRE_GROUP_ASK_FORCE, "", &done));
	await_in_sync(NODES);
	await_written();
	group_end(writer);
}

/* What a life has proposed that died before etcd had it. */
static struct group_known late_from;
static uint64_t late_life;
static int late_rc;

static void come_late(struct node *n)
{
	const struct etcd_config c = { .endpoints = real_url(etcd), .timeout_ms = TIMEOUT_MS };
	struct group_config next = late_from.config;
	struct group_member m = *group_find(&next, next.primary);
	struct group_registry *r;
	struct group_known now;

	(void)n;
	at_own = NULL;
	m.life = late_life;
	assert_ok(group_registry_open(&r, &c, "test", "1", &err));
	assert_ok(group_return(&next, next.primary, &m, &err));
	late_rc = group_registry_propose(r, &late_from, &next, &now, &err);
	group_registry_close(r);
}

/* It comes when the life after it has vouched for itself, and forgotten it: too late. */
UNIT_TEST(what_an_earlier_life_proposed_comes_late)
{
	pthread_t writer;
	struct node *p;

	group_keep(&writer);
	await_written();
	all_die();
	late_from = known();
	for (p = node; p->life != late_from.config.primary;)
		assert_true(++p < node + NODES);
	late_life = 1ull << 40;
	p->answered[0] = late_life; /* as its own() has left it */
	p->answered[1] = p->life;
	late_rc = 0;
	at_own = come_late;
	node_start((unsigned)(p - node));
	await_in_sync(1);
	assert_int_equal(late_rc, -EAGAIN);
	node_start((unsigned)(p - node + 1) % NODES);
	node_start((unsigned)(p - node + 2) % NODES);
	await_in_sync(NODES);
	await_written();
	group_end(writer);
}
