/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* DIR/meta: read, and replaced as a whole. */
#include "common/layout/meta_format.h"
#include "server/log/io.h"

/*
 * meta_read - returns 0; -ENOENT: there is none; -EUCLEAN: corrupt; -EPROTO: of another format,
 * which @err names with what to do.
 * meta_write - seals @m and replaces the file: durable, name included, on return.
 */
int meta_read(const struct log_io *io, struct data_meta *out, struct error *err);
int meta_write(const struct log_io *io, struct data_meta *m, struct error *err);
