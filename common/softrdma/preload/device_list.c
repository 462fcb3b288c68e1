/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The list of devices: the real ones, then soft0.
 *
 * The real list holds references on its devices and must go back to the real library. A program may
 * sort the array that it was given (librdmacm does), so that the real list is kept beside it as it
 * was. Drivers hand out lists of their own making (mlx5dv_get_vfio_device_list) to be freed by
 * ibv_free_device_list(): a list that is not known here is theirs.
 *
 * ibv_import_device() of the real library looks for the device in the list, by name of this
 * function, and at private members of each: it gets the list without soft0.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "common/softrdma/preload/real.h"

#undef ibv_get_device_list

struct device_list {
	struct device_list *next;
	struct ibv_device **real; /* NULL: the real library gave none */
	struct ibv_device *devices[];
};

static struct {
	pthread_mutex_t mutex; /* protects the rest; nothing is called under it */
	struct device_list *first;
} lists = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static _Thread_local bool importing;

static void free_real_list(struct ibv_device **list)
{
	SOFT_FORWARD((void)0, ibv_free_device_list, list);
}

SOFT_EXPORT struct ibv_device **ibv_get_device_list(int *count)
{
	struct ibv_device **real;
	struct device_list *list;
	int reals = 0;

	if (importing)
		return SOFT_FORWARD(NULL, ibv_get_device_list, count);
	/* It fails where the kernel has no RDMA at all. That is where soft0 is wanted. */
	real = SOFT_FORWARD(NULL, ibv_get_device_list, &reals);
	if (!real)
		reals = 0;
	list = calloc(1, sizeof(*list) + ((size_t)reals + 2) * sizeof(list->devices[0]));
	if (!list) {
		if (real)
			free_real_list(real);
		if (count)
			*count = 0;
		errno = ENOMEM;
		return NULL;
	}
	list->real = real;
	for (int i = 0; i < reals; i++)
		list->devices[i] = real[i];
	list->devices[reals] = softrdma_device();
	if (count)
		*count = reals + 1;
	pthread_mutex_lock(&lists.mutex);
	list->next = lists.first;
	lists.first = list;
	pthread_mutex_unlock(&lists.mutex);
	return list->devices;
}

SOFT_EXPORT void ibv_free_device_list(struct ibv_device **devices)
{
	struct device_list **link, *list;

	pthread_mutex_lock(&lists.mutex);
	for (link = &lists.first; (list = *link) != NULL; link = &list->next) {
		if (list->devices == devices) {
			*link = list->next;
			break;
		}
	}
	pthread_mutex_unlock(&lists.mutex);
	if (!list) {
		free_real_list(devices);
		return;
	}
	if (list->real)
		free_real_list(list->real);
	free(list);
}

SOFT_EXPORT struct ibv_context *ibv_import_device(int cmd_fd)
{
	struct ibv_context *context;

	importing = true;
	context = SOFT_FORWARD(NULL, ibv_import_device, cmd_fd);
	importing = false;
	return context;
}
