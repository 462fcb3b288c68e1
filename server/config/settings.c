/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "server/config/settings.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <ini.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct setting settings[SETTINGS_COUNT] = {
	[SET_LISTEN] = { "listen", 'l', "HOST:PORT", "127.0.0.1:7471",
			 "where clients connect; port 0 takes a free one" },
	[SET_DEVICE] = { "device", 'd', "NAME", "auto",
			 "RDMA device; auto: the first with an ACTIVE port, else soft0" },
	[SET_IB_PORT] = { "ib-port", 'i', "N", "0", "port of the device; 0: the first ACTIVE one" },
	[SET_GID_INDEX] = { "gid-index", 'x', "N", "auto", "index of the port's GID table" },
	[SET_MTU] = { "mtu", 'm', "N", "0", "path MTU in bytes; 0: the port's active MTU" },
	[SET_MEMORY] = { "memory", 'M', "SIZE", NULL,
			 "for records and index, with K, M or G; default: a quarter of RAM, at most "
			 "4G" },
	[SET_INDEX_SLOTS] = { "index-slots", 0, "N", "0",
			      "slots of the index to begin with; it grows; 0: the least" },
	[SET_WORKERS] = { "workers", 'w', "N", "0",
			  "threads that answer requests; 0: half the cores" },
	[SET_LEASE] = { "lease", 0, "MS", "1000",
			"a client that announces nothing for so long is fenced, 10 to 600000" },
	[SET_DEFERRED_MAX] = { "deferred-max", 0, "SIZE", "0",
			       "replaced records that may wait for readers; writes wait beyond; 0: a quarter of memory" },
	[SET_CONNECT] = { "connect", 0, "tcp|cm", "tcp",
			  "how queue pairs are connected; cm: by the RDMA CM, and for clients that ask for it by tcp" },
	[SET_TIMEOUT] = { "timeout", 0, "N", "14", "local ACK timeout, 4.096 us * 2^N, 1 to 31" },
	[SET_RETRY_CNT] = { "retry-cnt", 0, "N", "7", "transport retries, 0 to 7" },
	[SET_RNR_RETRY] = { "rnr-retry", 0, "N", "6",
			    "retries when a receiver is not ready, 0 to 7; 7 is for ever" },
	[SET_LOG_LEVEL] = { "log-level", 0, "L", "info", "error, warn, info or debug" },
	[SET_LOG_FORMAT] = { "log-format", 0, "F", "text", "text or json" },
};

enum { OPT_CONFIG = 1000, OPT_VERSION, OPT_FIRST };

