/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#ifndef GRACEKV_H
#define GRACEKV_H
/*
 * GraceKV client library.
 *
 * A session is one process's connection to one kv-server. Handles are opened on it; each has a
 * queue pair of its own and is used by one thread at a time. Any number of threads use different
 * handles of one session at once; they share no lock on the data path.
 *
 * Reads are one-sided: a get READs the key's bucket and then its record out of the server's memory,
 * verifies what it read, and costs the server no CPU. Where a record is, the process remembers as a
 * hint: what it reads often takes one READ. Writes are requests that the server applies.
 *
 * What holds for every function, unless it says otherwise:
 * - It returns 0 (or a count), or a negative errno, whose words gkv_strerror() gives. A sentence
 *   says what failed, on what, why, and what to do next: a call on a handle leaves it for
 *   gkv_error(); a call without one writes it to @why, at most @cap bytes with the zero at its end,
 *   and "" where nothing failed. @why may be NULL where @cap is 0.
 * - A handle is used by one thread at a time, a session by any number. A NULL handle is -EINVAL.
 * - Keys are 1 to GKV_KEY_MAX bytes, values 0 to GKV_VALUE_MAX, of any kind. A value may be NULL
 *   where its length is 0. Lengths are bytes, times are milliseconds where a name ends in _ms.
 * - The library keeps no pointer that it was given after the call has returned, and owns nothing
 *   that it did not make. What it makes belongs to the caller, who closes it.
 * - Results are written where the call returns 0, and else left as they were, but for objects that
 *   were to be made, which are NULL then.
 * - A structure that the caller fills is zeroed first, or set by gkv_options_init(): its reserved
 *   fields must be 0, or the call returns -EINVAL. Structures keep their sizes.
 * - Reads and writes are linearizable: a call that begins after another has returned, in whatever
 *   thread or process, sees what that did. A write that failed with -ETIMEDOUT or -EREMOTEIO may
 *   have been applied, or may be later, but never twice.
 *
 * The library never exits. It starts one thread for each session that has had a handle, its
 * housekeeper (see there), unless the options say otherwise, and one that the software device
 * needs; and for a while one that connects again for operations in flight, and one that looks up
 * the server's name. All have all signals blocked. After fork() a child must not use the parent's
 * sessions: calls return -EPERM there.
 *
 * A call on a handle ends within its session's timeout_ms, connecting again included. What the
 * operating system takes to make a queue pair or to register memory may come on top: milliseconds,
 * as a rule. A look-up of the server's name takes as long as the machine's resolver does
 * (resolv.conf(5): timeout, attempts; many seconds where no name server answers), so another thread
 * of the library makes it, and no call waits for it longer than its time. It is made for
 * gkv_session_open(), and the addresses are kept; and again for a call that connects again after an
 * attempt with the known ones has failed, once in 10 s at most: that one waits for half a second,
 * and goes on with those. An address in digits as the server's name is never looked up.
 *
 * Errors that any call on a handle may return:
 *   -EINVAL       an argument is outside its documented range, or a handle is NULL
 *   -EBUSY        another thread is in a call on this handle, and gkv_error() is about that one.
 *                 It is found with GKV_CHECK_THREADS; without, during a gkv_visit and after the
 *                 handle's first gkv_submit(), gkv_fd() or gkv_arm()
 *   -EDEADLK      the call was made from the handle's own gkv_visit
 *   -ETIMEDOUT    no answer within the session's timeout_ms, reconnecting included; a write may
 *                 have been applied, or may be later
 *   -ECONNREFUSED, -EHOSTUNREACH, -ECONNRESET  the server cannot be reached any more, or none
 *                 of its group is primary
 *   -EPROTO       what answers does not behave like a kv-server, or a place of the server's memory
 *                 could not be read
 *   -EREMOTEIO    writes only: outcome unknown. The connection was lost while the request was on
 *                 its way, and the server met again has no memory of it. It was applied once, or
 *                 never.
 *   -ENOMEM       the server's store is full or found no room in time, or this process has no
 *                 memory
 *   -ENOSPC       writes only: the server's disk is full, and nothing was changed
 *   -EROFS        writes only: fewer servers of the group have every write than it wants (kv-server
 *                 --group-min), and nothing was changed
 *   -EPERM        the session belongs to the parent of this process
 *   -ENODEV       the session's RDMA device has failed, and could not be opened again in the time
 *                 of the call, which may also end with what the opening said; a later call tries
 *                 again
 *
 * Expiry. A record with a time to live is gone, for everyone, from its expiry on by the server's
 * clock. A client goes by an estimate of that clock, taken from replies and from the root page that
 * its housekeeper READs: where that says that the time has come, or does not know, the server is
 * asked, which deletes the record before it says that there is none. So no record is missed before
 * its time, and one may be returned for GKV_EXPIRY_LATE_MS longer by a client whose clock runs as
 * fast as the server's to one part in a thousand.
 *
 * A time to live counts from when the server took the request, in whole ms rounded up: it is up to
 * 1 ms longer, and never shorter. So the holder of a lock may count from before the call.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GKV_API __attribute__((visibility("default")))

/* Of this header, to be compared in #if: 0x000100 is 0.1.0. gkv_version() tells the library's. */
#define GKV_VERSION_MAJOR  0
#define GKV_VERSION_MINOR  1
#define GKV_VERSION_PATCH  0
#define GKV_VERSION_NUMBER (GKV_VERSION_MAJOR << 16 | GKV_VERSION_MINOR << 8 | GKV_VERSION_PATCH)

