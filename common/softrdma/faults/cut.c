/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A file FROM-TO in the folder cuts what process FROM sends to process TO; 0 stands for every
 * process. The folder is read when something is sent and LOOK_NS have gone by since it was last.
 */
#include "common/softrdma/faults/cut.h"

#include <dirent.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/time.h"

#define LOOK_NS	 NS_PER_MS
#define CUTS_MAX 256u

static char *folder; /* NULL: none. Constant while the device is open */

static struct {
	pthread_mutex_t lock; /* a leaf */
	uint64_t looked_ns;
	unsigned count;
	struct {
		pid_t from, to;
	} cut[CUTS_MAX];
} now = { .lock = PTHREAD_MUTEX_INITIALIZER };

bool soft_cut_parse(const char *path)
{
	free(folder);
	folder = *path ? strdup(path) : NULL;
	return folder;
}

void soft_cut_none(void)
{
	free(folder);
	folder = NULL;
}

bool soft_cuts(void)
{
	return folder;
}

/* Under the lock. */
static void look(void)
{
	const struct dirent *e;
	DIR *d = opendir(folder);
	char rest;

	now.count = 0;
	now.looked_ns = time_now_ns();
	while (d && now.count < CUTS_MAX && (e = readdir(d)) != NULL)
		if (sscanf(e->d_name, "%d-%d%c", &now.cut[now.count].from, &now.cut[now.count].to,
			   &rest) == 2)
			now.count++;
	if (d)
		closedir(d);
}

static bool is(pid_t said, pid_t pid)
{
	return said == 0 || said == pid;
}

bool soft_cut(pid_t from, pid_t to)
{
	bool cut = false;

	if (!folder)
		return false;
	pthread_mutex_lock(&now.lock);
	if (time_now_ns() - now.looked_ns >= LOOK_NS)
		look();
	for (unsigned i = 0; i < now.count && !cut; i++)
		cut = is(now.cut[i].from, from) && is(now.cut[i].to, to);
	pthread_mutex_unlock(&now.lock);
	return cut;
}
