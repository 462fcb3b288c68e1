/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The lines that say what the fake devices are like: fake_device.h lists them. */
#include "tests/lib/fake_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WORDS	  12
#define LINE	  512
#define ERRNO_END 134
#define FOLLOW_NS 5000000L

struct fake_state fake = { .lock = PTHREAD_MUTEX_INITIALIZER };

const char *const fake_call_names[FAKE_CALLS] = {
	[FAKE_OPEN_DEVICE] = "open_device", [FAKE_QUERY_DEVICE] = "query_device",
	[FAKE_QUERY_PORT] = "query_port",   [FAKE_QUERY_GIDS] = "query_gids",
	[FAKE_ALLOC_PD] = "alloc_pd",	    [FAKE_REG_MR] = "reg_mr",
	[FAKE_DEREG_MR] = "dereg_mr",	    [FAKE_CREATE_CHANNEL] = "create_channel",
	[FAKE_CREATE_CQ] = "create_cq",	    [FAKE_DESTROY_CQ] = "destroy_cq",
	[FAKE_CREATE_SRQ] = "create_srq",   [FAKE_DESTROY_SRQ] = "destroy_srq",
	[FAKE_CREATE_QP] = "create_qp",	    [FAKE_TO_RESET] = "to_reset",
	[FAKE_TO_INIT] = "to_init",	    [FAKE_TO_RTR] = "to_rtr",
	[FAKE_TO_RTS] = "to_rts",	    [FAKE_TO_ERR] = "to_err",
	[FAKE_DESTROY_QP] = "destroy_qp",
};

struct words {
	const char *line; /* all of it */
	unsigned count;
	char *word[WORDS];
};

static void bad(const char *what, const char *where)
{
	fprintf(stderr, "fake devices: %s: %s\n", what, where);
	abort();
}

/* A word that must be there. */
static const char *word(const struct words *w, unsigned at)
{
	if (at >= w->count)
		bad("a word is missing", w->line);
	return w->word[at];
}

static unsigned number(const struct words *w, const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 0);

	if (!*text || *end)
		bad("not a number", w->line);
	return (unsigned)n;
}

static unsigned number_or(const struct words *w, unsigned at, unsigned otherwise)
{
	return at < w->count ? number(w, w->word[at]) : otherwise;
}

/* The place of @text in a list that ends with NULL. */
static unsigned one_of(const struct words *w, const char *text, const char *const *names)
{
	for (unsigned i = 0; names[i]; i++) {
		if (strcmp(names[i], text) == 0)
			return i;
	}
	bad("unknown", w->line);
	return 0;
}

struct fake_rule *fake_call_named(const char *name)
{
	for (unsigned i = 0; i < FAKE_CALLS; i++) {
		if (strcmp(fake_call_names[i], name) == 0)
			return &fake.rule[i];
	}
	bad("no such call", name);
	return NULL;
}

/* What follows @name= among the words from @from on, or NULL. */
static const char *option(const struct words *w, unsigned from, const char *name)
{
	size_t len = strlen(name);

	for (unsigned i = from; i < w->count; i++) {
		if (strncmp(w->word[i], name, len) == 0 && w->word[i][len] == '=')
			return w->word[i] + len + 1;
	}
	return NULL;
}

static struct fake_device *device_named(const struct words *w)
{
	const char *name = word(w, 1);

	for (unsigned i = 0; i < fake.devices; i++) {
		if (strcmp(fake.device[i].base.name, name) == 0)
			return &fake.device[i];
	}
	return NULL;
}

static struct fake_device *known_device(const struct words *w)
{
	struct fake_device *d = device_named(w);

	if (!d)
		bad("no such device", w->line);
	return d;
}

static struct fake_port *known_port(const struct words *w)
{
	struct fake_device *d = known_device(w);
	unsigned n = number(w, word(w, 2));

	if (n < 1 || n > d->ports)
		bad("no such port", w->line);
	return &d->port[n - 1];
}

static struct fake_device *new_device(const struct words *w)
{
	struct fake_device *d = &fake.device[fake.devices];