#define GKV_KEY_MAX   1024u /* bytes; keys are 1 to GKV_KEY_MAX long */
#define GKV_VALUE_MAX (16u << 20) /* bytes; values are 0 to GKV_VALUE_MAX long */

#define GKV_TTL_MAX   3162240000000ull /* ms, more than a hundred years */
#define GKV_DEPTH_MAX 4096u /* operations in flight on one handle */

#define GKV_EXPIRY_LATE_MS 150u

struct gkv_session;
struct gkv; /* a handle */
struct gkv_memory; /* registered memory of the application's */
struct gkv_cursor; /* a scan under way */

/*
 * The housekeeper. Memory that a one-sided read may still look at is not used again by the server,
 * on the word of each session: over a queue pair of its own the housekeeper READs the server's
 * epoch, and WRITEs how far the session has got, every 1 to 8 milliseconds while handles are at
 * work, four times within the server's lease (1 s by default) when they are idle. A get pays no
 * message for it. A session that stays silent for a lease (its process was stopped, nobody calls
 * gkv_tick()) is ended by the server, so that its memory is free again; the next call on a handle
 * connects again by itself, and takes longer for it.
 */
#define GKV_HOUSEKEEPER_THREAD 0u /* a thread of the library's, from the first gkv_open() on */
#define GKV_HOUSEKEEPER_TICK   1u /* no thread: the application calls gkv_tick() */

/* How queue pairs are connected. */
#define GKV_CONNECT_TCP 0u /* addresses are exchanged over TCP */
#define GKV_CONNECT_CM	1u /* by the RDMA CM, where the server serves it: real devices only */

/*
 * gkv_trace - told of each step of connecting, and of connecting again: for logs, and to find out
 * why a connection does not come about (kv-cli doctor HOST prints it).
 * @step: static, the same pointer for a step's beginning and end; in this order:
 *	resolve  the server's name          tcp     a TCP connection
 *	device   device and port, and why   welcome HELLO sent, WELCOME got
 *	gid      where packets come from    qp      a queue pair, in INIT
 *	offer    what we offer for it       answer  what the server offers
 *	settle   MTU and READ depth         rtr     ready to receive
 *	rts      ready to send              live    both sides are
 *	root     the root page is read, one-sided
 * by the RDMA CM without gid, and with two steps for those from offer to rts:
 *	route    which device leads there   cm      request and answer, the queue pair is raised
 * and at any time:
 *	again    a connection was lost, and why: what is missing is done again
 * @words: NULL: the step begins. Otherwise it has gone well, with what came of it; valid during
 *	the call. A step that fails has no end: the call that connects returns, or "again" follows.
 * Runs in the thread that connects, under the session's lock, one call at a time, and never on
 * the way of a get or put on a live connection. It must not call this library and should not
 * take long: the time counts for the call's timeout_ms.
 */
typedef void (*gkv_trace)(void *arg, const char *step, const char *words);

/* flags of a session */
#define GKV_CHECK_THREADS 1u /* find two threads in one handle at once: an atomic swap per call */
#define GKV_SERVERS_GIVEN 2u /* go to those of options.server alone, not to others of their group */

/*
 * Options of a session. gkv_options_init() sets the defaults; set what differs after it. Strings
 * are copied by the call that takes them.
 */
struct gkv_options {
	/* "HOST:PORT"; NULL: $GRACEKV_SERVER, else 127.0.0.1:7471. Those of a group with commas
	 * between them, at most 8: calls go to the one that is primary, and follow it. Any of them
	 * tells of the others. */
	const char *server;
	/* RDMA device; NULL: $GRACEKV_DEVICE, else "auto"; by the CM: the one on the route */
	const char *device;
	const char *name; /* shown in the server's log and statistics; NULL: the program's */
	gkv_trace trace; /* told of each step of connecting; NULL: nobody */
	void *trace_arg; /* handed to it as it is */
	/* Memory for hints, shared by all handles of the session; 0: none; default 64 MiB, which
	 * holds up to 4 million. */
	uint64_t hint_bytes;
	unsigned timeout_ms; /* of one call, reconnecting included; 1 to a day; default 5000 */
	unsigned lifeline_ms; /* a dead server shows within this time; 1 to a day; default 2000 */
	unsigned ib_port; /* 0: chosen as "auto" chooses a device */
	/* 0 to 255; -1: chosen, with its reason in gkv_session_describe(); by the CM: -1 only */
	int gid_index;
	unsigned mtu; /* bytes, 0: the port's */
	unsigned ack_timeout; /* transport: 4.096 us * 2^n; 1 to 31; default 14 */
	unsigned retry_cnt; /* transport; 0 to 7; default 7 */
	unsigned rnr_retry; /* transport; 0 to 7; default 6 */
	unsigned connect; /* GKV_CONNECT_...; default $GRACEKV_CONNECT (tcp or cm), else TCP */
	unsigned housekeeper; /* GKV_HOUSEKEEPER_...; default: a thread */
	unsigned flags; /* see above, or 0; default 0, or with $GRACEKV_CHECK_THREADS=1 that */
	/* What packets carry; the server has its own. By the CM: its choice, where it is 0. */
	unsigned pkey_index; /* of the port's P_Key table; default 0; by the CM: 0 only */
	unsigned service_level; /* 0 to 15; on Ethernet the priority, 0 to 7; default 0 */
	unsigned traffic_class; /* 0 to 255; on RoCE v2 four times the DSCP; default 0 */
	unsigned reserved[6]; /* 0 */
};

