/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* SOFTRDMA_FAULT's cut=FOLDER: networks that are cut between processes, and mended, while they run.
 * docs/SOFTRDMA.md has what the folder means. */
#include <stdbool.h>
#include <sys/types.h>

/* soft_cut_parse - the folder. Returns false if there is none. soft_cut_none - forget it. */
bool soft_cut_parse(const char *folder);
void soft_cut_none(void);

/* soft_cuts - was a folder given? Constant while the device is open. */
bool soft_cuts(void);

/* soft_cut - does nothing that process @from sends reach @to now? Any thread. */
bool soft_cut(pid_t from, pid_t to);
