/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Options, and the calls with no session at all. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "client/src/base/options.h"
#include "tests/lib/unit.h"

static int refuse(const struct gkv_options *o, const char *word)
{
	struct settings s;
	struct error err = { 0 };
	int rc = settings_take(&s, o, &err);

	assert_non_null(strstr(err.text, word));
	return rc;
}

UNIT_TEST(test_defaults_and_environment)
{
	struct settings s;
	struct gkv_options o;

	unsetenv("GRACEKV_SERVER");
	unsetenv("GRACEKV_DEVICE");
	assert_int_equal(settings_take(&s, NULL, NULL), 0);
	assert_string_equal(s.server[0].host, "127.0.0.1");
	assert_string_equal(s.server[0].port, "7471");
	assert_string_equal(s.device, "auto");
	assert_int_equal(s.timeout_ms, 5000);
	setenv("GRACEKV_SERVER", "[::1]:99", 1);
	setenv("GRACEKV_DEVICE", "soft0", 1);
	assert_int_equal(settings_take(&s, NULL, NULL), 0);
	assert_string_equal(s.server[0].host, "::1");
	assert_string_equal(s.server[0].port, "99");
	assert_string_equal(s.rdma.device, "soft0");
	gkv_options_init(&o);
	o.server = "somewhere";
	assert_int_equal(settings_take(&s, &o, NULL), 0);
	/* the caller goes before the environment */
	assert_string_equal(s.server[0].host, "somewhere");
	assert_string_equal(s.server[0].port, "7471");
}

/* The servers of a group, in the order in which they are tried. */
UNIT_TEST(test_several_servers)
{
	struct settings s;
	struct gkv_options o;

	gkv_options_init(&o);
	o.server = "a:1,[::1]:2,b";
	assert_int_equal(settings_take(&s, &o, NULL), 0);
	assert_int_equal(s.servers, 3);
	assert_string_equal(s.server[1].host, "::1");
	assert_string_equal(s.server[1].port, "2");
	assert_string_equal(s.server[2].host, "b");
	assert_string_equal(s.server[2].port, "7471");
	o.server = "a,b,c,d,e,f,g,h";
	assert_int_equal(settings_take(&s, &o, NULL), 0);
	assert_int_equal(s.servers, SETTINGS_SERVERS_MAX);
	o.server = "a,b,c,d,e,f,g,h,i";
	assert_int_equal(refuse(&o, "more than 8"), -EINVAL);
	o.server = "a:1,b:x";
	assert_int_equal(refuse(&o, "port"), -EINVAL);
}

UNIT_TEST(test_out_of_range)
{
	struct gkv_options o;

	gkv_options_init(NULL);
	gkv_options_init(&o);
	o.reserved[0] = 1;
	assert_int_equal(refuse(&o, "reserved"), -EINVAL);
	gkv_options_init(&o);
	o.timeout_ms = 0;
	assert_int_equal(refuse(&o, "timeout_ms"), -ERANGE);
	gkv_options_init(&o);
	o.lifeline_ms = 0;
	assert_int_equal(refuse(&o, "lifeline_ms"), -ERANGE);
	gkv_options_init(&o);
	o.ib_port = 256;
	assert_int_equal(refuse(&o, "ib_port"), -ERANGE);
	gkv_options_init(&o);
	o.gid_index = -2;
	assert_int_equal(refuse(&o, "gid_index"), -ERANGE);
	o.gid_index = 256;
	assert_int_equal(refuse(&o, "-1 (chosen) to 255"), -ERANGE);
	gkv_options_init(&o);
	o.pkey_index = 65536;
	assert_int_equal(refuse(&o, "pkey_index"), -ERANGE);
	gkv_options_init(&o);
	o.service_level = 16;
	assert_int_equal(refuse(&o, "service_level"), -ERANGE);
	gkv_options_init(&o);
	o.traffic_class = 256;
	assert_int_equal(refuse(&o, "traffic_class"), -ERANGE);
	gkv_options_init(&o);
	o.ack_timeout = 0;
	assert_int_equal(refuse(&o, "ack_timeout"), -ERANGE);
	gkv_options_init(&o);
	o.retry_cnt = 8;
	assert_int_equal(refuse(&o, "retry_cnt"), -ERANGE);
	gkv_options_init(&o);
	o.rnr_retry = 8;
	assert_int_equal(refuse(&o, "rnr_retry"), -ERANGE);
}

UNIT_TEST(test_what_packets_carry)
{
	struct settings s;
	struct gkv_options o;

	unsetenv("GRACEKV_CONNECT");
	gkv_options_init(&o);
	assert_int_equal(o.pkey_index + o.service_level + o.traffic_class, 0);
	o.pkey_index = 65535;
	o.service_level = 15;
	o.traffic_class = 255;
	assert_int_equal(settings_take(&s, &o, NULL), 0);
	assert_int_equal(s.rdma.pkey_index, 65535);
	assert_int_equal(s.rdma.service_level, 15);
	assert_int_equal(s.rdma.traffic_class, 255);
}

