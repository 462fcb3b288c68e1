/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/softrdma/fault.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/parse.h"

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

static pthread_once_t parsed = PTHREAD_ONCE_INIT;

/* One "point=CODE@N"; @text is cut up. */
static bool fault_parse_one(char *text)
{
	char *code = strchr(text, '='), *from = code ? strchr(code, '@') : NULL;
	uint64_t number;

	if (!from)
		return false;
	*code++ = '\0';
	*from++ = '\0';
	if (parse_u64("SOFTRDMA_FAULT", from, 1, UINT64_MAX, &number, NULL) < 0)
		return false;
	for (unsigned p = 0; p < FAULT_POINTS; p++) {
		if (strcmp(text, point_names[p]) != 0)
			continue;
		for (unsigned c = 0; c < sizeof(code_names) / sizeof(code_names[0]); c++) {
			if (strcmp(code, code_names[c].name) != 0)
				continue;
			points[p].code = code_names[c].code;
			points[p].from = number;
			return true;
		}
	}
	return false;
}

static void fault_parse(void)
{
	const char *spec = getenv("SOFTRDMA_FAULT");
	char *copy, *rest, *one;
	bool good = true;

	if (!spec || !*spec)
		return;
	copy = strdup(spec);
	for (one = copy ? strtok_r(copy, ",", &rest) : NULL; one; one = strtok_r(NULL, ",", &rest))
		good = fault_parse_one(one) && good;
	free(copy);
	if (good)
		return;
	for (unsigned p = 0; p < FAULT_POINTS; p++)
		points[p].code = 0;
	fprintf(stderr,
		"softrdma: SOFTRDMA_FAULT=%s is ignored: it wants a list such as "
		"reg_mr=ENOMEM@3,create_qp=ENOMEM@1\n",
		spec);
}

int soft_fault(enum fault_point point)
{
	pthread_once(&parsed, fault_parse);
	if (!points[point].code)
		return 0;
	if (atomic_fetch_add_explicit(&points[point].calls, 1, memory_order_relaxed) + 1 <
	    points[point].from)
		return 0;
	return points[point].code;
}
