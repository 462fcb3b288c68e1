/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* kv-bw: how many operations a running kv-server's clients get through. */
#include "tools/kv-bw-lat/main.h"

int main(int argc, char **argv)
{
	return perf_main(false, argc, argv);
}
