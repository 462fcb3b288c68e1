/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "server/config/settings_internal.h"

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/nearest.h"

#define HELP_COLUMNS 96

static const char fixed_address[] = "clients are connected there";
static const char fixed_device[] = "memory and queue pairs belong to the device";
static const char fixed_memory[] = "clients know where the memory lies";
static const char fixed_data[] = "records are written there already";
static const char fixed_group[] = "other servers know it as what it was when it joined them";
static const char fixed_queue_pairs[] = "queue pairs are made with it";

const struct setting settings[SETTINGS_COUNT] = {
	[SET_LISTEN] = { "listen", 'l', "HOST:PORT", "127.0.0.1:7471",
			 "where clients connect; port 0 takes a free one", fixed_address },
	[SET_DEVICE] = { "device", 'd', "NAME", "auto",
			 "RDMA device; auto: the one on the network of --listen, else the first "
			 "with an ACTIVE port, else soft0",
			 fixed_device },
	[SET_IB_PORT] = { "ib-port", 'i', "N", "0",
			  "port of the device; 0: found as auto finds the device", fixed_device },
	[SET_GID_INDEX] = { "gid-index", 'x', "N", "auto", "index of the port's GID table",
			    fixed_device },
	[SET_MTU] = { "mtu", 'm', "N", "0", "path MTU in bytes; 0: the port's active MTU",
		      fixed_queue_pairs },
	[SET_PKEY_INDEX] = { "pkey-index", 0, "N", "0",
			     "index of the port's P_Key table: the partition of its packets",
			     fixed_queue_pairs },
	[SET_SERVICE_LEVEL] = { "service-level", 0, "N", "0",
				"of packets, 0 to 15; on Ethernet the priority, 0 to 7",
				fixed_queue_pairs },
	[SET_TRAFFIC_CLASS] = { "traffic-class", 0, "N", "0",
				"of packets, 0 to 255; on RoCE v2 four times the DSCP",
				fixed_queue_pairs },
	[SET_MEMORY] = { "memory", 'M', "SIZE", NULL,
			 "for records and index, such as 512M or 4G; default: a quarter of RAM, at "
			 "most 4G",
			 fixed_memory },
	[SET_POPULATE] = { "populate", 0, "yes|no", "no",
			   "take memory at the start, while it serves already; no: as records come",
			   "it says only what is done at the start" },
	[SET_INDEX_SLOTS] = { "index-slots", 0, "N", "0",
			      "slots of the index to begin with; it grows; 0: the least",
			      "it says only how large the index is at the start" },
	[SET_WORKERS] = { "workers", 'w', "N", "0",
			  "threads that answer requests; 0: half of the cores it may "
			  "use, 8 at most",
			  "each connection belongs to a worker" },
	[SET_LEASE] = { "lease", 0, "MS", "1000",
			"a client that announces nothing for this time is fenced, 10ms to 10m",
			"clients were told it when they connected" },
	[SET_DEFERRED_MAX] = { "deferred-max", 0, "SIZE", "0",
			       "replaced records that may wait for readers before writes wait; 0: "
			       "a quarter of memory",
			       "replaced records are counted against it already" },
	[SET_CONNECT] = { "connect", 0, "tcp|cm", "tcp",
			  "how queue pairs are connected; cm: by the RDMA CM, and for clients that "
			  "ask for it by tcp",
			  fixed_address },
	[SET_TIMEOUT] = { "timeout", 0, "N", "14", "local ACK timeout, 4.096 us * 2^N, 1 to 31",
			  fixed_queue_pairs },
	[SET_RETRY_CNT] = { "retry-cnt", 0, "N", "7", "transport retries, 0 to 7",
			    fixed_queue_pairs },
	[SET_RNR_RETRY] = { "rnr-retry", 0, "N", "6",
			    "retries when a receiver is not ready, 0 to 7; 7 is for ever",
			    fixed_queue_pairs },
	[SET_DATA_DIR] = { "data-dir", 'D', "DIR", "",
			   "where records survive the end of this process; default: nowhere",
			   fixed_data },
	[SET_SYNC] = { "sync", 0, "WHEN", "always",
		       "an acknowledged write is durable: always; at most MS later (such as 10ms); "
		       "never: some 32 MiB at a time",
		       "what was acknowledged before was promised otherwise" },
	[SET_LOG_SEGMENT] = { "log-segment", 0, "SIZE", "256M",
			      "of one file of the log, 64M to 16G", "the next file has its size" },
	[SET_SNAPSHOT_EVERY] = { "snapshot-every", 0, "SIZE", "1G",
				 "of log, after which a snapshot of all records replaces it; 0: "
				 "only when asked",
				 "the next snapshot is due at it" },
	[SET_CLUSTER] = { "cluster", 0, "NAME", "",
			  "join the cluster of that name in etcd; default: a server of its own",
			  fixed_group },
	[SET_ETCD] = { "etcd", 0, "URL,...", "http://127.0.0.1:2379",
		       "where etcd answers: one URL for each of its members", fixed_group },
	[SET_ETCD_USER] = { "etcd-user", 0, "NAME", "", "of etcd, where it asks for one",
			    fixed_group },
	[SET_ETCD_PASSWORD] = { "etcd-password", 0, "TEXT", "",
				"of that user; better in the file or in GRACEKV_ETCD_PASSWORD, as "
				"others can see flags",
				fixed_group },
	[SET_ETCD_CA] = { "etcd-ca", 0, "FILE", "",
			  "certificates (PEM) of those who sign etcd's; default: the system's",
			  fixed_group },
	[SET_ETCD_CERT] = { "etcd-cert", 0, "FILE", "", "our certificate (PEM), where etcd asks",
			    fixed_group },
	[SET_ETCD_KEY] = { "etcd-key", 0, "FILE", "", "its key (PEM)", fixed_group },
	[SET_GROUP] = { "group", 0, "NAME", "1", "of the cluster, to which this server belongs",
			fixed_group },
	[SET_GROUP_LEASE] = { "group-lease", 0, "MS", "300",
			      "where it founds its group: how long a primary that is silent stays "
			      "one, 10ms to 60s",
			      fixed_group },
	[SET_GROUP_DRIFT] = { "group-drift", 0, "PPM", "10000",
			      "where it founds its group: rates of any two machines' clocks differ "
			      "by at most PPM parts in a million, 0 to 500000",
			      fixed_group },
	[SET_GROUP_MIN] = { "group-min", 0, "N", "1",
			    "where it founds its group: with fewer servers that have every write, "
			    "writes are refused, 1 to 8",
			    fixed_group },
	[SET_ADVERTISE] = { "advertise", 0, "HOST:PORT", "",
			    "where clients and other servers reach this one; default: --listen",
			    fixed_group },
	[SET_NODE] = { "node", 0, "NAME", "",
		       "of this server in its group, the same after a restart; default: "
		       "--advertise",
		       fixed_group },
	[SET_LOG_LEVEL] = { "log-level", 0, "L", "info", "error, warn, info or debug", NULL },
	[SET_LOG_FORMAT] = { "log-format", 0, "F", "text", "text or json", NULL },
};

