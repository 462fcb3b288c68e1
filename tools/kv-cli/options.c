/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The command line: options may stand before and after the command; "--" ends them. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/nearest.h"
#include "common/base/parse.h"
#include "common/rdma/device.h"
#include "tools/kv-cli/cli.h"
#include "tools/kv-cli/text.h"
#include "tools/lib/failure.h"

#define CLI_TIMEOUT_MS_MAX 3600000u
#define CLI_COUNT_MAX	   1000000000u
#define CLI_INTERVAL_MIN   100u /* ms: the server has other work too */
#define CLI_INTERVAL_MAX   86400000u

/* Options without a letter. */
enum {
	OPTION_TIMEOUT = 256,
	OPTION_CONNECT,
	OPTION_PKEY_INDEX,
	OPTION_SERVICE_LEVEL,
	OPTION_TRAFFIC_CLASS,
	OPTION_JSON,
	OPTION_META,
	OPTION_FORMAT,
	OPTION_VERIFY,
	OPTION_SKIP_BAD,
	OPTION_TTL,
	OPTION_IF_ABSENT,
	OPTION_IF_VERSION,
	OPTION_WATCH,
	OPTION_INTERVAL,
	OPTION_PREFIX,
	OPTION_KEEP_TTL,
	OPTION_ADDRESS,
	OPTION_NO_WAIT,
};

/* The leading '-' hands operands over in order, so that what stands after "--" can be told. */
static const char short_options[] = "-:s:d:i:x:vVho:c:";

static const struct option long_options[] = {
	{ "server", required_argument, NULL, 's' },
	{ "device", required_argument, NULL, 'd' },
	{ "gid-index", required_argument, NULL, 'x' },
	{ "ib-port", required_argument, NULL, 'i' },
	{ "pkey-index", required_argument, NULL, OPTION_PKEY_INDEX },
	{ "service-level", required_argument, NULL, OPTION_SERVICE_LEVEL },
	{ "traffic-class", required_argument, NULL, OPTION_TRAFFIC_CLASS },
	{ "connect", required_argument, NULL, OPTION_CONNECT },
	{ "timeout", required_argument, NULL, OPTION_TIMEOUT },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ "verbose", no_argument, NULL, 'v' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ "meta", no_argument, NULL, OPTION_META },
	{ "format", required_argument, NULL, OPTION_FORMAT },
	{ "verify", no_argument, NULL, OPTION_VERIFY },
	{ "skip-bad", no_argument, NULL, OPTION_SKIP_BAD },
	{ "output", required_argument, NULL, 'o' },
	{ "count", required_argument, NULL, 'c' },
	{ "ttl", required_argument, NULL, OPTION_TTL },
	{ "if-absent", no_argument, NULL, OPTION_IF_ABSENT },
	{ "if-version", required_argument, NULL, OPTION_IF_VERSION },
	{ "watch", no_argument, NULL, OPTION_WATCH },
	{ "interval", required_argument, NULL, OPTION_INTERVAL },
	{ "prefix", required_argument, NULL, OPTION_PREFIX },
	{ "keep-ttl", no_argument, NULL, OPTION_KEEP_TTL },
	{ "address", required_argument, NULL, OPTION_ADDRESS },
	{ "no-wait", no_argument, NULL, OPTION_NO_WAIT },
	{ NULL, 0, NULL, 0 },
};

static int options_number(const char *what, const char *text, uint64_t min, uint64_t max,
			  uint64_t *out)
{
	struct error err;

	if (parse_u64(what, text, min, max, out, &err))
		return cli_error(CLI_USAGE, "%s", err.text);
	return 0;
}

static int options_unsigned(const char *what, const char *text, unsigned max, unsigned *out)
{
	uint64_t number = *out;
	int rc = options_number(what, text, 0, max, &number);

	*out = (unsigned)number;
	return rc;
}

/* One of the servers, behind those that stand in cli->server. */
static int add_server(struct cli *cli, const char *what, const char *text)
{
	char host[256] = "127.0.0.1", port[8] = "7471";
	const size_t used = strlen(cli->server), room = sizeof(cli->server) - used;
	struct error err;
	int n;

	if (parse_host_port(what, text, host, port, &err))
		return cli_error(CLI_USAGE, "%s", err.text);
	n = snprintf(cli->server + used, room, strchr(host, ':') ? "%s[%s]:%s" : "%s%s:%s",
		     used ? "," : "", host, port);
	if (n < 0 || (size_t)n >= room)
		return cli_error(CLI_USAGE, "%s: the servers' names are too long", what);
	return 0;
}

