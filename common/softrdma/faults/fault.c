/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/softrdma/faults/fault.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/parse.h"

#define NAME	     "SOFTRDMA_FAULT"
#define DELAY_US_MAX 1000000

struct soft_fault_rates soft_fault_rates;

static const char *const point_names[FAULT_POINTS] = { "reg_mr", "create_qp" };

static const struct {
	const char *name;
	int code;
} code_names[] = { { "ENOMEM", ENOMEM }, { "EAGAIN", EAGAIN }, { "EINVAL", EINVAL } };

static struct {
	int code; /* 0: no fault */
	uint64_t from; /* the first call that fails, counted from 1 */
	_Atomic uint64_t calls;
} points[FAULT_POINTS];

static bool number(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	return parse_u64(NAME, text, min, max, out, NULL) == 0;
}

/* "CODE@N" for a point. */
static bool parse_point(enum fault_point point, char *value)
{
	char *from = strchr(value, '@');

	if (!from)
		return false;
	*from++ = '\0';
	for (unsigned c = 0; c < sizeof(code_names) / sizeof(code_names[0]); c++) {
		if (strcmp(value, code_names[c].name) == 0) {
			points[point].code = code_names[c].code;
			return number(from, 1, UINT64_MAX, &points[point].from);
		}
	}
	return false;
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

/* One "name=value"; @text is cut up. */
static bool parse_one(char *text)
{
	char *value = strchr(text, '=');

	if (!value)
		return false;
	*value++ = '\0';
	for (unsigned p = 0; p < FAULT_POINTS; p++) {
		if (strcmp(text, point_names[p]) == 0)
			return parse_point((enum fault_point)p, value);
	}
	return parse_rate(text, value);
}

static void fault_none(void)
{
	memset(&soft_fault_rates, 0, sizeof(soft_fault_rates));
	for (unsigned p = 0; p < FAULT_POINTS; p++) {
		points[p].code = 0;
		atomic_store(&points[p].calls, 0);
	}
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
		"softrdma: " NAME "=%s means nothing (give a list of reg_mr=ENOMEM@N, "
		"create_qp=ENOMEM@N, drop=N, rnr=N, qp_error=N, delay=MICROSECONDS, seed=N)\n",
		spec);
	return -EINVAL;
}

int soft_fault(enum fault_point point)
{
	if (!points[point].code)
		return 0;
	if (atomic_fetch_add_explicit(&points[point].calls, 1, memory_order_relaxed) + 1 <
	    points[point].from)
		return 0;
	return points[point].code;
}
