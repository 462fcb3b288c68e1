/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What the inline functions of verbs.h call: see operations.c. */
#include <infiniband/verbs.h>

/* soft_operations - fill in a zeroed context. */
void soft_operations(struct verbs_context *ex);