	if (fake.devices == FAKE_DEVICES)
		bad("too many devices", w->line);
	fake.devices++;
	*d = (struct fake_device){
		.base = { .node_type = IBV_NODE_CA, .transport_type = IBV_TRANSPORT_IB },
		.ports = 1,
		.vectors = 1,
		.numa_node = -1,
	};
	snprintf(d->base.name, sizeof(d->base.name), "%s", word(w, 1));
	for (unsigned i = 0; i < FAKE_PORTS; i++) {
		d->port[i].pkeys = 1;
		d->port[i].pkey[0] = 0xffff;
		d->port[i].attr = (struct ibv_port_attr){ .state = IBV_PORT_ACTIVE,
							  .active_mtu = IBV_MTU_4096,
							  .link_layer = IBV_LINK_LAYER_ETHERNET };
	}
	return d;
}

static void say_device(const struct words *w)
{
	struct fake_device *d = device_named(w);
	const char *text;

	if (!d)
		d = new_device(w);
	text = option(w, 2, "ports");
	d->ports = text ? number(w, text) : d->ports;
	text = option(w, 2, "vectors");
	d->vectors = text ? number(w, text) : d->vectors;
	text = option(w, 2, "numa");
	d->numa_node = text ? atoi(text) : d->numa_node;
	if (d->ports < 1 || d->ports > FAKE_PORTS || d->vectors < 1 || d->vectors > FAKE_VECTORS)
		bad("out of range", w->line);
}

static void say_port(const struct words *w)
{
	static const char *const states[] = { "nop", "down", "init", "armed", "active", NULL };
	static const char *const links[] = { "?", "infiniband", "ethernet", NULL };
	static const char *const mtus[] = { "?", "256", "512", "1024", "2048", "4096", NULL };
	struct fake_port *p = known_port(w);
	const char *text;

	text = option(w, 3, "state");
	p->attr.state = text ? (enum ibv_port_state)one_of(w, text, states) : p->attr.state;
	text = option(w, 3, "link");
	p->attr.link_layer = text ? (uint8_t)one_of(w, text, links) : p->attr.link_layer;
	text = option(w, 3, "mtu");
	p->attr.active_mtu = text ? (enum ibv_mtu)one_of(w, text, mtus) : p->attr.active_mtu;
	text = option(w, 3, "lid");
	p->attr.lid = text ? (uint16_t)number(w, text) : p->attr.lid;
	text = option(w, 3, "pkeys");
	p->pkeys = text ? number(w, text) : p->pkeys;
	if (p->pkeys > FAKE_PKEYS)
		bad("too many P_Keys", w->line);
}

static void gid_of(const struct words *w, const char *text, union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	if (inet_pton(AF_INET, text, gid->raw + 12) == 1)
		gid->raw[10] = gid->raw[11] = 0xff;
	else if (inet_pton(AF_INET6, text, gid->raw) != 1)
		bad("not an address", w->line);
}

static void say_gid(const struct words *w)
{
	static const char *const types[] = { "ib", "v1", "v2", "none", NULL };
	struct fake_port *p = known_port(w);
	unsigned index = number(w, word(w, 3)), type = one_of(w, word(w, 4), types);
	struct ibv_gid_entry *e = &p->gid[index < FAKE_GIDS ? index : 0];

	if (index >= FAKE_GIDS)
		bad("no such index", w->line);
	p->own_gids = true;
	*e = (struct ibv_gid_entry){ .gid_index = index,
				     .port_num = number(w, word(w, 2)),
				     .gid_type = type };
	if (type == 3)
		return;
	gid_of(w, word(w, 5), &e->gid);
	if (w->count <= 6)
		return;
	for (unsigned i = 0; i < fake.netdevs; i++) {
		if (strcmp(fake.netdev[i].name, w->word[6]) == 0)
			e->ndev_ifindex = fake.netdev[i].index;
	}
	if (!e->ndev_ifindex)
		bad("no such network device", w->line);
}

static void say_pkey(const struct words *w)
{
	struct fake_port *p = known_port(w);
	unsigned index = number(w, word(w, 3));

	if (index >= p->pkeys)
		bad("no such index", w->line);
	p->pkey[index] = (uint16_t)number(w, word(w, 4));
}