/* gkv_options_init - the defaults into @options; NULL is fine. Any thread. */
GKV_API void gkv_options_init(struct gkv_options *options);

/*
 * gkv_session_open - connect: one attempt, which takes at most timeout_ms, and at most 5 s where
 * that is longer, besides looking up the server's name (see above). It does not wait for a server
 * that is not there yet: call it again after a pause. Where several servers of a group are given it
 * goes on for timeout_ms, until one of them is primary.
 * @options: NULL for all defaults.
 * @out: receives the session; on failure NULL.
 * Any thread. Returns 0, or
 *	-EINVAL, -ERANGE  an option is out of its range, or contradicts another
 *	-ENODEV, -ENETDOWN, -ERANGE  there is no such device, port or GID, or it is not active
 *	-ECONNREFUSED, -EHOSTUNREACH, -ECONNRESET, -ETIMEDOUT  no server can be reached there
 *	-EPROTO           what answers does not behave like a kv-server
 *	-EPROTONOSUPPORT  versions or layouts of client and server differ
 *	-EUSERS           the server has no room for another session
 *	-EOPNOTSUPP       the server, or the device, has no RDMA CM
 *	-ENOMEM, -EMFILE, -ENFILE  this process lacks memory, locked memory or files
 * and what else the operating system says.
 */
GKV_API int gkv_session_open(const struct gkv_options *options, struct gkv_session **out, char *why,
			     size_t cap);

/*
 * gkv_session_close - after the last handle of it was closed, and with no call on it under way.
 * NULL is fine.
 */
GKV_API void gkv_session_close(struct gkv_session *session);

/*
 * gkv_session_describe - device, port, GID and why; the server: as of the last connection. Any
 * thread. The string is the session's, valid until that closes, and never NULL.
 */
GKV_API const char *gkv_session_describe(const struct gkv_session *session);

/* flags of a handle */
#define GKV_NO_HINTS 1u /* each get goes by the index, in two READs, and remembers nothing */

/* Options of a handle. Zeroed: the defaults. */
struct gkv_handle_options {
	unsigned depth; /* operations in flight by gkv_submit(); 1 to GKV_DEPTH_MAX; 0: 64 */
	unsigned flags; /* GKV_NO_HINTS, or 0 */
	uint64_t reserved[3]; /* 0 */
};

/*
 * gkv_open - a handle on the session; like a call on a handle it connects again where the
 * connection was lost, until timeout_ms are over. Any thread.
 * @options: NULL for all defaults.
 * @out: receives the handle; on failure NULL.
 * Returns 0; -EUSERS: the session has 64 already, or the server has no room; -EINVAL: @session or
 * @out is NULL, or an option is out of its range; -ENOMEM, also where the limit of locked memory is
 * too small (ulimit -l); -EMFILE, -ENFILE; and what any call on a handle may return.
 */
GKV_API int gkv_open(struct gkv_session *session, const struct gkv_handle_options *options,
		     struct gkv **out, char *why, size_t cap);

/*
 * gkv_close - the handle's thread, outside of its calls; NULL is fine. The queue pair is destroyed:
 * a request whose call timed out gets no reply any more, and operations in flight end without a
 * completion: writes among them were applied once, or never. Where another queue pair is being made
 * for such a handle, it waits for that: timeout_ms at most.
 */
GKV_API void gkv_close(struct gkv *handle);

/*
 * gkv_connect - for a program of one thread: gkv_session_open() and gkv_open() in one call.
 * @server: as that of the options; NULL: as @options say, whose own server it goes before.
 * @options: NULL for all defaults.
 * @out: receives the handle; on failure NULL. gkv_disconnect() closes it.
 * Any thread. Returns what these return.
 */
GKV_API int gkv_connect(const char *server, const struct gkv_options *options, struct gkv **out,
			char *why, size_t cap);

/* gkv_disconnect - close the handle and then its session, of which it is the last; NULL is fine. */
GKV_API void gkv_disconnect(struct gkv *handle);

/* gkv_session_of - the session of a handle: for gkv_tick(), for more handles. NULL of NULL. */
GKV_API struct gkv_session *gkv_session_of(const struct gkv *handle);