enum { OPT_RECOVER_UNTIL = 1000, OPT_CHECK_DATA, OPT_FIRST };

int settings_give(struct setting_values *v, unsigned id, const char *text, const char *from)
{
	if (v->value[id])
		return 0; /* a source with precedence came first */
	v->value[id] = strdup(text);
	v->from[id] = strdup(from);
	return v->value[id] && v->from[id] ? 0 : -ENOMEM;
}

int settings_give_file(struct setting_values *v, const char *path)
{
	free(v->config_file);
	v->config_file = strdup(path);
	return v->config_file ? 0 : -ENOMEM;
}

static void long_options(struct option *out, char *letters)
{
	unsigned n = 0;

	for (; n < SETTINGS_COUNT; n++) {
		int id = OPT_FIRST + (int)n;

		out[n] = (struct option){ settings[n].name, required_argument, NULL, id };
		if (settings[n].letter) {
			*letters++ = settings[n].letter;
			*letters++ = ':';
		}
	}
	strcpy(letters, "c:hV");
	out[n++] = (struct option){ "config", required_argument, NULL, 'c' };
	out[n++] = (struct option){ "recover-until", required_argument, NULL, OPT_RECOVER_UNTIL };
	out[n++] = (struct option){ "check-data", no_argument, NULL, OPT_CHECK_DATA };
	out[n++] = (struct option){ "help", no_argument, NULL, 'h' };
	out[n++] = (struct option){ "version", no_argument, NULL, 'V' };
	out[n] = (struct option){ 0 };
}