static void say_netdev(const struct words *w)
{
	struct fake_netdev *n = &fake.netdev[fake.netdevs];

	if (fake.netdevs == FAKE_NETDEVS)
		bad("too many network devices", w->line);
	snprintf(n->name, sizeof(n->name), "%s", word(w, 1));
	n->index = number(w, word(w, 2));
	snprintf(n->address, sizeof(n->address), "%s", word(w, 3));
	if (w->count > 4)
		gid_of(w, w->word[4], &n->ib_gid);
	fake.netdevs++;
}

static void say_delay(const struct words *w)
{
	fake_call_named(word(w, 1))->delay_us = number(w, word(w, 2));
}

static void say_fail(const struct words *w)
{
	struct fake_rule *r = fake_call_named(word(w, 1));
	const char *name = word(w, 2);

	r->error = 0;
	for (int i = 1; i < ERRNO_END && strcmp(name, "0") != 0; i++) {
		const char *known = strerrorname_np(i);

		if (known && strcmp(known, name) == 0)
			r->error = i;
	}
	if (!r->error && strcmp(name, "0") != 0)
		bad("no such errno", w->line);
	r->first = r->calls + number_or(w, 3, 1);
	r->every = number_or(w, 4, 1);
}

static void say_event(const struct words *w)
{
	static const char *const names[] = { "lid_change",  "gid_change",   "pkey_change",
					     "sm_change",   "port_error",   "client_reregister",
					     "port_active", "device_fatal", NULL };
	static const enum ibv_event_type types[] = {
		IBV_EVENT_LID_CHANGE,  IBV_EVENT_GID_CHANGE,  IBV_EVENT_PKEY_CHANGE,
		IBV_EVENT_SM_CHANGE,   IBV_EVENT_PORT_ERR,    IBV_EVENT_CLIENT_REREGISTER,
		IBV_EVENT_PORT_ACTIVE, IBV_EVENT_DEVICE_FATAL
	};

	fake_raise(known_device(w), types[one_of(w, word(w, 2), names)], (int)number_or(w, 3, 1));
}

/* Must hold the lock. @line: changed. */
static void run_line(char *line)
{
	static const struct {
		const char *name;
		void (*say)(const struct words *w);
	} sayings[] = { { "device", say_device }, { "port", say_port },	    { "gid", say_gid },
			{ "pkey", say_pkey },	  { "netdev", say_netdev }, { "delay", say_delay },
			{ "fail", say_fail },	  { "event", say_event } };
	char whole[LINE], *save = NULL;
	struct words w = { .line = whole };

	line[strcspn(line, "#\n")] = '\0';
	snprintf(whole, sizeof(whole), "%s", line);
	for (char *p = strtok_r(line, " \t", &save); p; p = strtok_r(NULL, " \t", &save)) {
		if (w.count == WORDS)
			bad("too many words", whole);
		w.word[w.count++] = p;
	}
	if (w.count == 0)
		return;
	for (unsigned i = 0; i < sizeof(sayings) / sizeof(sayings[0]); i++) {
		if (strcmp(sayings[i].name, w.word[0]) == 0) {
			sayings[i].say(&w);
			return;
		}
	}
	bad("unknown", whole);
}

void fake_say(const char *format, ...)
{
	char line[LINE];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	pthread_mutex_lock(&fake.lock);
	run_line(line);
	pthread_mutex_unlock(&fake.lock);
}

/* The whole lines that the file has gained. */
static void read_more(FILE *f)
{
	char line[LINE];
	long at = ftell(f);

	clearerr(f);
	while (fgets(line, sizeof(line), f)) {
		if (!strchr(line, '\n')) {
			fseek(f, at, SEEK_SET); /* its writer is not done */
			return;
		}
		fake_say("%s", line);
		at = ftell(f);
	}
}

static void *follow(void *file)
{
	const struct timespec pause = { .tv_nsec = FOLLOW_NS };

	for (;;) { /* as long as the process lives */
		nanosleep(&pause, NULL);
		read_more(file);
	}
	return NULL;
}

static void follow_once(void)
{
	const char *name = getenv("FAKE_DEVICES_FILE");
	FILE *f = name ? fopen(name, "re") : NULL;
	pthread_t thread;

	if (!name)
		return;
	if (!f)
		bad("cannot be read", name);
	read_more(f);
	if (pthread_create(&thread, NULL, follow, f))
		bad("no thread to follow", name);
	pthread_detach(thread);
}

void fake_follow(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, follow_once);
}
