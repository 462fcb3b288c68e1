/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Finding the real functions.
 *
 * This library calls itself libibverbs.so.1, so that asking the loader for that name would give
 * this library again. The real one is asked for by the absolute path that this library also names
 * in its DT_NEEDED: it is loaded already, whoever loaded this one. dlvsym() on its handle looks
 * into it and what it needs, and never here.
 *
 * Each address is found at its first use and kept. There is no pthread_once: a driver that is being
 * loaded may call from its constructor, with the loader's lock held, and would wait for a thread
 * that waits for that lock. Threads that come at the same time each find the same.
 */
#include "common/softrdma/preload/real.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>

#define PRIVATE		      NULL
#define SYMBOL(name, version) [SOFT_REAL_##name] = { #name, version },
static const struct {
	const char *name, *version;
} symbols[SOFT_REALS] = { SOFT_INTERPOSED(SYMBOL) SOFT_INTERPOSED_CM(SYMBOL) };

static _Atomic(void *) addresses[SOFT_REALS];
static _Atomic(void *) verbs_handle;

static void *verbs_library(void)
{
	/* relaxed: the handle is a name to libc, nothing that this library wrote is behind it */
	void *handle = atomic_load_explicit(&verbs_handle, memory_order_relaxed);

	if (handle)
		return handle;
	handle = dlopen(REAL_LIBIBVERBS, RTLD_LAZY | RTLD_LOCAL);
	atomic_store_explicit(&verbs_handle, handle, memory_order_relaxed);
	return handle;
}

static void *find_verbs(const char *name, const char *version)
{
	void *handle = verbs_library();

	if (!handle)
		return NULL;
	return version ? dlvsym(handle, name, version) : dlsym(handle, name);
}

/* librdmacm comes after this library where it is linked, or is loaded by a plugin of its own. */
static void *find_cm(const char *name, const char *version)
{
	void *address = dlvsym(RTLD_NEXT, name, version), *handle;

	if (address)
		return address;
	handle = dlopen("librdmacm.so.1", RTLD_LAZY | RTLD_NOLOAD);
	if (!handle)
		return NULL;
	address = dlvsym(handle, name, version);
	dlclose(handle);
	return address;
}

void *soft_real_find(enum soft_real_index index)
{
	/* relaxed: as in verbs_library() */
	void *address = atomic_load_explicit(&addresses[index], memory_order_relaxed);
	const char *name = symbols[index].name, *version = symbols[index].version;
	bool cm = index >= SOFT_REAL_rdma_create_event_channel;

	if (address)
		return address;
	address = cm ? find_cm(name, version) : find_verbs(name, version);
	if (!address) {
		fprintf(stderr,
			"softrdma: %s has no %s%s%s: another release than this was built for "
			"(%s)\n",
			cm ? "librdmacm" : REAL_LIBIBVERBS, name, version ? "@" : "",
			version ? version : "",
			cm ? "is librdmacm.so.1 loaded?" : "build softrdma on this machine");
		errno = ENOSYS;
		return NULL;
	}
	atomic_store_explicit(&addresses[index], address, memory_order_relaxed);
	return address;
}

int soft_refuse(void)
{
	errno = EOPNOTSUPP;
	return EOPNOTSUPP;
}

void *soft_refuse_pointer(void)
{
	errno = EOPNOTSUPP;
	return NULL;
}
