/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Cleanup attributes for file descriptors and heap. Verbs objects are undone by hand. */
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void cleanup_free_ptr(void *p)
{
	free(*(void **)p);
}

#define autoclose __attribute__((cleanup(cleanup_close_fd)))
#define autofree  __attribute__((cleanup(cleanup_free_ptr)))

/* cleanup_take_fd - hand the descriptor on: the variable becomes -1. */
static inline int cleanup_take_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}
