/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * liburcu's QSBR flavour, in the few words that this server uses of it.
 *
 * ThreadSanitizer cannot see into the library, so the happens-before edges of a grace period are
 * spelt out for it: every reader's quiescent state is a release, the end of the grace period
 * an acquire, and coming online the other way round. No effect in other builds.
 */
#include <stdint.h>
#include <urcu/urcu-qsbr.h>

#if defined(__SANITIZE_THREAD__)
#define QSBR_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define QSBR_TSAN 1
#endif
#endif

#ifdef QSBR_TSAN
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
#define tsan_acquire(addr) __tsan_acquire(addr)
#define tsan_release(addr) __tsan_release(addr)
#else
#define tsan_acquire(addr) ((void)(addr))
#define tsan_release(addr) ((void)(addr))
#endif

/* One address that stands for the grace periods of this process. */
#define QSBR_EDGE ((void *)(uintptr_t)&urcu_qsbr_flavor)

/* qsbr_register - the calling thread becomes a reader, online. */
static inline void qsbr_register(void)
{
	urcu_qsbr_register_thread();
	tsan_acquire(QSBR_EDGE);
}

/* qsbr_unregister - before the thread ends. */
static inline void qsbr_unregister(void)
{
	tsan_release(QSBR_EDGE);
	urcu_qsbr_unregister_thread();
}

/* qsbr_quiescent - the calling reader holds no reference from before. */
static inline void qsbr_quiescent(void)
{
	tsan_release(QSBR_EDGE);
	urcu_qsbr_quiescent_state();
	tsan_acquire(QSBR_EDGE);
}

/* qsbr_offline, qsbr_online - around a sleep: grace periods do not wait for the thread. */
static inline void qsbr_offline(void)
{
	tsan_release(QSBR_EDGE);
	urcu_qsbr_thread_offline();
}

static inline void qsbr_online(void)
{
	urcu_qsbr_thread_online();
	tsan_acquire(QSBR_EDGE);
}

/* qsbr_synchronize - one grace period. The caller is no reader, or offline. */
static inline void qsbr_synchronize(void)
{
	tsan_release(QSBR_EDGE);
	urcu_qsbr_synchronize_rcu();
	tsan_acquire(QSBR_EDGE);
}
