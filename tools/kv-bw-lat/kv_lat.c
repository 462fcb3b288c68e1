/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* kv-lat: how long one operation on a running kv-server takes. */
#include "tools/kv-bw-lat/main.h"

int main(int argc, char **argv)
{
	return perf_main(true, argc, argv);
}
