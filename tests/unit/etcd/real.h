/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* An etcd of one member, as it is packaged, in a process of its own and in the test's folder. */

struct real;

/* real_start - it answers. @more: more of its options, ended by NULL, or NULL. real_end - SIGKILL.
 * real_signal - after SIGSTOP nothing of it runs any more. real_restart - killed if it runs, and
 * started on what it has written, at the same port. */
struct real *real_start(const char *scheme, const char *const *more);
void real_restart(struct real *r);
void real_end(struct real *r);
void real_signal(const struct real *r, int signal);
const char *real_url(const struct real *r);
