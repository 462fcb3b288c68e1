/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/layout/meta_format.h"

#include <errno.h>

#include "common/base/hash.h"

#define CHECKED_START 8u

uint64_t meta_checksum(const struct data_meta *m)
{
	return hash_bytes((const uint8_t *)m + CHECKED_START, sizeof(*m) - CHECKED_START);
}

static int wrong(const char **why, const char *text)
{
	*why = text;
	return -EINVAL;
}

int meta_decode(const void *bytes, uint64_t len, const struct data_meta **out, const char **why)
{
	const struct data_meta *m = bytes;

	if (len < sizeof(*m))
		return wrong(why, "the file is too short");
	if (m->magic != META_MAGIC)
		return wrong(why, "the file does not begin with its magic");
	if (m->checksum != meta_checksum(m))
		return wrong(why, "the file's checksum is wrong");
	if (m->format != META_FORMAT) {
		*why = "the directory has another format than this release reads";
		*out = m;
		return -EPROTO;
	}
	if (len > sizeof(*m))
		return wrong(why, "the file is too long");
	if (!(m->store[0] | m->store[1]) || m->life > LIFE_MAX)
		return wrong(why, "fields are out of range");
	*out = m;
	return 0;
}
