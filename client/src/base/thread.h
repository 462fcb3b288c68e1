/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Threads of the library: signals are the application's, whose own threads get them. */
#include <pthread.h>

/* thread_start - @name: at most 15 characters. Returns 0 or a negative errno. */
int thread_start(pthread_t *out, const char *name, void *(*run)(void *), void *arg);