int cli_server(struct cli *cli, const char *what, const char *text)
{
	cli->server[0] = 0;
	for (;;) {
		const size_t len = strcspn(text, ",");
		char one[sizeof(cli->server)];
		int rc;

		snprintf(one, sizeof(one), "%.*s", (int)len, text);
		rc = add_server(cli, what, one);
		if (rc || !text[len])
			return rc;
		text += len + 1;
	}
}

static int options_connect(struct cli *cli, const char *text)
{
	if (strcmp(text, "tcp") == 0)
		cli->options.connect = GKV_CONNECT_TCP;
	else if (strcmp(text, "cm") == 0)
		cli->options.connect = GKV_CONNECT_CM;
	else
		return cli_error(CLI_USAGE, "--connect: '%.40s' is neither tcp nor cm", text);
	return 0;
}

static int options_gid_index(struct cli *cli, const char *text)
{
	uint64_t number = 0;
	int rc;

	if (strcmp(text, "auto") == 0) {
		cli->options.gid_index = -1;
		return 0;
	}
	rc = options_number("--gid-index", text, 0, RDMA_GID_INDEX_MAX, &number);
	if (rc == 0)
		cli->options.gid_index = (int)number;
	return rc;
}

/* The option's name where it says how kv-cli connects, else NULL. */
static const char *options_of_program(int option)
{
	switch (option) {
	case 's':
		return "--server";
	case 'd':
		return "--device";
	case 'x':
		return "--gid-index";
	case 'i':
		return "--ib-port";
	case OPTION_PKEY_INDEX:
		return "--pkey-index";
	case OPTION_SERVICE_LEVEL:
		return "--service-level";
	case OPTION_TRAFFIC_CLASS:
		return "--traffic-class";
	case OPTION_CONNECT:
		return "--connect";
	case OPTION_TIMEOUT:
		return "--timeout";
	}
	return NULL;
}

/* An option of a command that has no value, as enum cli_option; 0: it is another one. */
static unsigned options_flag(int option)
{
	switch (option) {
	case OPTION_META:
		return CLI_META;
	case OPTION_VERIFY:
		return CLI_VERIFY;
	case OPTION_SKIP_BAD:
		return CLI_SKIP_BAD;
	case OPTION_IF_ABSENT:
		return CLI_IF_ABSENT;
	case OPTION_WATCH:
		return CLI_WATCH;
	case OPTION_KEEP_TTL:
		return CLI_KEEP_TTL;
	case OPTION_NO_WAIT:
		return CLI_NO_WAIT;
	}
	return 0;
}

static int options_duration(const char *what, const char *text, const char *unit, uint64_t min_ms,
			    uint64_t max_ms, uint64_t *ms)
{
	struct error err;

	if (parse_duration(what, text, unit, min_ms, max_ms, ms, &err))
		return cli_error(CLI_USAGE, "%s", err.text);
	return 0;
}

static int options_take(struct cli *cli, int option, const char *value)
{
	uint64_t number = 0;
	int rc = 0;

	cli->given |= options_flag(option);
	switch (option) {
	case 's':
		cli->server_given = true;
		return cli_server(cli, "--server", value);
	case 'd':
		cli->options.device = value;
		break;
	case 'x':
		return options_gid_index(cli, value);
	case 'i':
		rc = options_number("--ib-port", value, 1, 255, &number);
		cli->options.ib_port = (unsigned)number;
		break;
	case OPTION_PKEY_INDEX:
		return options_unsigned("--pkey-index", value, RDMA_PKEY_INDEX_MAX,
					&cli->options.pkey_index);
	case OPTION_SERVICE_LEVEL:
		return options_unsigned("--service-level", value, RDMA_SERVICE_LEVEL_MAX,
					&cli->options.service_level);
	case OPTION_TRAFFIC_CLASS:
		return options_unsigned("--traffic-class", value, RDMA_TRAFFIC_CLASS_MAX,
					&cli->options.traffic_class);
	case OPTION_CONNECT:
		return options_connect(cli, value);
	case OPTION_TIMEOUT:
		rc = options_duration("--timeout", value, "ms", 1, CLI_TIMEOUT_MS_MAX, &number);
		cli->options.timeout_ms = (unsigned)number;
		break;
	case OPTION_JSON:
		cli->json = true;
		break;
	case 'v':
		cli->verbose = true;
		break;
	case 'h':
		cli->help = true;
		break;
	case 'V':
		cli->version = true;
		break;
	case OPTION_FORMAT:
		cli->given |= CLI_FORMAT;
		cli->format = value;
		break;
	case 'o':
		cli->given |= CLI_OUTPUT;
		cli->output = value;
		break;
	case OPTION_PREFIX:
		cli->given |= CLI_PREFIX;
		cli->prefix = value;
		break;
	case OPTION_ADDRESS:
		cli->given |= CLI_ADDRESS;
		cli->address = value;
		break;
	case 'c':
		cli->given |= CLI_COUNT;
		rc = options_number("--count", value, 1, CLI_COUNT_MAX, &cli->count);
		break;
	case OPTION_TTL:
		cli->given |= CLI_TTL;
		return options_duration("--ttl", value, "s", 1, GKV_TTL_MAX, &cli->ttl_ms);
	case OPTION_INTERVAL:
		cli->given |= CLI_INTERVAL;
		return options_duration("--interval", value, "s", CLI_INTERVAL_MIN,
					CLI_INTERVAL_MAX, &cli->interval_ms);
	case OPTION_IF_VERSION:
		cli->given |= CLI_IF_VERSION;
		rc = options_number("--if-version", value, 1, UINT64_MAX, &cli->if_version);
		break;
	}
	return rc;
}