/*
 * gkv_tick - what the session's housekeeper has to do now: at most one READ and one WRITE, or a
 * queue pair where the connection is another one. For sessions with GKV_HOUSEKEEPER_TICK; harmless
 * otherwise. Any thread, at any time, also inside of no call at all and while other threads use
 * handles; two threads take turns. Ends within the session's timeout_ms, as a rule within
 * microseconds. Without an open handle, and where the connection is lost, there is nothing to do.
 * Returns ms until it should be called again at the latest, at least 1: calls may come earlier.
 * The server ends a session that is late by more than a lease (see above).
 * -ETIMEDOUT: another thread was in it for all the time, or the server did not answer; -EPERM;
 * -EINVAL: @session is NULL; -EUSERS and others: the server has no room for the housekeeper; call
 * it again later.
 */
GKV_API int gkv_tick(struct gkv_session *session, char *why, size_t cap);

/* What a session's housekeeper did. */
struct gkv_session_stats {
	uint64_t rounds;
	uint64_t messages; /* that it sent: READs and WRITEs */
	uint64_t epoch; /* the newest of the server's that is known */
	uint64_t announced; /* no open section looks further back; at most epoch */
	uint64_t reconnects; /* connections that replaced a lost one */
	uint64_t hint_bytes; /* memory for hints */
	uint64_t hints; /* about how many it holds, told from a part of them */
	uint64_t hints_dropped; /* times that all went: the server asked for it, or was another */
	uint64_t polled; /* times that READs of a handle were ended for it */
	uint64_t reserved[7]; /* 0 */
};

/*
 * gkv_session_stats_get - into @out, which may be NULL; zeros of a NULL session. Any thread; the
 * figures of one moment need not fit each other.
 */
GKV_API void gkv_session_stats_get(const struct gkv_session *session,
				   struct gkv_session_stats *out);

/* What is known of a record besides its bytes. */
struct gkv_meta {
	uint64_t version; /* grows with every write of the server; never repeats for a key */
	uint64_t expiry_ms; /* ms since 1970 by the server's clock; 0: never */
	uint32_t value_len;
	uint32_t reserved; /* 0 */
};

/*
 * gkv_get - read a record into the caller's memory.
 * @value, @cap: the place for the value, and its room.
 * @len: receives the value's length, also with -EMSGSIZE; may be NULL.
 * Returns 0; -ENOENT: no such key; -EMSGSIZE: the value is longer than @cap, its first @cap bytes
 * were copied.
 */
GKV_API int gkv_get(struct gkv *handle, const void *key, size_t key_len, void *value, size_t cap,
		    size_t *len);

/*
 * gkv_get_view - the same without a copy. @value: receives a pointer into memory of the handle,
 * valid until the next call on the handle. @meta: may be NULL. Returns 0, or -ENOENT.
 */
GKV_API int gkv_get_view(struct gkv *handle, const void *key, size_t key_len, const void **value,
			 struct gkv_meta *meta);

/* gkv_exists - whether the key is there: 0, or -ENOENT. @meta: may be NULL. */
GKV_API int gkv_exists(struct gkv *handle, const void *key, size_t key_len, struct gkv_meta *meta);

/*
 * Registered memory. A get into it brings the value by the READ itself, without a copy, where the
 * device can scatter a READ to three places; all but a few can.
 *
 * gkv_memory_register - @bytes at @addr, which stay mapped until gkv_memory_release(). For all
 * handles of the session, over all its connections; after its device has failed, and was opened
 * again, values are copied to it. Any thread. The call registers with the device: milliseconds for
 * large memory. Private memory of a process that forks: see ibv_fork_init(3).
 * Returns 0; -EINVAL, also where it is not mapped, or may not be written; -ENOMEM, also where the
 * limit of locked memory is too small (ulimit -l); -EPERM; -ENODEV: the session's device has
 * failed, and is not open again yet. @out: on failure NULL.
 */
GKV_API int gkv_memory_register(struct gkv_session *session, void *addr, size_t bytes,
				struct gkv_memory **out, char *why, size_t cap);

/*
 * gkv_memory_release - no operation that names it is in flight, or -EBUSY; none begins during the
 * call. NULL is fine. One whose deadline came before its READ has ended is over only when its queue
 * pair is destroyed, which the library does before it gives its completion: its memory is the
 * application's then. Any thread; before gkv_session_close(), or after it: what the session has
 * of the device is given back with the last of its memory. -EPERM; -EIO: the device did not let go
 * of it: it stays registered and must stay mapped, and the call may be repeated.
 */
GKV_API int gkv_memory_release(struct gkv_memory *memory);

/*
 * gkv_get_into - read a record into registered memory: @cap bytes at @value, which lie within
 * @memory; where @cap is 0 @value is not looked at. @key must not lie in them. While the call runs
 * anything may stand there, and after a failure too; after a get, after the value too. Where the
 * record can not be read one-sided its value is copied there. Nothing is written there once the
 * call has returned. @meta: also with -EMSGSIZE: value_len is the value's length; may be NULL.
 * Returns as gkv_get(); -EINVAL also where @value is not within @memory, or that was registered
 * with another session.
 */
