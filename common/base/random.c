/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/base/random.h"

#include <errno.h>
#include <sys/random.h>

#include "common/base/time.h"

struct random_table random_table = { .draw = getrandom };

int random_fill(void *out, size_t len, struct error *err)
{
	if (random_table.draw(out, len, 0) == (ssize_t)len)
		return 0;
	return error_set(err, -EIO, "getrandom failed: %s", error_name(errno));
}

uint64_t random_chance(void)
{
	uint64_t chance;

	if (random_table.draw(&chance, sizeof(chance), GRND_NONBLOCK) != sizeof(chance))
		chance = time_now_ns();
	return chance;
}