/* Which setting a result of getopt_long names; -1: none. */
static int setting_of(int c)
{
	if (c >= OPT_FIRST)
		return c - OPT_FIRST;
	for (int i = 0; i < SETTINGS_COUNT; i++) {
		if (settings[i].letter == c)
			return i;
	}
	return -1;
}

static int unknown_option(const char *word, const struct option *options, struct error *err)
{
	const size_t len = strcspn(word, "=");
	char name[40];
	struct nearest near = nearest_to(name);

	snprintf(name, sizeof(name), "%.*s", (int)len - 2, len > 2 ? word + 2 : "");
	for (; options->name && word[1] == '-'; options++)
		nearest_try(&near, options->name);
	if (near.name)
		return error_set(err, -EINVAL, "%s: unknown option (did you mean --%s?)", word,
				 near.name);
	return error_set(err, -EINVAL, "%s: unknown option (see kv-server --help)", word);
}

static void forget(struct setting_values *v, unsigned id)
{
	free(v->value[id]);
	free(v->from[id]);
	v->value[id] = v->from[id] = NULL;
}

static int from_flags(struct setting_values *v, int argc, char **argv, struct error *err)
{
	struct option options[SETTINGS_COUNT + 6];
	char letters[2 * SETTINGS_COUNT + 8] = ":";
	int c, rc = 0;

	long_options(options, letters + 1);
	opterr = 0;
	optind = 1;
	while ((c = getopt_long(argc, argv, letters, options, NULL)) != -1) {
		int id = setting_of(c);

		if (c == 'c') {
			rc = settings_give_file(v, optarg);
		} else if (c == OPT_RECOVER_UNTIL) {
			free(v->recover_until);
			v->recover_until = strdup(optarg);
			rc = v->recover_until ? 0 : -ENOMEM;
		} else if (c == OPT_CHECK_DATA) {
			v->check_data = 1;
		} else if (c == 'h') {
			v->help = 1;
		} else if (c == 'V') {
			v->version = 1;
		} else if (c == ':') {
			return error_set(err, -EINVAL, "%s: needs a value (see kv-server --help)",
					 argv[optind - 1]);
		} else if (c == '?' || id < 0) {
			return unknown_option(argv[optind - 1], options, err);
		} else {
			char flag[40];

			snprintf(flag, sizeof(flag), "--%s", settings[id].name);
			forget(v, (unsigned)id); /* the last one on the line counts */
			rc = settings_give(v, (unsigned)id, optarg, flag);
		}
		if (rc)
			return error_set(err, rc, "out of memory");
	}
	if (optind < argc)
		return error_set(err, -EINVAL,
				 "'%s': kv-server takes options only, such as --memory 512M (see "
				 "kv-server --help)",
				 argv[optind]);
	return 0;
}

