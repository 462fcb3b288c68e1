/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/softrdma/faults/fate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/parse.h"
#include "common/base/time.h"
#include "common/softrdma/faults/cut.h"
#include "common/softrdma/faults/event.h"
#include "common/softrdma/faults/fault.h"
#include "common/softrdma/objects/qp.h"

#define NAME	     "SOFTRDMA_WEAK"
#define DROPS_MAX    12 /* of one request: more than any retry count */
#define SPAN_MIN_NS  1000
#define SPAN_SHIFTS  8 /* most spans are below SPAN_MIN_NS << this */
#define SPAN_LONG_NS (3 * NS_PER_MS)

bool soft_fates;
unsigned soft_weak;

static uint64_t weak_seed;
static _Atomic uint64_t qps_made;

static const struct {
	const char *name;
	unsigned feature;
} features[] = { { "completions", WEAK_COMPLETIONS },
		 { "reorder", WEAK_REORDER },
		 { "twice", WEAK_TWICE },
		 { "lines", WEAK_LINES },
		 { "delay", WEAK_DELAY },
		 { "late", WEAK_LATE } };

static bool parse_feature(const char *name)
{
	for (unsigned i = 0; i < sizeof(features) / sizeof(features[0]); i++) {
		if (strcmp(name, features[i].name) == 0) {
			soft_weak |= features[i].feature;
			return true;
		}
	}
	return false;
}

/* "seed" or "seed,feature,..."; @text is cut up. */
static bool parse_weak(char *text)
{
	char *rest, *one = strtok_r(text, ",", &rest);

	if (!one || parse_u64(NAME, one, 0, UINT64_MAX, &weak_seed, NULL) < 0)
		return false;
	while ((one = strtok_r(NULL, ",", &rest)) != NULL) {
		if (!parse_feature(one))
			return false;
	}
	if (!soft_weak)
		soft_weak = WEAK_ALL;
	return true;
}

static int weak_start(void)
{
	const char *spec = getenv(NAME);
	char *copy;
	bool good;

	soft_weak = 0;
	if (!spec || !*spec)
		return 0;
	copy = strdup(spec);
	if (!copy)
		return -ENOMEM;
	good = parse_weak(copy);
	free(copy);
	if (good)
		return 0;
	soft_weak = 0;
	fprintf(stderr,
		"softrdma: " NAME "=%s means nothing (give a seed, and after it some of "
		"completions, reorder, twice, lines, delay, late: " NAME "=7,twice,lines)\n",
		spec);
	return -EINVAL;
}

int soft_fates_start(void)
{
	const struct soft_fault_rates *rates = &soft_fault_rates;
	int rc = weak_start();

	if (rc == 0)
		rc = soft_fault_start();
	soft_fates = soft_weak || rates->drop_in || rates->rnr_in || rates->break_at ||
		     rates->delay_ns || soft_events_pending() || soft_cuts();
	atomic_store(&qps_made, 0);
	return rc;
}

static void dice_seed(struct soft_dice *dice, uint64_t seed, uint64_t n)
{
	dice->state = seed;
	dice->state = dice_roll(dice) + n;
	dice->state = dice_roll(dice);
}

void soft_fates_qp(struct soft_qp *qp)
{
	uint64_t n = atomic_fetch_add(&qps_made, 1);

	dice_seed(&qp->weak_dice, weak_seed, n);
	dice_seed(&qp->fault_dice, soft_fault_rates.seed, n);
	qp->fated = 0;
}

/* Some time: mostly microseconds, now and then milliseconds. */
static uint32_t span_ns(struct soft_dice *dice)
{
	uint64_t end = (uint64_t)SPAN_MIN_NS << dice_below(dice, SPAN_SHIFTS);

	if (dice_one_in(dice, 64))
		end = SPAN_LONG_NS;
	return (uint32_t)dice_below(dice, end);
}

static bool fetches(const struct ibv_send_wr *wr)
{
	return wr->opcode == IBV_WR_RDMA_READ || wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static void draw_weak(struct soft_dice *dice, const struct ibv_send_wr *wr, struct soft_fate *fate)
{
	if ((soft_weak & WEAK_REORDER) && fetches(wr) && dice_one_in(dice, 2))
		fate->begins_ns += span_ns(dice);
	if ((soft_weak & WEAK_COMPLETIONS) && dice_one_in(dice, 2))
		fate->defer_ns = span_ns(dice);
	if ((soft_weak & WEAK_TWICE) && wr->opcode == IBV_WR_RDMA_READ && dice_one_in(dice, 4)) {
		fate->twice = true;
		fate->defer_ns += span_ns(dice);
	}
	if ((soft_weak & WEAK_LATE) && !fetches(wr) && dice_one_in(dice, 2))
		fate->begins_ns += span_ns(dice);
	if (soft_weak & (WEAK_LINES | WEAK_DELAY))
		fate->shuffle = (uint32_t)dice_roll(dice);
}

static void draw_faults(struct soft_dice *dice, const struct ibv_send_wr *wr, uint64_t n,
			struct soft_fate *fate)
{
	const struct soft_fault_rates *rates = &soft_fault_rates;

	while (fate->drops < DROPS_MAX && dice_one_in(dice, rates->drop_in))
		fate->drops++;
	if (fate->drops && wr->opcode == IBV_WR_RDMA_READ)
		fate->answer_lost = dice_one_in(dice, 2);
	while (fate->rnrs < DROPS_MAX && dice_one_in(dice, rates->rnr_in))
		fate->rnrs++;
	if (rates->delay_ns)
		fate->begins_ns += dice_below(dice, rates->delay_ns + 1);
	fate->breaks = n == rates->break_at;
}

void soft_fate_draw(struct soft_qp *qp, const struct ibv_send_wr *wr, struct soft_fate *fate)
{
	memset(fate, 0, sizeof(*fate));
	fate->begins_ns = time_now_ns();
	draw_weak(&qp->weak_dice, wr, fate);
	draw_faults(&qp->fault_dice, wr, ++qp->fated, fate);
}