static int give(struct setting_values *v, unsigned id, const char *text)
{
	if (v->value[id])
		return 0; /* a source with precedence came first */
	v->value[id] = strdup(text);
	return v->value[id] ? 0 : -ENOMEM;
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

static int from_flags(struct setting_values *v, int argc, char **argv, struct error *err)
{
	struct option options[SETTINGS_COUNT + 4];
	char letters[2 * SETTINGS_COUNT + 8] = ":";
	int c;

	long_options(options, letters + 1);
	opterr = 0;
	optind = 1;
	while ((c = getopt_long(argc, argv, letters, options, NULL)) != -1) {
		int id = setting_of(c);

		if (c == 'c') {
			free(v->config_file);
			v->config_file = strdup(optarg);
			if (!v->config_file)
				return error_set(err, -ENOMEM, "out of memory");
		} else if (c == 'h') {
			v->help = 1;
		} else if (c == 'V') {
			v->version = 1;
		} else if (c == ':') {
			return error_set(err, -EINVAL, "%s wants a value (see --help)",
					 argv[optind - 1]);
		} else if (c == '?' || id < 0) {
			return error_set(err, -EINVAL, "unknown option %s (see --help)",
					 argv[optind - 1]);
		} else {
			free(v->value[id]); /* the last one on the line counts */
			v->value[id] = NULL;
			if (give(v, (unsigned)id, optarg))
				return error_set(err, -ENOMEM, "out of memory");
		}
	}
	if (optind < argc)
		return error_set(err, -EINVAL, "unexpected argument '%s' (see --help)",
				 argv[optind]);
	return 0;
}

/* An empty variable is one that is not set, as for clients. */
static const char *environment(const char *name)
{
	const char *text = getenv(name);

	return text && text[0] ? text : NULL;
}

static int from_environment(struct setting_values *v, struct error *err)
{
	for (unsigned i = 0; i < SETTINGS_COUNT; i++) {
		char name[64] = "GRACEKV_";
		const char *text;
		size_t n = strlen(name);

		for (const char *p = settings[i].name; *p && n + 1 < sizeof(name); p++)
			name[n++] = *p == '-' ? '_' : (char)toupper((unsigned char)*p);
		name[n] = '\0';
		text = environment(name);
		if (text && give(v, i, text))
			return error_set(err, -ENOMEM, "out of memory");
	}
	return 0;
}

struct file_scan {
	struct setting_values *v;
	FILE *file;
	bool seen[SETTINGS_COUNT]; /* in this file */
	int line; /* being read */
	int wrong_line;
	char wrong[160]; /* what is wrong there, in words */
};

static int file_wrong(struct file_scan *scan, const char *before, const char *name,
		      const char *after)
{
	scan->wrong_line = scan->line;
	snprintf(scan->wrong, sizeof(scan->wrong), "%s%.80s%s", before, name, after);
	return 0;
}

static int file_line(void *user, const char *section, const char *name, const char *value)
{
	struct file_scan *scan = user;

	if (section[0] && strcmp(section, "kv-server") != 0)
		return 1; /* of another program */
	for (unsigned i = 0; i < SETTINGS_COUNT; i++) {
		if (strcmp(settings[i].name, name) != 0)
			continue;
		if (scan->seen[i])
			return file_wrong(scan, "'", name, "' is given twice");
		scan->seen[i] = true;
		return give(scan->v, i, value) == 0;
	}
	return file_wrong(scan, "there is no setting '", name, "' (see --help)");
}

/*
 * A line for inih, as fgets() gives it, but: blanks in front are dropped, for inih takes an
 * indented line for more of the value before it; what does not fit is dropped from a comment, and
 * ends the reading elsewhere, for inih would take the rest for a line of its own.
 */
static char *file_read(char *line, int size, void *user)
{
	struct file_scan *scan = user;
	int n = 0, c;

	if (scan->wrong[0])
		return NULL; /* enough */
	scan->line++;
	c = fgetc(scan->file);
	while (c == ' ' || c == '\t')
		c = fgetc(scan->file);
	for (; c != EOF && c != '\n'; c = fgetc(scan->file)) {
		if (c == '\0' || (n + 2 >= size && line[0] != '#' && line[0] != ';')) {
			file_wrong(scan, c ? "it is longer than 198 bytes" : "it holds a zero byte",
				   "", "");
			return NULL;
		}
		if (n + 2 < size)
			line[n++] = (char)c;
	}
	if (c == EOF && n == 0)
		return NULL;
	line[n] = '\n';
	line[n + 1] = '\0';
	return line;
}

static int from_file(struct setting_values *v, struct error *err)
{
	struct file_scan scan = { .v = v };
	int rc, code;

	if (!v->config_file)
		return 0;
	errno = 0;
	scan.file = fopen(v->config_file, "re");
	rc = scan.file ? ini_parse_stream(file_read, &scan, file_line, &scan) : -1;
	code = !scan.file || ferror(scan.file) ? errno : 0;
	if (scan.file)
		fclose(scan.file);
	if (code)
		return error_set(err, -ENOENT, "reading %s failed: %s (give a readable INI file)",
				 v->config_file, error_name(code));
	if (scan.wrong[0] && (rc == 0 || rc == scan.wrong_line))
		return error_set(err, -EINVAL, "%s line %d: %s", v->config_file, scan.wrong_line,
				 scan.wrong);
	if (rc)
		return error_set(err, -EINVAL, "%s line %d is not 'name = value'", v->config_file,
				 rc);
	return 0;
}

int settings_collect(struct setting_values *out, int argc, char **argv, struct error *err)
{
	int rc;

	memset(out, 0, sizeof(*out));
	rc = from_flags(out, argc, argv, err);
	if (rc || out->help || out->version)
		return rc;
	if (!out->config_file && environment("GRACEKV_CONFIG")) {
		out->config_file = strdup(environment("GRACEKV_CONFIG"));
		if (!out->config_file)
			return error_set(err, -ENOMEM, "out of memory");
	}
	rc = from_environment(out, err);
	if (rc)
		return rc;
	return from_file(out, err);
}

void settings_free(struct setting_values *v)
{
	for (unsigned i = 0; i < SETTINGS_COUNT; i++)
		free(v->value[i]);
	free(v->config_file);
}

static void print_option(const char *flag, const char *help)
{
	printf("  %-26s %s\n", flag, help);
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
		if (s->fallback && strcmp(s->fallback, "0") != 0) {
			char help[160];

			snprintf(help, sizeof(help), "%s [%s]", s->help, s->fallback);
			print_option(flag, help);
		} else {
			print_option(flag, s->help);
		}
	}
	print_option("-c, --config FILE", "INI file with the long names above, '-' kept");
	print_option("-h, --help", "this text");
	print_option("-V, --version", "versions of this program, its libraries and the layout");
	puts("\nA flag goes before the environment (GRACEKV_LISTEN, ...), that before the file. An empty\n"
	     "variable is not set.\n"
	     "The file has lines such as 'memory = 512M', and may have a section [kv-server].\n"
	     "SIGTERM and SIGINT stop it in order. Exit: 0 stopped, 2 wrong usage, 3 it cannot be\n"
	     "done on this machine.\n\n"
	     "Example:\n  kv-server --listen 127.0.0.1:7471 --memory 512M\n"
	     "  kv-cli -s 127.0.0.1:7471 put greeting hello");
}
