/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A program that is not linked with libibverbs and loads it by name, as MPI and UCX do, taking
 * functions with and without their versions. With the argument "old" it takes those of 2006.
 */
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

static void *library;

static void *function(const char *name, const char *version)
{
	void *address = version ? dlvsym(library, name, version) : dlsym(library, name);

	if (!address)
		fprintf(stderr, "%s@%s is not found: %s\n", name, version ? version : "",
			dlerror());
	return address;
}

#define TAKE(name, version) \
	__typeof__(&(name)) take_##name = (__typeof__(&(name)))function(#name, version)

/* The first members of a context, and all of a device, were others then: only handed around. */
static int old_functions(void)
{
	TAKE(ibv_get_device_list, "IBVERBS_1.0");
	TAKE(ibv_free_device_list, "IBVERBS_1.0");
	TAKE(ibv_get_device_name, "IBVERBS_1.0");
	TAKE(ibv_open_device, "IBVERBS_1.0");
	TAKE(ibv_close_device, "IBVERBS_1.0");
	struct ibv_device **list;
	struct ibv_context *context;
	int count = 0;

	if (!take_ibv_get_device_list || !take_ibv_free_device_list || !take_ibv_get_device_name ||
	    !take_ibv_open_device || !take_ibv_close_device)
		return 1;
	list = take_ibv_get_device_list(&count);
	if (!list || count < 1)
		return 2;
	printf("%s\n", take_ibv_get_device_name(list[count - 1]));
	context = take_ibv_open_device(list[count - 1]);
	if (!context)
		return 3;
	if (take_ibv_close_device(context))
		return 4;
	take_ibv_free_device_list(list);
	return 0;
}

static int functions(void)
{
	TAKE(ibv_get_device_list, NULL);
	TAKE(ibv_free_device_list, "IBVERBS_1.1");
	TAKE(ibv_get_device_name, "IBVERBS_1.1");
	TAKE(ibv_open_device, "IBVERBS_1.1");
	TAKE(ibv_close_device, NULL);
	TAKE(ibv_alloc_pd, "IBVERBS_1.1");
	TAKE(ibv_dealloc_pd, NULL);
	TAKE(ibv_wc_status_str, "IBVERBS_1.1");
	struct ibv_device **list;
	struct ibv_context *context;
	struct ibv_pd *pd;
	int count = 0;

	if (!take_ibv_get_device_list || !take_ibv_free_device_list || !take_ibv_get_device_name ||
	    !take_ibv_open_device || !take_ibv_close_device || !take_ibv_alloc_pd ||
	    !take_ibv_dealloc_pd || !take_ibv_wc_status_str)
		return 1;
	/* For drivers: it comes from the real library, through ours. */
	if (!function("ibv_cmd_query_port", NULL))
		return 2;
	if (strcmp(take_ibv_wc_status_str(IBV_WC_SUCCESS), "success") != 0)
		return 3;
	list = take_ibv_get_device_list(&count);
	if (!list || count < 1)
		return 4;
	printf("%s\n", take_ibv_get_device_name(list[count - 1]));
	context = take_ibv_open_device(list[count - 1]);
	if (!context)
		return 5;
	pd = take_ibv_alloc_pd(context);
	if (!pd || take_ibv_dealloc_pd(pd))
		return 6;
	if (take_ibv_close_device(context))
		return 7;
	take_ibv_free_device_list(list);
	return 0;
}

int main(int argc, char **argv)
{
	int rc;

	library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		fprintf(stderr, "dlopen: %s\n", dlerror());
		return 1;
	}
	rc = argc > 1 && strcmp(argv[1], "old") == 0 ? old_functions() : functions();
	dlclose(library);
	return rc;
}
