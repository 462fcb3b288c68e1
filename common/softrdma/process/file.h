/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Files (memfd, shm) that registered memory lies in, so that peers can map them. */
#include <stdbool.h>
#include <stdint.h>

struct soft_file_ref {
	uint64_t id; /* 0: no file */
	uint32_t index;
	uint64_t offset; /* of the range in the file */
};

/*
 * soft_file_find - check that memory is there (and writable, if @write) and find the file that all
 * of it lies in. @ref: id 0 where there is none that peers could map.
 * Returns 0, -EFAULT, or what opening /proc/self/maps fails with.
 */
int soft_file_find(uint64_t addr, uint64_t length, bool write, struct soft_file_ref *ref);

/* soft_file_put - give back what soft_file_find() found; does nothing where id is 0. */
void soft_file_put(const struct soft_file_ref *ref);

/* soft_file_dup - a copy of the descriptor of file @id, or -1. */
int soft_file_dup(uint64_t id);

void soft_files_fork_child(void);
