/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/layout/version.h"

#include <inttypes.h>

#include "common/layout/root.h"

void version_print(FILE *out, const char *program, const char *version)
{
	fprintf(out, "%s %s (libibverbs %s, liburcu %s, layout %u hash %016" PRIx64 ")\n", program,
		version, LIBIBVERBS_VERSION, LIBURCU_VERSION, LAYOUT_VERSION, layout_hash());
}