/* The word that getopt_long() stopped at: a cluster of letters is not passed yet. */
static const char *options_word(int argc, char **argv)
{
	const char *next = optind < argc ? argv[optind] : "";

	if (optopt && optopt < 256 && next[0] == '-' && next[1] != '-' && strchr(next, optopt))
		return next;
	return argv[optind - 1];
}

static int options_unknown(int option, int argc, char **argv)
{
	const char *word = options_word(argc, argv), *name = word + strspn(word, "-");
	struct nearest near;
	char spelt[64];

	if (option == ':')
		return cli_error(CLI_USAGE, "%s: needs a value (see kv-cli --help)", word);
	snprintf(spelt, sizeof(spelt), "%.*s", (int)strcspn(name, "="), name);
	near = nearest_to(spelt);
	for (const struct option *o = long_options; o->name; o++)
		nearest_try(&near, o->name);
	if (near.name)
		return cli_error(CLI_USAGE,
				 "%.80s: unknown option (did you mean --%s? Put -- before a key or "
				 "value that starts with a dash)",
				 word, near.name);
	return cli_error(CLI_USAGE,
			 "%.80s: unknown option (see kv-cli --help; put -- before a key or value "
			 "that starts with a dash)",
			 word);
}

int cli_command_of(const char *word, const char *list, const struct command **command)
{
	/* what other stores and shells call it */
	static const char *const others[][2] = {
		{ "set", "put" },     { "delete", "del" },    { "rm", "del" },
		{ "remove", "del" },  { "ls", "keys" },	      { "list", "keys" },
		{ "scan", "keys" },   { "dbsize", "count" },  { "expire", "touch" },
		{ "import", "load" }, { "export", "dump" },   { "info", "stats" },
		{ "bgsave", "save" }, { "snapshot", "save" }, { "backup", "save" },
	};
	struct nearest near = nearest_to(word);
	char shown[TEXT_KEY_MAX];

	*command = cli_find(word);
	if (*command)
		return 0;
	for (const struct command *c = cli_commands; c->name; c++)
		nearest_try(&near, c->name);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (strcasecmp(word, others[i][0]) == 0 && cli_find(others[i][1]))
			near.name = others[i][1];
	}
	text_key(shown, word, strlen(word));
	if (near.name)
		return cli_error(CLI_USAGE, "%s: unknown command (did you mean %s? See %s)", shown,
				 near.name, list);
	return cli_error(CLI_USAGE, "%s: unknown command (see %s)", shown, list);
}

/* Set the command from its word. */
static int options_command(struct cli *cli, const char *word)
{
	return cli_command_of(word, cli->shell ? "help" : "kv-cli --help", &cli->command);
}

static int options_operand(struct cli *cli, const char *word)
{
	if (!cli->command)
		return options_command(cli, word);
	cli->operands[cli->operand_count++] = word;
	return 0;
}