GKV_API int gkv_get_into(struct gkv *handle, const void *key, size_t key_len,
			 struct gkv_memory *memory, void *value, size_t cap, struct gkv_meta *meta);

/* On what condition a write is applied. */
#define GKV_ALWAYS     0u
#define GKV_IF_ABSENT  1u /* -EEXIST where the key is there */
#define GKV_IF_PRESENT 2u /* -ENOENT where it is not */
#define GKV_IF_VERSION 3u /* -ENOENT where it is not, -EEXIST where it has another version */

/* flags of a put */
#define GKV_KEEP_EXPIRY 1u /* a record that is replaced expires as before */

/*
 * Options of a write. Zeroed: it is always applied, and the record never expires. -EINVAL: the
 * condition or a flag is unknown, or @reserved is not 0.
 */
struct gkv_write_options {
	unsigned condition; /* GKV_ALWAYS, ... */
	unsigned flags; /* GKV_KEEP_EXPIRY, or 0 */
	uint64_t version; /* of GKV_IF_VERSION, as a get or a write told it; else 0 */
	/* The record expires this long after it was written; 0: never. Where a record that is there
	 * expires as before: this is about one that is created. */
	uint64_t ttl_ms;
	uint64_t reserved; /* 0 */
};

/*
 * gkv_put - write a record; when it returns 0, every later get by anyone finds this value or a
 * newer one. An expiry of the record that is replaced is forgotten.
 * @version: receives the new record's; may be NULL.
 */
GKV_API int gkv_put(struct gkv *handle, const void *key, size_t key_len, const void *value,
		    size_t value_len, uint64_t *version);

/*
 * gkv_put_with - the same with options; NULL: the defaults.
 * @meta: of the record written; with -EEXIST the version of the one that is there; may be NULL.
 * Returns 0; -EEXIST, -ENOENT: the condition does not hold.
 */
GKV_API int gkv_put_with(struct gkv *handle, const void *key, size_t key_len, const void *value,
			 size_t value_len, const struct gkv_write_options *options,
			 struct gkv_meta *meta);

/*
 * gkv_cas - compare and swap: gkv_put_with() GKV_IF_VERSION. @version: the one that must be there;
 * receives the new one, or with -EEXIST the one that is there. The new record never expires.
 * Returns 0; -EEXIST: it has another version; -ENOENT: there is none.
 */
GKV_API int gkv_cas(struct gkv *handle, const void *key, size_t key_len, uint64_t *version,
		    const void *value, size_t value_len);

/*
 * gkv_append - add to the end of a value; where the key is not there the record is created. A
 * record that is there expires as before. The server writes the whole value again, so an append
 * takes as long as a put of it. @options: NULL: the defaults.
 * @meta: as gkv_put_with(); value_len is the length of the whole; may be NULL.
 * Returns 0; -EEXIST, -ENOENT: the condition does not hold; -EFBIG: the value would be longer than
 * GKV_VALUE_MAX. Nothing was changed then.
 */
GKV_API int gkv_append(struct gkv *handle, const void *key, size_t key_len, const void *value,
		       size_t value_len, const struct gkv_write_options *options,
		       struct gkv_meta *meta);

/* gkv_del - delete a record. -ENOENT: there was none. */
GKV_API int gkv_del(struct gkv *handle, const void *key, size_t key_len);

/*
 * gkv_del_if - delete a record only in this version. -ENOENT: there is none; -EEXIST: it has
 * another one.
 */
GKV_API int gkv_del_if(struct gkv *handle, const void *key, size_t key_len, uint64_t version);

/*
 * gkv_getdel - get a record and delete it: what it returns is what it deleted. It is a one-sided
 * get and gkv_del_if() of the version that was read, over again while others write the key.
 * @meta: of that record, also with -EMSGSIZE; may be NULL.
 * Returns 0; -ENOENT: there is none; -EMSGSIZE: the value is longer than @cap, and nothing was
 * deleted.
 */
GKV_API int gkv_getdel(struct gkv *handle, const void *key, size_t key_len, void *value, size_t cap,
		       struct gkv_meta *meta);

/*
 * gkv_incr - add @delta to a number. The value is decimal text of 64 bits with a sign, as printf's
 * %lld writes it; a key that is not there counts as 0, and is created, never to expire. A record
 * that is there expires as before.
 * @sum: receives what it is then; may be NULL. Returns 0; -EDOM: the value is not a number;
 * -ERANGE: the sum has more than 64 bits. Nothing was changed then.
 */
GKV_API int gkv_incr(struct gkv *handle, const void *key, size_t key_len, int64_t delta,
		     int64_t *sum);

/*
 * gkv_incr_with - the same with options; NULL: the defaults. Their condition may be GKV_IF_ABSENT
 * or GKV_IF_PRESENT; for a version there is gkv_cas(). @meta: as gkv_put_with().
 * Returns as gkv_incr(); -EEXIST, -ENOENT: the condition does not hold.
 */
