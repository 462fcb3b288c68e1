/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
#include "client/src/link/handle.h"

/*
 * handle_open_unread - as gkv_open(), but root and directory are not READ yet, and it has no hints:
 * for callers that look at them themselves, as they may be unsound. Closed by gkv_close().
 */
int handle_open_unread(struct gkv_session *s, struct gkv **out, struct error *err);
