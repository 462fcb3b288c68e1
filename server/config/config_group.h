/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
#include "server/config/config.h"
#include "server/config/settings.h"

/* config_parse_group - returns 0, -EINVAL or -ERANGE with @err. */
int config_parse_group(struct config_group *g, const struct setting_values *v, struct error *err);