GKV_API int gkv_incr_with(struct gkv *handle, const void *key, size_t key_len, int64_t delta,
			  const struct gkv_write_options *options, int64_t *sum,
			  struct gkv_meta *meta);

/*
 * gkv_touch - the record expires @ttl_ms from now, at most GKV_TTL_MAX; 0: never. It is rewritten,
 * with another version. @meta: of the record then; may be NULL. -ENOENT: there is none.
 */
GKV_API int gkv_touch(struct gkv *handle, const void *key, size_t key_len, uint64_t ttl_ms,
		      struct gkv_meta *meta);

/*
 * One key of a batch. A field that a call does not name is not looked at.
 * gkv_mget	key, key_len, value (where it goes), cap	-> status, len, meta
 * gkv_mput	key, key_len, value (what is written), len, options	-> status, meta
 * gkv_mdel	key, key_len, options (condition, version)	-> status; meta is zeroed
 */
struct gkv_item {
	const void *key;
	size_t key_len;
	void *value;
	size_t cap;
	size_t len; /* of the value, also with -EMSGSIZE */
	struct gkv_write_options options;
	struct gkv_meta meta;
	int status;
	unsigned reserved[7]; /* 0 */
};

/*
 * gkv_mget - read many records; their READs travel together: two round trips for up to 64 records
 * that take 256 KiB together in the server's memory, two more for each further part; one where
 * hints lead to all of them.
 * gkv_mput, gkv_mdel - write many, several requests in flight; in no order: of two items with one
 * key either may be the later.
 * Return 0 when every item has a status (as the call for one key returns), else why the call ended
 * early: items that were not come to have -ECANCELED, and those on their way what is known of them,
 * -EREMOTEIO or -ETIMEDOUT. -ETIMEDOUT also where it is too much for timeout_ms.
 */
GKV_API int gkv_mget(struct gkv *handle, struct gkv_item *items, size_t count);
GKV_API int gkv_mput(struct gkv *handle, struct gkv_item *items, size_t count);
GKV_API int gkv_mdel(struct gkv *handle, struct gkv_item *items, size_t count);

/*
 * Operations in flight. gkv_submit() hands them over, gkv_poll() brings their completions, in any
 * order: of two with one key either may be the first. Nothing goes on between calls but what the
 * device does (and the housekeeper, which ends the READs of a handle that nobody polls, see there):
 * an application polls, or sleeps on gkv_fd(). Other calls on the handle may come in between.
 */
#define GKV_OP_GET    1u /* value, len: where it goes, and its room; memory: where registered */
#define GKV_OP_EXISTS 2u
#define GKV_OP_PUT    3u /* value, len: what is written; options */
#define GKV_OP_DEL    4u /* options: condition, version, flags */
#define GKV_OP_INCR   5u /* delta; options */
#define GKV_OP_TOUCH  6u /* options: ttl_ms, flags */
#define GKV_OP_APPEND 7u /* value, len: what is added at the end; options */

struct gkv_request {
	unsigned op; /* GKV_OP_... */
	unsigned timeout_ms; /* from now; 0: the session's */
	void *user; /* the application's: comes back with the completion */
	/* What key and value point to is the library's until the completion. */
	const void *key;
	size_t key_len;
	void *value;
	size_t len;
	struct gkv_memory *memory; /* NULL, or what value lies in: a get without a copy */
	struct gkv_write_options options;
	int64_t delta;
	uint64_t reserved[4]; /* 0 */
};

struct gkv_completion {
	void *user; /* of the request */
	unsigned op;
	int status; /* as the synchronous call returns; -ECANCELED: gkv_cancel() */
	size_t len; /* of a get's value, also with -EMSGSIZE */
	struct gkv_meta meta;
	int64_t sum; /* of GKV_OP_INCR */
	uint64_t reserved; /* 0 */
};

/*
 * gkv_request_init - zero a request, and set what every operation has. The functions below do so
 * and add what their operation takes; timeout_ms, memory and options can be set after that.
 * @user: comes back with the completion; what gkv_cancel() knows it by; may be NULL.
 */
static inline void gkv_request_init(struct gkv_request *request, unsigned op, const void *key,
				    size_t key_len, void *user)
{
	memset(request, 0, sizeof(*request));
	request->op = op;
	request->user = user;
	request->key = key;
	request->key_len = key_len;
}

/* gkv_request_get - as gkv_get() takes them. */
static inline void gkv_request_get(struct gkv_request *request, const void *key, size_t key_len,
				   void *value, size_t cap, void *user)
{
	gkv_request_init(request, GKV_OP_GET, key, key_len, user);
	request->value = value;
	request->len = cap;
}

/* gkv_request_exists - as gkv_exists() takes them. */
static inline void gkv_request_exists(struct gkv_request *request, const void *key, size_t key_len,
				      void *user)
{
	gkv_request_init(request, GKV_OP_EXISTS, key, key_len, user);
}

/* gkv_request_put - as gkv_put() takes them; @value is only read. */
static inline void gkv_request_put(struct gkv_request *request, const void *key, size_t key_len,
				   const void *value, size_t value_len, void *user)
{
	gkv_request_init(request, GKV_OP_PUT, key, key_len, user);
	request->value = (void *)(uintptr_t)value;
	request->len = value_len;
}

