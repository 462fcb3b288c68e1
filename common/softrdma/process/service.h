/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* The service thread of a process on soft0: see service.c. */
#include <stdbool.h>
#include <stdint.h>

/* soft_service_start, soft_service_stop - under the process lock. Start: 0 or a negative errno. */
int soft_service_start(void);
void soft_service_stop(void);

/* soft_service_fork_child - close what a forked child inherited. */
void soft_service_fork_child(void);

/* soft_service_is_self - is the caller the service thread? */
bool soft_service_is_self(void);

/*
 * soft_service_watch - call a peer dead at the first of @events (of epoll) on @fd.
 * Returns 0 or a negative errno.
 */
int soft_service_watch(int fd, uint32_t events, uint64_t peer_id);

/*
 * soft_service_datagrams - from now on, receive from the socket @fd of the UD QP of @index.
 * soft_service_datagrams_watch - do so or leave it for a while. Return 0 or a negative errno.
 */
int soft_service_datagrams(int fd, uint32_t index);
int soft_service_datagrams_watch(int fd, uint32_t index, bool watch);

/* soft_service_forget - leave @fd alone; an event of it may still be under way. */
void soft_service_forget(int fd);
