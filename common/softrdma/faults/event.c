/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/softrdma/faults/event.h"

#include <stdint.h>
#include <string.h>

#include "common/base/parse.h"
#include "common/base/time.h"
#include "common/softrdma/device/context.h"
#include "common/softrdma/device/port.h"
#include "common/softrdma/faults/fault.h"

#define EVENTS_MAX 16
#define AFTER_MAX  3600000 /* ms */

static const struct {
	const char *name;
	enum ibv_event_type type;
} names[] = { { "port_err", IBV_EVENT_PORT_ERR },
	      { "port_active", IBV_EVENT_PORT_ACTIVE },
	      { "lid_change", IBV_EVENT_LID_CHANGE },
	      { "gid_change", IBV_EVENT_GID_CHANGE },
	      { "device_fatal", IBV_EVENT_DEVICE_FATAL } };

/* Before the service thread runs, the opener's; then its own. */
static struct {
	enum ibv_event_type type;
	uint64_t after_ns;
} events[EVENTS_MAX];

static unsigned count;
static uint64_t start_ns; /* 0: their time does not run yet */

bool soft_event_parse(char *value)
{
	char *after = strchr(value, '@');
	uint64_t ms;

	if (!after || count == EVENTS_MAX ||
	    parse_u64("event", after + 1, 0, AFTER_MAX, &ms, NULL) < 0)
		return false;
	*after = '\0';
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(value, names[i].name) != 0)
			continue;
		events[count].type = names[i].type;
		events[count++].after_ns = ms * NS_PER_MS;
		return true;
	}
	return false;
}

void soft_events_none(void)
{
	count = 0;
	start_ns = 0;
}

bool soft_events_pending(void)
{
	return count;
}

/* The first of those that are due, by their time; EVENTS_MAX: none. */
static unsigned events_next(uint64_t passed_ns)
{
	unsigned next = EVENTS_MAX;

	for (unsigned i = 0; i < count; i++) {
		if (events[i].after_ns <= passed_ns &&
		    (next == EVENTS_MAX || events[i].after_ns < events[next].after_ns))
			next = i;
	}
	return next;
}

void soft_events_tick(void)
{
	unsigned next;

	if (!count || (!start_ns && !soft_fault_gate()))
		return;
	if (!start_ns)
		start_ns = time_now_ns();
	while ((next = events_next(time_now_ns() - start_ns)) < EVENTS_MAX) {
		enum ibv_event_type type = events[next].type;

		/* of two at the same time, the one that was named first comes first */
		memmove(&events[next], &events[next + 1], (--count - next) * sizeof(events[0]));
		soft_port_change(type);
		soft_contexts_raise(type);
	}
}