/* gkv_request_del - as gkv_del() takes them. */
static inline void gkv_request_del(struct gkv_request *request, const void *key, size_t key_len,
				   void *user)
{
	gkv_request_init(request, GKV_OP_DEL, key, key_len, user);
}

/* gkv_request_incr - as gkv_incr() takes them. */
static inline void gkv_request_incr(struct gkv_request *request, const void *key, size_t key_len,
				    int64_t delta, void *user)
{
	gkv_request_init(request, GKV_OP_INCR, key, key_len, user);
	request->delta = delta;
}

/* gkv_request_append - as gkv_append() takes them; @value is only read. */
static inline void gkv_request_append(struct gkv_request *request, const void *key, size_t key_len,
				      const void *value, size_t value_len, void *user)
{
	gkv_request_put(request, key, key_len, value, value_len, user);
	request->op = GKV_OP_APPEND;
}

/* gkv_request_touch - as gkv_touch() takes them. */
static inline void gkv_request_touch(struct gkv_request *request, const void *key, size_t key_len,
				     uint64_t ttl_ms, void *user)
{
	gkv_request_init(request, GKV_OP_TOUCH, key, key_len, user);
	request->options.ttl_ms = ttl_ms;
}

/*
 * gkv_submit - @count requests; the array is free again on return. What is wrong with one request
 * is told by its completion.
 * Returns how many were taken, the first ones: fewer than @count where as many are in flight as the
 * handle's depth, and -EAGAIN where none was. Never waits.
 */
GKV_API int gkv_submit(struct gkv *handle, const struct gkv_request *requests, size_t count);

/*
 * gkv_poll - what has completed, at most @max; goes on with all that is in flight. Never waits,
 * but for a queue pair where a lost connection is made again and there is no thread for it
 * (GKV_HOUSEKEEPER_TICK). Returns how many, 0 or more.
 */
GKV_API int gkv_poll(struct gkv *handle, struct gkv_completion *out, size_t max);

/*
 * gkv_wait - the same, and where nothing has, waits for one; @timeout_ms: 0 to a day. With nothing
 * in flight, or @max 0, it does not wait.
 */
GKV_API int gkv_wait(struct gkv *handle, struct gkv_completion *out, size_t max,
		     unsigned timeout_ms);

/* gkv_pending - how many operations were submitted whose completions were not polled; 0 of NULL. */
GKV_API size_t gkv_pending(const struct gkv *handle);

/*
 * gkv_cancel - all operations in flight with @user. Returns how many will complete with
 * -ECANCELED, -ENOENT: none is in flight. A write that was sent is not taken back: it completes as
 * ever, and does not count. Memory of a cancelled one is the application's when its completion was
 * polled, not before.
 */
GKV_API int gkv_cancel(struct gkv *handle, const void *user);

/*
 * gkv_fd - a file descriptor that becomes readable when gkv_poll() has something to do, once it was
 * armed; for poll(2), epoll(7) and event loops. The same for the handle's life, closed with it; not
 * to be read. Returns it, or a negative errno.
 * gkv_arm - before each sleep: 0: sleep; -EAGAIN: something has come, poll again first.
 */
GKV_API int gkv_fd(struct gkv *handle);
GKV_API int gkv_arm(struct gkv *handle);

/* What a scan visits, and what it reads. NULL or zeroed: all records, with their values. */
#define GKV_SCAN_KEYS 1u /* no values: those pointers are NULL; the metadata is there as ever */

struct gkv_scan_options {
	const void *prefix; /* only keys that begin with these bytes */
	size_t prefix_len; /* 0 to GKV_KEY_MAX; 0: all keys */
	unsigned flags; /* GKV_SCAN_..., or 0 */
	unsigned reserved[5]; /* 0 */
};

/*
 * gkv_scan - visit every record, in no order, by one-sided reads. A record that lives throughout
 * the scan is visited exactly once; one written meanwhile may be, in its old or new version.
 * @options: NULL for all records. Every record's key is read, whatever the prefix is: the index has
 *	no order. Of a large record whose value is not wanted no more is read than header and key.
 * @visit: returns 0 to go on, anything else ends the scan with that value. Its pointers are valid
 *	during the call; it must not use the same handle (calls return -EDEADLK), nor close it.
 * timeout_ms is the limit of each step, not of the scan. -ESTALE: the server restarted; what
 * it has now has to be scanned from the beginning. -EPROTO: a place of the index could not be read.
 * -EINVAL: @visit is NULL, or @options are none.
 */
typedef int (*gkv_visit)(void *arg, const void *key, size_t key_len, const void *value,
			 const struct gkv_meta *meta);
GKV_API int gkv_scan(struct gkv *handle, const struct gkv_scan_options *options, gkv_visit visit,
		     void *arg);

