/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* doctor: what there is, what works, and which of it would be used. */
#include <stdlib.h>
#include <string.h>

#include "tools/kv-cli/doctor.h"

/* The device that --device or the environment names; NULL: none, auto. */
static const char *named_device(const struct cli *cli)
{
	const char *name = cli->options.device;

	if (!name)
		name = getenv("GRACEKV_DEVICE");
	return !name || !name[0] || strcmp(name, "auto") == 0 ? NULL : name;
}

/* What rdma_device_open() would take of these; NULL: nothing. */
static const struct survey_device *would_use(const struct survey *s, const char *named,
					     const struct rdma_options *options)
{
	if (named)
		return &s->devices[0];
	for (unsigned i = 0; i < s->count; i++) {
		if (!s->devices[i].error.code && doctor_device_active(&s->devices[i], options))
			return &s->devices[i];
	}
	return NULL;
}

/* The sentence at the end. @device: of the JSON, NULL: none. Returns enum cli_exit. */
static int judge(const json_t *machine, const json_t *device, const char *name, bool named,
		 char *words, size_t cap)
{
	unsigned problems = finding_count(json_object_get(machine, "findings"), FINDING_PROBLEM);

	if (!device || !json_is_true(json_object_get(device, "works"))) {
		snprintf(words, cap,
			 "%s%s cannot be used: see above (--device soft0 needs no hardware)",
			 device ? "device " : "no device", device ? name : "");
		return CLI_NO;
	}
	snprintf(words, cap, "device %s works%s%s", name,
		 named ? "" : ", and is the one that is taken where none is named",
		 problems ? "; but see the problem with the machine above" : "");
	return problems ? CLI_NO : CLI_OK;
}

static int say(struct cli *cli, json_t *machine, json_t *devices, const char *used,
	       const char *words, bool good)
{
	json_t *d;
	size_t i;

	if (cli->json)
		return cli_print_json(json_pack(
			"{s:s, s:i, s:s, s:o, s:o, s:s?, s:b, s:s}", "tool", "kv-cli doctor",
			"schema", DOCTOR_SCHEMA, "version", gkv_version(), "machine", machine,
			"devices", devices, "device", used, "ok", (int)good, "verdict", words));
	doctor_machine_print(machine, stdout);
	json_array_foreach (devices, i, d) {
		putchar('\n');
		doctor_device_print(d, stdout);
	}
	printf("\nWhere TCP connects from an address that has a RoCE v2 GID of its own, auto takes "
	       "that one.\nVerdict: %s.\n",
	       words);
	json_decref(machine);
	json_decref(devices);
	return cli_flush(stdout, "stdout");
}

static int doctor_here(struct cli *cli)
{
	struct rdma_options options = rdma_options_default();
	const char *named = named_device(cli), *used_name = NULL;
	const struct survey_device *used;
	json_t *machine, *devices = json_array(), *used_json = NULL;
	struct doctor_machine here;
	struct survey *s;
	struct error err;
	char words[256];
	int code;

	options.gid_index = cli->options.gid_index;
	options.ib_port = cli->options.ib_port;
	options.pkey_index = cli->options.pkey_index;
	options.service_level = cli->options.service_level;
	options.traffic_class = cli->options.traffic_class;
	if (survey_take(&s, named, &options, &err)) {
		json_decref(devices);
		return cli_error(CLI_FAILED, "doctor: %s", err.text);
	}
	used = would_use(s, named, &options);
	used_name = used ? used->name : NULL;
	for (unsigned i = 0; i < s->count; i++) {
		json_t *d = doctor_device(&s->devices[i], &options);

		json_array_append_new(devices, d);
		if (&s->devices[i] == used)
			used_json = d;
	}
	doctor_machine_here(&here);
	machine = doctor_machine(&here, used && !used->software);
	if (!machine || json_array_size(devices) != s->count) {
		code = cli_error(CLI_FAILED, "doctor: no memory");
		json_decref(machine);
		json_decref(devices);
	} else {
		code = judge(machine, used_json, used_name, named, words, sizeof(words));
		if (say(cli, machine, devices, used_name, words, code == CLI_OK))
			code = CLI_FAILED;
	}
	survey_free(s);
	return code;
}

int cli_doctor(struct cli *cli)
{
	int code = cli->operand_count ? cli_server(cli, "doctor", cli->operands[0]) : 0;

	if (code)
		return code;
	return cli->operand_count || cli->server_given ? doctor_server(cli) : doctor_here(cli);
}
