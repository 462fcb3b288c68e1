/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * descriptors_fill - a program's first act: a standard descriptor that was closed would be taken by
 * the next file or socket, and what is printed would go into it. What takes its place here can
 * only be used in the wrong direction, so that uses of it fail. Before any thread is started.
 * Returns 0 or a negative errno.
 */
int descriptors_fill(void);