/*
 * The same in chunks, for programs that would rather call than be called. Other calls on the handle
 * may come in between, of its thread; so may other scans. It takes 0.4 MiB of memory as a rule,
 * and at most 5 MiB and the length of its largest record.
 * gkv_scan_open - cheap: the scan begins, on the server that there is then, with its first records.
 * @options: as for gkv_scan(); copied. -EINVAL: @out is NULL, or @options are none; -ENOMEM.
 * gkv_scan_next - the next records, at most @max, 1 or more; they lie in the scan's memory until
 * the next call with it. Returns how many, which may be fewer than @max at any time; 0: there are
 * no more. After an error the scan goes on where it was, or is closed: -ETIMEDOUT (also: nothing
 * was found in that time), -ECONNRESET and the like, as any call; -EPROTO, as gkv_scan(); -ESTALE,
 * from then on: the server restarted, what it has now has to be scanned from the beginning.
 * -EINVAL: @cursor or @out is NULL, or @max 0.
 * gkv_scan_close - before its handle is closed: a scan is of no use after that, and must not be
 * handed to gkv_scan_next() any more, only closed. NULL is fine.
 */
struct gkv_record {
	const void *key;
	size_t key_len;
	const void *value;
	struct gkv_meta meta;
	uint64_t reserved[2]; /* 0 */
};

GKV_API int gkv_scan_open(struct gkv *handle, const struct gkv_scan_options *options,
			  struct gkv_cursor **out);
GKV_API int gkv_scan_next(struct gkv_cursor *cursor, struct gkv_record *out, size_t max);
GKV_API void gkv_scan_close(struct gkv_cursor *cursor);

/* gkv_ping - one request and reply. @ns: receives the round trip's nanoseconds; may be NULL. */
GKV_API int gkv_ping(struct gkv *handle, uint64_t *ns);

/*
 * gkv_clock - the server's wall clock, by which records expire, as this client estimates it.
 * @ms: receives ms since 1970, at most GKV_EXPIRY_LATE_MS behind that clock, and ahead of it by no
 *	more than the READ or the request took that told it.
 * Mostly no message: it is known for some seconds from replies and from what the housekeeper READs;
 * then the root page is READ, one-sided, or the server is asked. Where the server's clock is set
 * the estimate follows when it is told next; back by GKV_EXPIRY_LATE_MS or less, it stands still
 * until that clock has caught up. -EINVAL: @ms is NULL.
 */
GKV_API int gkv_clock(struct gkv *handle, uint64_t *ms);

/*
 * gkv_server_stats - the server's counters: lines "name value", values are decimal numbers.
 * @text: receives a string, the caller's, to be freed with free(). -EINVAL: @text is NULL; -ENOMEM.
 */
GKV_API int gkv_server_stats(struct gkv *handle, char **text);

/*
 * gkv_save - ask the server for a snapshot of its store. Returns at once: the snapshot is written
 * while the server goes on.
 * @number: receives its number, from 1, since the server's start; may be NULL. It is complete where
 *	the counter "snapshots" (gkv_server_stats()) has reached that, and has every write that was
 *	answered before this call. Calls that come before a snapshot has begun share one.
 * -EOPNOTSUPP: the server keeps nothing on disk: it was started without --data-dir.
 */
GKV_API int gkv_save(struct gkv *handle, uint64_t *number);

/* What this handle did. */
struct gkv_stats {
	uint64_t gets; /* keys looked up, with arguments that are right; mget and exists included */
	uint64_t hits; /* keys that were there, also where the room was too small */
	uint64_t reads; /* RDMA READs posted for them */
	uint64_t puts; /* records that were to be written, by put, cas or mput, well or not */
	uint64_t dels; /* that were to be deleted, likewise */
	uint64_t retry_obsolete; /* a block was replaced while it was read */
	uint64_t retry_checksum; /* a block was torn or not what the slot promised */
	uint64_t retry_directory; /* the cached directory was stale */
	uint64_t rpc_fallbacks; /* gets that ended by asking the server */
	uint64_t reconnects; /* queue pairs made again, where one was lost */
	uint64_t hint_hits; /* gets that ended with the record that a hint led to */
	uint64_t hint_stale; /* hints that led to another record, or to none */
	uint64_t writes; /* of any kind, puts and dels included */
	uint64_t submitted; /* by gkv_submit() */
	uint64_t cancelled; /* of those, completed with -ECANCELED */
	uint64_t reserved[9]; /* 0 */
};

/* gkv_stats_get - into @out, which may be NULL; zeros of a NULL handle. The handle's thread. */
GKV_API void gkv_stats_get(const struct gkv *handle, struct gkv_stats *out);

/* gkv_strerror - words for a return value, of any number; static, never NULL. Any thread. */
GKV_API const char *gkv_strerror(int code);

/*
 * gkv_error - the sentence of the last failure on this handle; "" where there was none, or of NULL.
 * Answers such as -ENOENT leave none. The string is the handle's, valid until the next call on it.
 */
GKV_API const char *gkv_error(const struct gkv *handle);

/*
 * gkv_version - of the library that runs, "0.1.0"; static. The version of the header that a program
 * was compiled with is GKV_VERSION_NUMBER.
 */
GKV_API const char *gkv_version(void);

#ifdef __cplusplus
}
#endif
#endif
