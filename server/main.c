/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* kv-server: settings, one server, and the ready line. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#if HAVE_SYSTEMD
#include <systemd/sd-daemon.h>
#endif

#include "common/base/descriptors.h"
#include "common/base/log.h"
#include "server/config/reload.h"
#include "server/server.h"

enum { EXIT_OK = 0, EXIT_USAGE = 2, EXIT_FAILED = 3 };

#define LAST_WORDS_MS 1000u /* that a reader of stderr has for them; without one they are lost */

static int complain(const struct error *err, int status)
{
	if (log_await_reader(LAST_WORDS_MS))
		fprintf(stderr, "kv-server: %s\n", err->text);
	return status;
}

/* A life line for each client: take all the descriptors that the limit allows. */
static void raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static void warn_about_openness(const struct config *c)
{
	if (strncmp(c->host, "127.", 4) == 0 || strcmp(c->host, "::1") == 0 ||
	    strcmp(c->host, "localhost") == 0)
		return;
	log_warn("session",
		 "listening on %s: whoever reaches this address can read and write every record, "
		 "there is no authentication yet",
		 c->host[0] ? c->host : "all addresses");
}

static void announce(const struct server *s)
{
	log_line(s->dev->instead || s->dev->guessed ? LOG_WARN : LOG_INFO, "rdma", "%s",
		 s->dev->choice);
	if (s->place.words[0])
		log_info("memory", "%s", s->place.words);
	if (s->dev->software)
		log_info("rdma", "soft0 is a software stand-in: what it measures is not RDMA");
	warn_about_openness(&s->config);
	printf("kv-server ready tcp=%s device=%s gid=%d memory=%" PRIu64 " pid=%d\n", s->bound,
	       s->dev->name, s->dev->source.gid_index, s->config.memory_bytes, (int)getpid());
	fflush(stdout);
#if HAVE_SYSTEMD
	sd_notify(0, "READY=1");
#endif
}

struct reload {
	struct setting_values *running;
	int argc;
	char **argv;
};

static void reload_now(void *ctx)
{
	const struct reload *r = ctx;

	config_reload(r->running, r->argc, r->argv);
}

/* The same program, in another life. The process, and who waits for it, stay; signals stay blocked,
 * so one that comes in between is for the next life. */
static int start_again(char **argv)
{
	char path[4096];
	const ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);

	log_info("group", "starts again, to learn from its primary");
	if (len > 0) { /* by its name, which ps shows */
		path[len] = '\0';
		execv(path, argv);
	}
	execv("/proc/self/exe", argv); /* another program has that name by now */
	log_error("group", "starting again failed: %s (start kv-server by hand)",
		  error_name(errno));
	return EXIT_FAILED;
}

int main(int argc, char **argv)
{
	static struct server server; /* too large for a stack */
	static struct setting_values settings_in_force;
	struct reload reload = { &settings_in_force, argc, argv };
	struct config config;
	enum config_next next;
	struct error err;
	bool again = false;
	int rc, closed;

	if (descriptors_fill())
		return EXIT_FAILED;
	rc = config_collect(&config, reload.running, argc, argv, &next, &err);
	if (rc)
		return complain(&err, EXIT_USAGE);
	if (next == CONFIG_EXIT)
		return fflush(stdout) ? EXIT_FAILED : EXIT_OK;
	log_setup("kv-server", config.log_level, config.log_format);
	if (next == CONFIG_CHECK_DATA)
		return data_check(config.data_dir, &err) ? complain(&err, EXIT_FAILED) : EXIT_OK;
	settings_check_environment();
	server_block_signals();
	raise_file_limit();
	rc = server_create(&server, &config, &err);
	if (rc == -ECANCELED) {
		settings_free(reload.running);
		log_info("session", "stopped before it could serve");
		return EXIT_OK;
	}
	if (rc)
		return complain(&err, EXIT_FAILED);
	announce(&server);
	rc = server_run(&server, reload_now, &reload, &again, &err);
#if HAVE_SYSTEMD
	sd_notify(0, "STOPPING=1");
#endif
	closed = server_destroy(&server);
	settings_free(reload.running);
	log_await_reader(LAST_WORDS_MS);
	if (again)
		return start_again(argv);
	log_info("session", "stopped");
	if (rc)
		return complain(&err, EXIT_FAILED);
	return closed ? EXIT_FAILED : EXIT_OK;
}
