/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Which device is taken, and what is said of those that were not. libibverbs is acted here. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <string.h>

#include "common/rdma/device.h"

static struct {
	unsigned count; /* devices */
	bool none; /* no RDMA subsystem */
	int open_fails; /* errno */
} verbs;

static struct ibv_device devices[2] = { { .name = "fake0" }, { .name = "fake1" } };
static struct ibv_device *list[3];

struct ibv_device **ibv_get_device_list(int *count)
{
	memset(list, 0, sizeof(list));
	for (unsigned i = 0; i < verbs.count; i++)
		list[i] = &devices[i];
	errno = ENOSYS;
	return verbs.none ? NULL : list;
}

void ibv_free_device_list(struct ibv_device **l)
{
	assert_ptr_equal(l, list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	errno = verbs.open_fails;
	return NULL;
}

static struct error err;

static struct rdma_device *open_as(const char *name, int want)
{
	struct rdma_options o = rdma_options_default();
	struct rdma_device *dev = NULL;

	o.device = name;
	memset(&err, 0, sizeof(err));
	assert_int_equal(rdma_device_open(&dev, &o, NULL, &err), want);
	if (want)
		assert_int_equal(err.code, want);
	return dev;
}

UNIT_TEST(the_software_device_says_what_it_stands_for)
{
	static const char *const automatic[] = { NULL, "", "auto" };

	verbs = (typeof(verbs)){ .count = 2, .open_fails = EACCES };
	for (unsigned i = 0; i < sizeof(automatic) / sizeof(automatic[0]); i++) {
		struct rdma_device *dev = open_as(automatic[i], 0);

		assert_true(dev->software);
		assert_true(dev->instead);
		assert_non_null(strstr(dev->choice, "ibv_open_device of fake1 failed"));
		assert_non_null(strstr(dev->choice, "/dev/infiniband"));
		assert_non_null(strstr(dev->choice, ", so the software device"));
		rdma_device_close(dev);
	}
}

UNIT_TEST(without_real_devices_it_is_the_usual_choice)
{
	for (unsigned none = 0; none < 2; none++) {
		struct rdma_device *dev;

		verbs = (typeof(verbs)){ .none = none };
		dev = open_as("auto", 0);
		assert_true(dev->software);
		assert_false(dev->instead);
		assert_non_null(strstr(dev->choice, "no RDMA device with an ACTIVE port, so the "
						    "software device"));
		rdma_device_close(dev);
	}
}

UNIT_TEST(a_named_device_that_fails_is_not_missing)
{
	static const int codes[] = { EACCES, ENODEV, ENOMEM };

	for (unsigned i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		verbs = (typeof(verbs)){ .count = 2, .open_fails = codes[i] };
		assert_null(open_as("fake0", -codes[i]));
		assert_non_null(strstr(err.text, "ibv_open_device of fake0 failed"));
		assert_null(strstr(err.text, "there is no"));
	}
}

/* As a real one may be, or ours under softrdma-run: the name is taken once. */
UNIT_TEST(of_two_with_one_name_the_second_is_no_way_out)
{
	const struct ibv_device before = devices[0];

	strcpy(devices[0].name, "soft0");
	verbs = (typeof(verbs)){ .count = 1, .open_fails = ENODEV };
	assert_null(open_as("soft0", -ENODEV));
	devices[0] = before;
}

UNIT_TEST(a_name_that_nobody_has_is_missing)
{
	verbs = (typeof(verbs)){ .count = 2, .open_fails = EACCES };
	assert_null(open_as("fake7", -ENODEV));
	assert_non_null(strstr(err.text, "no RDMA device 'fake7' (here are: fake0, fake1, soft0;"));
	verbs = (typeof(verbs)){ .none = true };
	assert_null(open_as("fake0", -ENODEV));
	assert_non_null(strstr(err.text, "no RDMA device 'fake0' (here are: soft0;"));
}

UNIT_TEST(soft0_by_name_tries_no_other)
{
	struct rdma_device *dev;

	verbs = (typeof(verbs)){ .count = 2, .open_fails = EACCES };
	dev = open_as("soft0", 0);
	assert_false(dev->instead);
	assert_non_null(strstr(dev->choice, "device soft0 port 1: as asked for;"));
	rdma_device_close(dev);
}
