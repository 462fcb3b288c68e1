/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * To be preloaded: /dev/infiniband/uverbs0 seems to exist, so that libibverbs lists a device that
 * a folder of files describes (SYSFS_PATH), and loads its drivers for it. It cannot be opened.
 */
#undef _FILE_OFFSET_BITS /* would make it stat64() */
#include <dlfcn.h>
#include <string.h>
#include <sys/stat.h>

int stat(const char *restrict path, struct stat *restrict buf)
{
	static const char pretended[] = "/dev/infiniband/uverbs0";
	__typeof__(&stat) real = (__typeof__(&stat))dlsym(RTLD_NEXT, "stat");

	return real(strcmp(path, pretended) == 0 ? "/dev/null" : path, buf);
}
