/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Calls what uses of rdma_cm begin with, each by the name that the loader finds first, and prints
 * a line for each: its result and errno. With an argument, a library that it loads before, as a
 * plugin would that brings its own librdmacm.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/softrdma/preload/undeclared.h"

#define FIND(name) __typeof__(&(name)) find_##name = (__typeof__(&(name)))dlsym(RTLD_DEFAULT, #name)

static int code_of(int failed)
{
	return failed ? errno : 0;
}

int main(int argc, char **argv)
{
	void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
	FIND(rdma_create_event_channel);
	FIND(rdma_create_id);
	FIND(rdma_create_ep);
	char mark; /* an address to pass through */
	struct rdma_cm_id *id = NULL;
	int code;

	if (argc > 1 && !plugin) {
		fprintf(stderr, "cm_user: %s\n", dlerror());
		return 1;
	}
	if (!find_rdma_create_event_channel || !find_rdma_create_id || !find_rdma_create_ep) {
		fprintf(stderr, "cm_user: not preloaded\n");
		return 1;
	}
	code = code_of(!find_rdma_create_event_channel());
	printf("rdma_create_event_channel %s\n", code ? strerrorname_np(code) : "ok");
	code = code_of(find_rdma_create_id((struct rdma_event_channel *)&mark, &id, NULL, 0x106));
	printf("rdma_create_id %s %d\n", code ? strerrorname_np(code) : "ok", (char *)id == &mark);
	id = NULL;
	code = code_of(find_rdma_create_ep(&id, (struct rdma_addrinfo *)&mark, NULL, NULL));
	printf("rdma_create_ep %s %d\n", code ? strerrorname_np(code) : "ok", (char *)id == &mark);
	return 0;
}
