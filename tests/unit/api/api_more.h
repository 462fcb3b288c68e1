/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Calls of api_calls with more than one step. */
#include "client/include/gracekv.h"

int api_mput(struct gkv *kv);
int api_mdel(struct gkv *kv);
int api_scan_chunks(struct gkv *kv);

/* api_submit - one operation, and wait for its end. Returns what submitting failed with, else its
 * completion's status. */
int api_submit(struct gkv *kv, const struct gkv_request *request, struct gkv_completion *out);
