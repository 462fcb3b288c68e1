/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Private to stress: the table grows and shrinks under readers. */
#include "tests/stress/growth/watch.h"
#include "tests/stress/home.h"
#include "tests/stress/visitor.h"

/* growth_run - the phases. The others: see struct face. */
int growth_run(struct home *h);
uint32_t growth_pick(const struct shared *s, uint64_t *random);
void growth_write(struct writer *w);
void growth_published(struct writer *w, uint32_t k, const struct store_result *result);

/* growth_remote - a remote reader's process. Never returns. */
_Noreturn void growth_remote(struct shared *s, unsigned number);

/* Its parts: scans, and reading everything once with nobody writing. */
void remote_scan(struct visitor *r, uint32_t step);
void remote_verify(struct visitor *r);