UNIT_TEST(test_connect)
{
	struct settings s;
	struct gkv_options o;

	unsetenv("GRACEKV_CONNECT");
	unsetenv("GRACEKV_DEVICE");
	assert_int_equal(settings_take(&s, NULL, NULL), 0);
	assert_int_equal(s.connect, GKV_CONNECT_TCP);
	setenv("GRACEKV_CONNECT", "", 1);
	assert_int_equal(settings_take(&s, NULL, NULL), 0);
	assert_int_equal(s.connect, GKV_CONNECT_TCP); /* as if it were not set */
	setenv("GRACEKV_CONNECT", "cm", 1);
	assert_int_equal(settings_take(&s, NULL, NULL), 0);
	assert_int_equal(s.connect, GKV_CONNECT_CM);
	unsetenv("GRACEKV_CONNECT");
	gkv_options_init(&o);
	o.connect = UINT_MAX; /* the caller's own number is not the environment's fault */
	assert_int_equal(refuse(&o, "connect is 4294967295"), -ERANGE);
	setenv("GRACEKV_CONNECT", "cm", 1);
	gkv_options_init(&o);
	o.connect = GKV_CONNECT_TCP; /* the caller goes before the environment */
	assert_int_equal(settings_take(&s, &o, NULL), 0);
	assert_int_equal(s.connect, GKV_CONNECT_TCP);
	setenv("GRACEKV_CONNECT", "pigeon", 1);
	assert_int_equal(settings_take(&s, &o, NULL), 0);
	assert_int_equal(refuse(NULL, "pigeon"), -EINVAL);
	unsetenv("GRACEKV_CONNECT");
	gkv_options_init(&o);
	o.connect = 2;
	assert_int_equal(refuse(&o, "connect is 2"), -ERANGE);
	o.connect = GKV_CONNECT_CM;
	o.gid_index = 0;
	assert_int_equal(refuse(&o, "gid_index"), -EINVAL);
	o.gid_index = -1;
	assert_int_equal(settings_take(&s, &o, NULL), 0);
	o.pkey_index = 1;
	assert_int_equal(refuse(&o, "pkey_index is 1, but by the CM"), -EINVAL);
	o.pkey_index = 0;
	o.device = "soft0";
	assert_int_equal(refuse(&o, "soft0"), -EOPNOTSUPP);
}

UNIT_TEST(test_nobody_there)
{
	struct gkv_session *s = NULL;
	struct gkv_options o;
	char text[300];

	gkv_options_init(&o);
	o.server = "127.0.0.1:1";
	assert_int_equal(gkv_session_open(&o, &s, text, sizeof(text)), -ECONNREFUSED);
	assert_non_null(strstr(text, "kv-server"));
	assert_null(s);
	assert_int_equal(gkv_session_open(&o, &s, NULL, 0), -ECONNREFUSED);
	assert_int_equal(gkv_session_open(&o, NULL, text, sizeof(text)), -EINVAL);
	o.server = "127.0.0.1:notaport";
	assert_true(gkv_session_open(&o, &s, text, sizeof(text)) < 0);
}

UNIT_TEST(test_no_handle)
{
	struct gkv_stats stats;
	struct gkv_item item = { 0 };
	const void *view;
	char *text;

	gkv_session_close(NULL);
	gkv_close(NULL);
	assert_int_equal(gkv_open(NULL, NULL, NULL, NULL, 0), -EINVAL);
	assert_int_equal(gkv_get(NULL, "k", 1, NULL, 0, NULL), -EINVAL);
	assert_int_equal(gkv_get_view(NULL, "k", 1, &view, NULL), -EINVAL);
	assert_int_equal(gkv_exists(NULL, "k", 1, NULL), -EINVAL);
	assert_int_equal(gkv_put(NULL, "k", 1, "v", 1, NULL), -EINVAL);
	assert_int_equal(gkv_del(NULL, "k", 1), -EINVAL);
	assert_int_equal(gkv_mget(NULL, &item, 1), -EINVAL);
	assert_int_equal(gkv_scan(NULL, NULL, NULL, NULL), -EINVAL);
	assert_int_equal(gkv_ping(NULL, NULL), -EINVAL);
	assert_int_equal(gkv_server_stats(NULL, &text), -EINVAL);
	gkv_stats_get(NULL, &stats);
	assert_int_equal(stats.gets, 0);
	gkv_stats_get(NULL, NULL);
	assert_string_equal(gkv_error(NULL), "");
	assert_string_equal(gkv_session_describe(NULL), "");
	assert_string_equal(gkv_strerror(0), "success");
	assert_non_null(gkv_strerror(-ENOENT));
	assert_non_null(gkv_strerror(-99999));
	assert_non_null(gkv_strerror(INT_MIN));
	assert_non_null(strchr(gkv_version(), '.'));
}
