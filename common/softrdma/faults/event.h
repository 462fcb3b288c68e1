/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Events of SOFTRDMA_FAULT: the port or the device changes some time after the device was opened.
 * What a process has open is told all of it, and finds the port as the event says.
 */
#include <stdbool.h>

/* soft_event_parse - one more, "NAME@MILLISECONDS". Returns false if that means nothing. */
bool soft_event_parse(char *value);

/* soft_events_none - forget all of them. */
void soft_events_none(void);

/* soft_events_pending - is any still to come? The service thread, or before it runs. */
bool soft_events_pending(void);

/* soft_events_tick - let happen what is due. The service thread only, without locks. */
void soft_events_tick(void);
