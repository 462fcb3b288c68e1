/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* kv-bw: how many operations a running kv-server's clients get through. */
#include "tools/perf/main.h"

int main(int argc, char **argv)
{
	return perf_main(false, argc, argv);
}