int settings_collect(struct setting_values *out, int argc, char **argv, struct error *err)
{
	int rc;

	memset(out, 0, sizeof(*out));
	rc = from_flags(out, argc, argv, err);
	if (rc || out->help || out->version)
		return rc;
	rc = settings_from_environment(out);
	if (rc)
		return error_set(err, rc, "out of memory");
	return settings_from_file(out, err);
}

void settings_free(struct setting_values *v)
{
	for (unsigned i = 0; i < SETTINGS_COUNT; i++)
		forget(v, i);
	free(v->config_file);
	free(v->recover_until);
	v->config_file = v->recover_until = NULL;
}

void settings_swap(struct setting_values *a, struct setting_values *b, enum setting_id id)
{
	char *value = a->value[id], *from = a->from[id];

	a->value[id] = b->value[id];
	a->from[id] = b->from[id];
	b->value[id] = value;
	b->from[id] = from;
}

const char *settings_text(const struct setting_values *v, enum setting_id id)
{
	const char *usual = settings[id].fallback;

	return v->value[id] ? v->value[id] : usual ? usual : "";
}

const char *settings_where(const struct setting_values *v, enum setting_id id,
			   char out[SETTINGS_WHERE_MAX])
{
	snprintf(out, SETTINGS_WHERE_MAX, v->from[id] ? "%s" : "--%s",
		 v->from[id] ? v->from[id] : settings[id].name);
	return out;
}

static void print_option(const char *flag, const char *help)
{
	int at = printf("  %-26s", flag);

	for (int len; *help; help += len + (help[len] == ' ')) {
		len = (int)strcspn(help, " ");
		if (at + 1 + len > HELP_COLUMNS)
			at = printf("\n%28s", "") - 1;
		at += printf(" %.*s", len, help);
	}
	putchar('\n');
}

void settings_print_help(void)
{
	puts("Usage: kv-server [OPTIONS]\n\n"
	     "An RDMA key-value store: clients read records with one-sided READs, which cost this\n"
	     "process no CPU, and send writes to it.\n\nOptions:");
	for (unsigned i = 0; i < SETTINGS_COUNT; i++) {
		const struct setting *s = &settings[i];
		char flag[64], letter[8] = "    ";

		if (s->letter)
			snprintf(letter, sizeof(letter), "-%c, ", s->letter);
		snprintf(flag, sizeof(flag), "%s--%s %s", letter, s->name, s->metavar);
		if (s->fallback && s->fallback[0] && strcmp(s->fallback, "0") != 0) {
			char help[200];

			snprintf(help, sizeof(help), "%s [%s]", s->help, s->fallback);
			print_option(flag, help);
		} else {
			print_option(flag, s->help);
		}
	}
	print_option("-c, --config FILE", "INI file with the long names above, '-' kept");
	print_option(
		"--recover-until POSITION",
		"start although the log is damaged: with what stands before POSITION (kv-inspect "
		"log DIR)");
	print_option("--check-data",
		     "read all that --data-dir has, say whether it is whole, and exit");
	print_option("-h, --help", "this text");
	print_option("-V, --version", "versions of this program, its libraries and the layout");
	puts("\nA flag overrides the environment (GRACEKV_LISTEN, ...), which overrides the file. An empty\n"
	     "variable counts as not set. The log warns of a GRACEKV_ variable that nothing reads.\n"
	     "The file has lines such as 'memory = 512M', and may have the section [kv-server].\n"
	     "\nSignals: SIGTERM and SIGINT stop the server cleanly. SIGHUP reloads the file: the log's\n"
	     "level and format change at once; for every other changed setting the log says why it\n"
	     "waits for the next start. SIGUSR1 and SIGUSR2 are ignored.\n"
	     "Exit: 0 stopped, 2 wrong usage, 3 the server cannot run on this machine.\n\n"
	     "Examples:\n  kv-server --listen 127.0.0.1:7471 --memory 512M\n"
	     "  kv-server --data-dir /var/lib/gracekv --memory 4G\n"
	     "  kv-cli -s 127.0.0.1:7471 put greeting hello");
}
