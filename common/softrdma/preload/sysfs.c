/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Files that a kernel device has in /sys and that programs read through libibverbs, such as the
 * board of ibv_devinfo. soft0 has no folder there: what is asked for below its ibdev_path is
 * answered here. Programs that open files in /sys by themselves find none, as for a device that
 * has just been unplugged.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/softrdma/preload/real.h"
#include "common/softrdma/preload/undeclared.h"
#include "common/softrdma/softrdma.h"

static void print_guid(char *text, size_t size)
{
	__be64 guid = softrdma_device_guid();
	uint16_t parts[4];

	memcpy(parts, &guid, sizeof(parts));
	snprintf(text, size, "%04x:%04x:%04x:%04x", ntohs(parts[0]), ntohs(parts[1]),
		 ntohs(parts[2]), ntohs(parts[3]));
}

static const char *pseudo_file(const char *name, char *text, size_t size)
{
	if (strcmp(name, "board_id") == 0 || strcmp(name, "hca_type") == 0)
		return "softrdma";
	if (strcmp(name, "node_type") == 0)
		return "1: CA";
	if (strcmp(name, "node_guid") == 0 || strcmp(name, "sys_image_guid") == 0) {
		print_guid(text, size);
		return text;
	}
	return NULL;
}

SOFT_EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	const char *text = NULL;
	char scratch[32];
	size_t length;

	if (strcmp(dir, softrdma_device()->ibdev_path) == 0)
		text = pseudo_file(file, scratch, sizeof(scratch));
	if (!text)
		return SOFT_FORWARD(-1, ibv_read_sysfs_file, dir, file, buf, size);
	length = strlen(text);
	if (length >= size) {
		errno = ENOSPC;
		return -1;
	}
	memcpy(buf, text, length + 1);
	return (int)length;
}
