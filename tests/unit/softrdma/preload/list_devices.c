/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Prints the devices in their order, a line each: name, index, GUID. With names as arguments,
 * opens these too and prints what that gave.
 */
#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int open_one(struct ibv_device **list, const char *name)
{
	struct ibv_context *context;

	while (*list && strcmp(ibv_get_device_name(*list), name) != 0)
		list++;
	if (!*list) {
		printf("%s: no such device\n", name);
		return 0;
	}
	context = ibv_open_device(*list);
	if (!context) {
		printf("%s: not opened\n", name);
		return 0;
	}
	printf("%s: opened\n", name);
	if (ibv_close_device(context)) {
		fprintf(stderr, "ibv_close_device failed\n");
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct ibv_device **list;
	int count = -1, bad = 0;

	list = ibv_get_device_list(&count);
	if (!list) {
		printf("none: %s\n", strerrorname_np(errno));
		return 0;
	}
	for (int i = 0; i < count; i++)
		printf("%s %d %016" PRIx64 "\n", ibv_get_device_name(list[i]),
		       ibv_get_device_index(list[i]), be64toh(ibv_get_device_guid(list[i])));
	if (list[count]) {
		fprintf(stderr, "the list does not end after %d\n", count);
		bad = 1;
	}
	for (int i = 1; i < argc; i++)
		bad |= open_one(list, argv[i]);
	ibv_free_device_list(list);
	return bad;
}
