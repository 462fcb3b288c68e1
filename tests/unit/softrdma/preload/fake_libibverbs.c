/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A libibverbs that notes its calls. It knows no header of the real one: whatever a function
 * takes, up to six integers and pointers, comes in six registers.
 */
#include "tests/unit/softrdma/preload/fake_libibverbs.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

static uint64_t devices[FAKE_DEVICES][256]; /* larger than a device of any release */
static struct fake fake = { .devices = { devices[0], devices[1] } };

EXPORT struct fake *fake_handle(void)
{
	return &fake;
}

static long fake_note(const char *name, const long *args)
{
	fake.last = name;
	fake.calls++;
	for (int i = 0; i < FAKE_ARGS; i++)
		fake.args[i] = args[i];
	return fake.result;
}

#define FAKE(name)                                                           \
	EXPORT long name(long a, long b, long c, long d, long e, long f);    \
	long name(long a, long b, long c, long d, long e, long f)            \
	{                                                                    \
		return fake_note(#name, (const long[]){ a, b, c, d, e, f }); \
	}
#include "fake_functions.inc"

EXPORT void **ibv_get_device_list(int *count);
EXPORT void ibv_free_device_list(void **list);
EXPORT void *ibv_import_device(int fd);

void **ibv_get_device_list(int *count)
{
	void **list;

	fake.last = "ibv_get_device_list";
	fake.calls++;
	if (count)
		*count = fake.no_list ? 0 : FAKE_DEVICES;
	if (fake.no_list) {
		errno = ENOSYS;
		return NULL;
	}
	list = calloc(FAKE_DEVICES + 1, sizeof(*list));
	if (!list)
		return NULL;
	for (int i = 0; i < FAKE_DEVICES; i++)
		list[i] = fake.devices[i];
	fake.lists++;
	return list;
}

/* As the real one: each device in the list must be one of its own. */
void ibv_free_device_list(void **list)
{
	fake.last = "ibv_free_device_list";
	fake.calls++;
	for (int i = 0; list[i]; i++) {
		if (list[i] != fake.devices[0] && list[i] != fake.devices[1])
			abort();
	}
	fake.lists--;
	free(list);
}

/* The real one calls the function of that name, which may be another library's. */
void *ibv_import_device(int fd)
{
	void **list = ibv_get_device_list(NULL);

	for (fake.imported_from = 0; list && list[fake.imported_from];)
		fake.imported_from++;
	if (list)
		ibv_free_device_list(list);
	return (void *)fake_note("ibv_import_device", (const long[FAKE_ARGS]){ fd });
}
