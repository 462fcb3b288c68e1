/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* doctor: what there is, what works, and which of it would be used. */
#include <stdlib.h>
#include <string.h>

#include "common/rdma/gid.h"
#include "tools/kv-cli/doctor.h"
#include "tools/kv-cli/text.h"

/* The device that --device or the environment names; NULL: none, auto. */
static const char *named_device(const struct cli *cli)
{
	const char *name = cli->options.device;

	if (!name)
		name = getenv("GRACEKV_DEVICE");
	return !name || !name[0] || strcmp(name, "auto") == 0 ? NULL : name;
}

/* What would be taken, and why. */
struct taken {
	const struct survey_device *device; /* NULL: none could be */
	char name[64], choice[ERROR_TEXT_MAX];
	json_t *findings; /* about the address */
};

static void take(struct taken *t, const struct survey *s, const struct cli *cli, const char *named,
		 const struct rdma_options *options)
{
	t->findings = json_array();
	if (named) /* whether or not it could be opened */
		snprintf(t->name, sizeof(t->name), "%.63s", s->devices[0].name);
	doctor_rail(named, cli->address, options, t->name, t->choice, t->findings);
	for (unsigned i = 0; i < s->count && !t->device && t->name[0]; i++) {
		if (strcmp(s->devices[i].name, t->name) == 0)
			t->device = &s->devices[i];
	}
}

/* The sentence at the end. @device: of the JSON, NULL: none. Returns enum cli_exit. */
static int judge(const json_t *machine, const json_t *device, const struct taken *t, bool named,
		 char *words, size_t cap)
{
	unsigned problems = finding_count(json_object_get(machine, "findings"), FINDING_PROBLEM);

	if (!device) {
		snprintf(words, cap, "no device can be used: %.500s", t->choice);
		return CLI_NO;
	}
	if (!json_is_true(json_object_get(device, "works"))) {
		snprintf(words, cap,
			 "device %s cannot be used: see above (--device soft0 needs no hardware)",
			 t->name);
		return CLI_NO;
	}
	snprintf(words, cap, "device %s works%s%s", t->name,
		 named ? "" : ", and is the one that is taken where none is named",
		 problems ? "; but see the problem with the machine above" : "");
	return problems ? CLI_NO : CLI_OK;
}

static int say(struct cli *cli, json_t *machine, json_t *devices, const struct taken *t,
	       const char *words, bool good)
{
	char verdict[ERROR_TEXT_MAX + 16];
	json_t *d;
	size_t i;

	if (cli->json)
		return cli_print_json(
			json_pack("{s:s, s:i, s:s, s:o, s:o, s:s?, s:s?, s:s, s:b, s:s}", "tool",
				  "kv-cli doctor", "schema", DOCTOR_SCHEMA, "version",
				  gkv_version(), "machine", machine, "devices", devices, "device",
				  t->device ? t->name : NULL, "address", cli->address, "choice",
				  t->choice, "ok", (int)good, "verdict", words));
	doctor_machine_print(machine, stdout);
	json_array_foreach (devices, i, d) {
		putchar('\n');
		doctor_device_print(d, stdout);
	}
	fputs("\nTaken: ", stdout);
	text_folded(stdout, t->choice, 7, 7);
	if (!cli->address)
		puts("With --address ADDRESS that is the rail of a server that listens there, or of "
		     "a client\nthat connects from there.");
	snprintf(verdict, sizeof(verdict), "Verdict: %s.", words);
	text_folded(stdout, verdict, 0, 9);
	json_decref(machine);
	json_decref(devices);
	return cli_flush(stdout, "stdout");
}

static int doctor_here(struct cli *cli)
{
	struct rdma_options options = rdma_options_default();
	json_t *machine, *devices = json_array(), *used = NULL;
	const char *named = named_device(cli);
	char words[ERROR_TEXT_MAX];
	struct taken t = { 0 };
	struct doctor_machine here;
	struct survey *s;
	struct error err;
	int code;

	options.gid_index = cli->options.gid_index;
	options.ib_port = cli->options.ib_port;
	options.pkey_index = cli->options.pkey_index;
	options.service_level = cli->options.service_level;
	options.traffic_class = cli->options.traffic_class;
	if (survey_take(&s, named, &options, cli->address, &err)) {
		json_decref(devices);
		return cli_error(CLI_FAILED, "doctor: %s", err.text);
	}
	take(&t, s, cli, named, &options);
	for (unsigned i = 0; i < s->count; i++) {
		json_t *d = doctor_device(&s->devices[i], &options);

		json_array_append_new(devices, d);
		if (&s->devices[i] == t.device)
			used = d;
	}
	doctor_machine_here(&here);
	machine = doctor_machine(&here, t.device && !t.device->software);
	if (!machine || json_array_extend(json_object_get(machine, "findings"), t.findings) ||
	    json_array_size(devices) != s->count) {
		code = cli_error(CLI_FAILED, "doctor: no memory");
		json_decref(machine);
		json_decref(devices);
	} else {
		code = judge(machine, used, &t, named, words, sizeof(words));
		if (say(cli, machine, devices, &t, words, code == CLI_OK))
			code = CLI_FAILED;
	}
	json_decref(t.findings);
	survey_free(s);
	return code;
}

int cli_doctor(struct cli *cli)
{
	char shown[TEXT_KEY_MAX];
	union ibv_gid gid;
	int code;

	if (cli->address && !gid_from_text(cli->address, &gid)) {
		text_key(shown, cli->address, strlen(cli->address));
		return cli_error(CLI_USAGE,
				 "doctor: --address: %s is no IP address (give one in "
				 "digits, without a port, as ip address shows it)",
				 shown);
	}
	if (cli->address && (cli->operand_count || cli->server_given))
		return cli_error(CLI_USAGE, "doctor: --address goes with no server: a connection "
					    "shows its own (leave one of them out)");
	code = cli->operand_count ? cli_server(cli, "doctor", cli->operands[0]) : 0;
	if (code)
		return code;
	return cli->operand_count || cli->server_given ? doctor_server(cli) : doctor_here(cli);
}
