/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What configuration.c and configuration_json.c share. */
#include "server/group/configuration.h"

/* group_config_fault - why it is none, in words; NULL: it is one. */
const char *group_config_fault(const struct group_config *c);
