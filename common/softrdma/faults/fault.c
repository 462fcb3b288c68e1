/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/softrdma/faults/fault.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/parse.h"
#include "common/base/time.h"
#include "common/softrdma/device/context.h"
#include "common/softrdma/faults/cut.h"
#include "common/softrdma/faults/event.h"

#define NAME	     "SOFTRDMA_FAULT"
#define DELAY_US_MAX 1000000
#define SLOW	     "slow_"
#define SLOW_US_MAX  60000000

struct soft_fault_rates soft_fault_rates;

static const char *const point_names[FAULT_POINTS] = { "alloc_pd",  "reg_mr",	 "dereg_mr",
						       "create_cq", "create_qp", "modify_qp",
						       "rtr",	    "destroy_qp" };

static const struct {
	const char *name;
	int code;
} code_names[] = { { "ENOMEM", ENOMEM }, { "EAGAIN", EAGAIN },	     { "EINVAL", EINVAL },
		   { "EBUSY", EBUSY },	 { "ETIMEDOUT", ETIMEDOUT }, { "EIO", EIO } };

/* Which of the calls, counted from 1. */
struct rule {
	uint64_t value; /* 0: none of them */
	char which; /* '@': from number n on; '#': number n; '/': each n-th */
	uint64_t n;
};

static struct {
	struct rule fails; /* with the errno `value` */
	struct rule slow; /* takes `value` nanoseconds longer */
	_Atomic uint64_t calls;
} points[FAULT_POINTS];

static char *gate; /* the file of while=, or NULL */

static bool number(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	return parse_u64(NAME, text, min, max, out, NULL) == 0;
}

static bool parse_code(const char *text, uint64_t *out)
{
	for (unsigned c = 0; c < sizeof(code_names) / sizeof(code_names[0]); c++) {
		if (strcmp(text, code_names[c].name) == 0) {
			*out = (uint64_t)code_names[c].code;
			return true;
		}
	}
	return false;
}

/* "CODE@N", "CODE#N" or "CODE/N"; of a slow call MICROSECONDS instead, and perhaps no number. */
static bool parse_rule(struct rule *rule, char *value, bool slow)
{
	size_t end = strcspn(value, "@#/");

	rule->which = value[end];
	value[end] = '\0';
	if (!rule->which && slow) {
		rule->which = '@';
		rule->n = 1;
	} else if (!rule->which || !number(value + end + 1, 1, UINT64_MAX, &rule->n)) {
		return false;
	}
	if (!slow)
		return parse_code(value, &rule->value);
	if (!number(value, 1, SLOW_US_MAX, &rule->value))
		return false;
	rule->value *= 1000;
	return true;
}

static bool parse_rate(const char *name, const char *value)
{
	struct soft_fault_rates *rates = &soft_fault_rates;
	uint64_t us;

	if (strcmp(name, "seed") == 0)
		return number(value, 0, UINT64_MAX, &rates->seed);
	if (strcmp(name, "drop") == 0)
		return number(value, 1, UINT32_MAX, &rates->drop_in);
	if (strcmp(name, "rnr") == 0)
		return number(value, 1, UINT32_MAX, &rates->rnr_in);
	if (strcmp(name, "qp_error") == 0)
		return number(value, 1, UINT64_MAX, &rates->break_at);
	if (strcmp(name, "delay") != 0 || !number(value, 1, DELAY_US_MAX, &us))
		return false;
	rates->delay_ns = us * 1000;
	return true;
}

static bool parse_gate(const char *path)
{
	free(gate);
	gate = *path ? strdup(path) : NULL;
	return gate;
}

/* One "name=value"; @text is cut up. */
static bool parse_one(char *text)
{
	char *value = strchr(text, '=');
	bool slow = strncmp(text, SLOW, strlen(SLOW)) == 0;

	if (!value)
		return false;
	*value++ = '\0';
	for (unsigned p = 0; p < FAULT_POINTS; p++) {
		if (strcmp(slow ? text + strlen(SLOW) : text, point_names[p]) == 0)
			return parse_rule(slow ? &points[p].slow : &points[p].fails, value, slow);
	}
	if (strcmp(text, "event") == 0)
		return soft_event_parse(value);
	if (strcmp(text, "cut") == 0)
		return soft_cut_parse(value);
	return strcmp(text, "while") == 0 ? parse_gate(value) : parse_rate(text, value);
}

static void fault_none(void)
{
	memset(&soft_fault_rates, 0, sizeof(soft_fault_rates));
	for (unsigned p = 0; p < FAULT_POINTS; p++) {
		points[p].fails.value = points[p].slow.value = 0;
		atomic_store(&points[p].calls, 0);
	}
	soft_events_none();
	soft_cut_none();
	free(gate);
	gate = NULL;
}

int soft_fault_start(void)
{
	const char *spec = getenv(NAME);
	char *copy, *rest, *one;
	bool good = true;

	fault_none();
	if (!spec || !*spec)
		return 0;
	copy = strdup(spec);
	if (!copy)
		return -ENOMEM;
	for (one = strtok_r(copy, ",", &rest); one; one = strtok_r(NULL, ",", &rest))
		good = parse_one(one) && good;
	free(copy);
	if (good)
		return 0;
	fault_none();
	fprintf(stderr,
		"softrdma: " NAME "=%s means nothing (give a list of CALL=ENOMEM@N, "
		"slow_CALL=MICROSECONDS@N, event=NAME@MILLISECONDS, while=FILE, cut=FOLDER, drop=N, rnr=N, qp_error=N, "
		"delay=MICROSECONDS, seed=N; docs/SOFTRDMA.md has calls, codes and names)\n",
		spec);
	return -EINVAL;
}

static bool rule_applies(const struct rule *rule, uint64_t call)
{
	if (!rule->value)
		return false;
	switch (rule->which) {
	case '#':
		return call == rule->n;
	case '/':
		return call % rule->n == 0;
	default:
		return call >= rule->n;
	}
}

bool soft_fault_gate(void)
{
	return !gate || access(gate, F_OK) == 0;
}

int soft_fault(const struct ibv_context *base, enum fault_point point)
{
	const struct rule *fails = &points[point].fails, *slow = &points[point].slow;
	uint64_t call;

	if (point != FAULT_DEREG_MR && point != FAULT_DESTROY_QP && context_lost(base))
		return EIO;
	if ((!fails->value && !slow->value) || !soft_fault_gate())
		return 0;
	call = atomic_fetch_add_explicit(&points[point].calls, 1, memory_order_relaxed) + 1;
	if (rule_applies(slow, call))
		time_sleep(slow->value);
	return rule_applies(fails, call) ? (int)fails->value : 0;
}

int soft_fault_lasting(const struct ibv_context *context, enum fault_point point, int *failed)
{
	if (!*failed)
		*failed = soft_fault(context, point);
	return *failed;
}
