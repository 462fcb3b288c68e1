/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* The public API over a table in this process, with faults on demand, to test kv-cli's commands. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/include/gracekv.h"

struct fake_faults {
	bool unreachable; /* sessions do not open */
	long fail_put; /* this put from now on answers -ENOMEM; 0: none */
	long fail_more; /* and so many after it */
	unsigned handles; /* no more than these open; 0: no limit */
	const char *corrupt; /* gets of this key answer with one byte changed */
	bool vanish; /* a delete that is refused leaves no record behind */
	const char *lose; /* gets of this key find nothing */
	bool no_clock; /* the server's clock cannot be read */
	/* answers of gkv_server_stats(), the last one for ever, "": it fails; NULL-terminated */
	int64_t save; /* answer of gkv_save(): the snapshot's number, or a negative errno */
	const char *const *statistics; /* NULL: a text of two lines */
};

extern struct fake_faults fake_faults;
extern struct gkv_write_options fake_options; /* of the last write that had some */
extern uint64_t fake_clock_ms; /* the server's wall clock, another one than this machine's */
extern unsigned fake_sessions; /* that were opened */
extern unsigned fake_batches; /* calls of gkv_mput() */
extern unsigned fake_submitted; /* puts in flight */
extern unsigned fake_repeats; /* while there was one with the same key */

#define FAKE_CLOCK_MS 951827696789u /* that of fake_clear(): 2000-02-29T12:34:56.789Z */

/* fake_clear - an empty store without faults. */
void fake_clear(void);

/* fake_count - how many records there are. */
size_t fake_count(void);
