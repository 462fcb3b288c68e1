/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Names of clusters and groups, and the keys of etcd that are made of them. */
#include "common/base/error.h"

#define GROUP_NAME_CHARS 64u
#define GROUP_KEY_BYTES	 (sizeof("/gracekv//cluster//") + 2 * GROUP_NAME_CHARS)

/* group_name_check - of letters, digits, '-', '_' and '.': 0, or -EINVAL with @err. @what: what is
 * named so. */
int group_name_check(const char *what, const char *name, struct error *err);

/* group_key - "/gracekv/CLUSTER/WHAT", of names that were checked. */
void group_key(const char *cluster, const char *what, char out[GROUP_KEY_BYTES]);
