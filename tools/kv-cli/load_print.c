/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include <inttypes.h>
#include <stdio.h>

#include "tools/kv-cli/load.h"
#include "tools/kv-cli/text.h"

static double load_reads_per_get(const struct load *l)
{
	return l->stats.gets ? (double)l->stats.reads / (double)l->stats.gets : 0;
}

static json_t *load_verify_json(const struct load *l)
{
	return json_pack("{s:I, s:I, s:I, s:f, s:f, s:I, s:I, s:f, s:I, s:I, s:I}", "records",
			 (json_int_t)l->verified, "bytes", (json_int_t)l->verified_bytes,
			 "mismatches", (json_int_t)l->differing, "seconds", l->verify_seconds,
			 "gets_per_s", (double)l->verified / l->verify_seconds, "gets",
			 (json_int_t)l->stats.gets, "reads", (json_int_t)l->stats.reads,
			 "reads_per_get", load_reads_per_get(l), "rpc_fallbacks",
			 (json_int_t)l->stats.rpc_fallbacks, "skipped", (json_int_t)l->skipped,
			 "expired", (json_int_t)l->expired);
}

static int load_print_json(const struct load *l)
{
	if (!l->puts)
		return cli_print_json(load_verify_json(l));
	return cli_print_json(json_pack(
		"{s:I, s:I, s:f, s:f, s:I, s:b, s:I, s:I, s:o*}", "records", (json_int_t)l->loaded,
		"bytes", (json_int_t)l->loaded_bytes, "seconds", l->seconds, "records_per_s",
		(double)l->loaded / l->seconds, "repeated", (json_int_t)l->repeated,
		"repeated_is_exact", !l->repeated_more, "skipped", (json_int_t)l->skipped,
		"expired", (json_int_t)l->loaded_expired, "verify",
		l->gets ? load_verify_json(l) : NULL));
}

int load_print(const struct load *l)
{
	char size[TEXT_SIZE_MAX];

	if (l->cli->json)
		return load_print_json(l);
	if (l->puts)
		printf("loaded %" PRIu64 " records, %s in %.1f s (%.0f/s)", l->loaded,
		       text_size(size, l->loaded_bytes), l->seconds,
		       (double)l->loaded / l->seconds);
	if (l->repeated)
		printf(", %s%" PRIu64 " repeat a key (the last one stays)",
		       l->repeated_more ? "at least " : "", l->repeated);
	if (l->puts && l->skipped)
		printf(", %" PRIu64 " bad ones skipped", l->skipped);
	if (l->loaded_expired)
		printf(", skipped %" PRIu64 " expired", l->loaded_expired);
	if (l->puts && l->gets)
		putchar('\n');
	if (l->gets)
		printf("verified %" PRIu64 " records, %s in %.1f s (%.0f/s, %.2f READs per GET), "
		       "%zu mismatches",
		       l->verified, text_size(size, l->verified_bytes), l->verify_seconds,
		       (double)l->verified / l->verify_seconds, load_reads_per_get(l),
		       l->differing);
	if (!l->puts && l->skipped)
		printf(", %" PRIu64 " bad ones skipped", l->skipped);
	if (l->gets && l->expired)
		printf(", %" PRIu64 " expired", l->expired);
	putchar('\n');
	return cli_flush(stdout, "stdout");
}
