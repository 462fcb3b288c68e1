/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Wishes and their answers, with an etcd that is there, or stopped. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/time.h"
#include "server/member/proposer.h"
#include "tests/lib/folder.h"
#include "tests/lib/unit.h"
#include "tests/unit/etcd/real.h"

#define TIMEOUT_MS  20000u /* enough for what is answered, however busy the machine is */
#define SILENCE_MS  500u
#define PATIENCE_MS 120000

UNIT_GROUP(folder_make, folder_remove);

static struct error err;
static struct real *etcd;
static struct group_registry *registry;
static struct proposer *proposer;
static int wake_fd;

static void start(unsigned timeout_ms)
{
	const struct etcd_config config = { .endpoints = real_url(etcd), .timeout_ms = timeout_ms };

	wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_ok(group_registry_open(&registry, &config, "test", "1", &err));
	assert_ok(proposer_start(&proposer, registry, wake_fd, &err));
}

static void stop(void)
{
	proposer_stop(proposer);
	group_registry_close(registry);
	close(wake_fd);
}

static struct proposer_answer await_answer(void)
{
	struct pollfd woken = { .fd = wake_fd, .events = POLLIN };
	struct proposer_answer a;
	eventfd_t times;

	do {
		assert_int_equal(poll(&woken, 1, PATIENCE_MS), 1);
		eventfd_read(wake_fd, &times);
	} while (!proposer_take(proposer, &a));
	assert_false(proposer_is_busy(proposer));
	return a;
}

/* Of an etcd that is there: it may have to elect itself first. */
static struct group_known read_now(void)
{
	struct proposer_answer a;

	do {
		proposer_read(proposer);
		a = await_answer();
	} while (a.rc == -ETIMEDOUT || a.rc == -EREMOTEIO);
	assert_ok(a.rc);
	return a.now;
}

static struct group_known found(const struct group_known *none)
{
	struct group_config c = { .lease_ms = 300, .min_in_sync = 1 };
	const struct group_member m = { .life = 1, .node = "a", .address = "a:1" };
	struct proposer_answer a;

	group_found(&c, &m);
	proposer_propose(proposer, none, &c);
	a = await_answer();
	assert_ok(a.rc);
	return a.now;
}

static struct group_config with(const struct group_known *from, const char *node)
{
	struct group_config next = from->config;
	struct group_member m = { .life = 100, .address = "b:1" };

	strcpy(m.node, node);
	assert_ok(group_add(&next, 1, &m, &err));
	return next;
}

UNIT_TEST(wishes_and_answers)
{
	struct group_known none, now;
	struct proposer_answer a;
	struct group_config next;

	etcd = real_start("http", NULL);
	start(TIMEOUT_MS);
	assert_false(proposer_take(proposer, &a));
	none = read_now();
	assert_int_equal(none.modified, 0);
	now = found(&none);
	next = with(&now, "b");
	proposer_propose(proposer, &now, &next);
	a = await_answer();
	assert_ok(a.rc);
	assert_int_equal(a.now.config.term, 2);
	proposer_propose(proposer, &now, &next);
	a = await_answer();
	assert_int_equal(a.rc, -EAGAIN);
	assert_int_equal(a.now.config.term, 2);
	assert_int_equal(read_now().modified, a.now.modified);
	stop();
	real_end(etcd);
}

/* As long as nobody knows, nothing is said; and what comes in its place is what is answered. */
static void silent(const char *instead)
{
	struct group_known none, from;
	struct group_config next;
	struct proposer_answer a;

	etcd = real_start("http", NULL);
	start(TIMEOUT_MS);
	none = read_now();
	from = found(&none);
	stop();
	start(SILENCE_MS);
	next = with(&from, "b");
	real_signal(etcd, SIGSTOP);
	proposer_propose(proposer, &from, &next);
	time_sleep(4 * SILENCE_MS * NS_PER_MS);
	assert_false(proposer_take(proposer, &a));
	if (instead) {
		next = with(&from, instead);
		proposer_propose(proposer, &from, &next);
		time_sleep(2 * SILENCE_MS * NS_PER_MS);
	}
	real_signal(etcd, SIGCONT);
	a = await_answer();
	assert_int_equal(a.now.config.term, 2);
	if (a.rc != -EAGAIN || !group_find_node(&a.now.config, "b")) /* else the first one came */
		assert_non_null(group_find_node(&a.now.config, instead ? instead : "b"));
	stop();
	real_end(etcd);
}

UNIT_TEST(nobody_knows)
{
	silent(NULL);
}

UNIT_TEST(another_one_in_its_place)
{
	silent("c");
}

UNIT_TEST(it_stops_at_once)
{
	struct group_known none, from;
	struct group_config next;
	uint64_t ns;

	etcd = real_start("http", NULL);
	start(TIMEOUT_MS);
	none = read_now();
	from = found(&none);
	next = with(&from, "b");
	real_signal(etcd, SIGSTOP);
	proposer_propose(proposer, &from, &next);
	time_sleep(SILENCE_MS * NS_PER_MS);
	ns = time_now_ns();
	stop();
	assert_true(time_now_ns() - ns < TIMEOUT_MS / 2 * NS_PER_MS);
	real_signal(etcd, SIGCONT);
	real_end(etcd);
}