/* Do the options and operands fit the command? */
static int options_check(const struct cli *cli)
{
	static const char *const names[] = { "--meta",	   "--format",	  "--verify",
					     "--skip-bad", "--output",	  "--count",
					     "--ttl",	   "--if-absent", "--if-version",
					     "--watch",	   "--interval",  "--prefix",
					     "--keep-ttl", "--address",	  "--no-wait" };
	const struct command *c = cli->command;

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (cli->given & ~c->allowed & (1u << i))
			return cli_error(CLI_USAGE, "%s: does not know %s (usage: kv-cli %s %s)",
					 c->name, names[i], c->name, c->usage);
	}
	if ((cli->given & CLI_IF_ABSENT) && (cli->given & CLI_IF_VERSION))
		return cli_error(CLI_USAGE,
				 "%s: --if-absent and --if-version exclude each other (give one)",
				 c->name);
	if ((cli->given & CLI_IF_ABSENT) && (cli->given & CLI_KEEP_TTL))
		return cli_error(CLI_USAGE,
				 "%s: a key that must be absent has no expiry to keep (give "
				 "--if-absent or --keep-ttl)",
				 c->name);
	if (!(cli->given & CLI_WATCH) && (c->allowed & CLI_WATCH) &&
	    (cli->given & (CLI_COUNT | CLI_INTERVAL)))
		return cli_error(CLI_USAGE, "%s: %s goes with --watch only (usage: kv-cli %s %s)",
				 c->name, cli->given & CLI_COUNT ? "--count" : "--interval",
				 c->name, c->usage);
	if (cli->operand_count < c->operands_min)
		return cli_error(CLI_USAGE, "%s: too few words (usage: kv-cli %s %s)", c->name,
				 c->name, c->usage);
	if (c->operands_max >= 0 && cli->operand_count > c->operands_max)
		return cli_error(CLI_USAGE,
				 "%s: '%.60s' is one word too many (usage: kv-cli %s %s; quote "
				 "values with spaces)",
				 c->name, cli->operands[c->operands_max], c->name, c->usage);
	return 0;
}

/* "-5": a number for commands that take one, where others would see an option. */
static bool options_negative(const struct cli *cli, int argc, char **argv)
{
	return optind && optind < argc && cli->command && cli->command->negative &&
	       argv[optind][0] == '-' && argv[optind][1] >= '0' && argv[optind][1] <= '9';
}

static int options_words(struct cli *cli, int argc, char **argv)
{
	int option, rc = 0;

	opterr = 0;
	optind = 0; /* glibc: start again, also where a program parses twice */
	while (rc == 0) {
		if (options_negative(cli, argc, argv)) {
			rc = options_operand(cli, argv[optind++]);
			continue;
		}
		option = getopt_long(argc, argv, short_options, long_options, NULL);
		if (option == -1)
			break;
		if (option == 1)
			rc = options_operand(cli, optarg);
		else if (option == '?' || option == ':')
			rc = options_unknown(option, argc, argv);
		else if (cli->shell && options_of_program(option))
			rc = cli_error(CLI_USAGE,
				       "%s: is an option of kv-cli as a whole (give it when "
				       "kv-cli is started)",
				       options_of_program(option));
		else
			rc = options_take(cli, option, optarg);
	}
	if (rc == 0)
		cli->literal_from = cli->operand_count;
	for (; rc == 0 && optind < argc; optind++)
		rc = options_operand(cli, argv[optind]);
	cli->options.server = cli->server;
	if (rc == 0 && cli->command && !cli->help && !cli->version)
		rc = options_check(cli);
	return rc;
}

static int options_begin(struct cli *cli, int argc, char **argv)
{
	failure_as_json(cli->json || failure_json_given(argc, argv, 0));
	cli->literal_from = argc;
	cli->operands = calloc((size_t)argc + 1, sizeof(*cli->operands));
	return cli->operands ? 0 : cli_error(CLI_FAILED, "starting: no memory");
}

int cli_parse(struct cli *cli, int argc, char **argv)
{
	const char *server = getenv("GRACEKV_SERVER");
	int rc;

	*cli = (struct cli){ 0 };
	gkv_options_init(&cli->options);
	cli->options.name = "kv-cli";
	rc = options_begin(cli, argc, argv);
	if (rc == 0)
		rc = cli_server(cli, "GRACEKV_SERVER", server ? server : "");
	return rc ? rc : options_words(cli, argc, argv);
}

int cli_parse_line(struct cli *cli, struct cli *shell, int argc, char **argv)
{
	int rc;

	*cli = (struct cli){ .options = shell->options,
			     .server_given = shell->server_given,
			     .json = shell->json,
			     .verbose = shell->verbose,
			     .shell = shell };
	strcpy(cli->server, shell->server);
	rc = options_begin(cli, argc, argv);
	if (rc == 0)
		rc = options_words(cli, argc, argv);
	if (rc == 0 && !cli->command && !cli->help && !cli->version)
		rc = cli_error(CLI_USAGE, "a command is missing (see help)");
	return rc;
}
