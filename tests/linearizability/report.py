# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""The figures of a run as people read them, and what a run must have met to count."""

# Counters of the servers, as kv-cli stats has them.
SERVED = ("rpc_repeats", "sessions_resumed", "sessions_fenced_silent", "sessions_fenced_stuck",
          "sessions_fenced_protocol", "queue_pairs_lost", "index_splits", "index_merges",
          "blocks_freed", "grace_periods", "deferred_refused", "snapshots")

FIGURES = (
    ("operations", "recorded"),
    ("checked.checked", "of them in the histories that were checked"),
    ("checked.open", "writes of unknown outcome: timed out, or their client was killed"),
    ("checked.unknown", "writes of unknown outcome: applied once before they returned, or never"),
    ("checked.keys", "keys, each with a history of its own"),
    ("checked.key_operations_max", "operations of one key, at most"),
    ("checked.key_in_flight_max", "operations on one key at a time, at most"),
    ("processes", "client processes"),
    ("sessions", "sessions that clients ended themselves"),
    ("lives", "servers, one after the other"),
    ("reads", "RDMA READs posted for gets"),
    ("hint_hits", "gets that ended with the record that a hint led to"),
    ("hint_stale", "hints that led to another record, or to none"),
    ("retries", "looks that had to be repeated"),
    ("asked", "gets that the server answered"),
    ("reconnects", "queue pairs made again"),
    ("server.rpc_repeats", "writes that came again, and got the reply of the first time"),
    ("server.sessions_fenced_silent", "sessions fenced: they announced nothing for a lease"),
    ("server.sessions_fenced_stuck", "sessions fenced: they held memory back"),
    ("server.queue_pairs_lost", "queue pairs that broke at the server"),
    ("server.index_splits", "segments that were split"),
    ("server.index_merges", "segments that were merged"),
    ("server.snapshots", "snapshots that were completed, and counted before the server died"),
    ("server.blocks_freed", "blocks that were freed, to be used again"),
    ("pressed", "times that the memory was filled"),
    ("refused", "writes of clients that found no memory"),
    ("checked.seconds", "seconds that the checker took"),
)

# What a run of half a minute on soft0 has met, or it was for nothing.
MUST = ("checked.open", "hint_hits", "hint_stale", "retries", "asked", "reconnects", "grown",
        "pressed", "server.rpc_repeats", "server.sessions_fenced_silent", "server.index_splits",
        "server.index_merges", "server.blocks_freed")
MUST_S = 30
# With a data directory: seconds for a life, and what happened to each of its servers.
LIFE_S = 3
MUST_GROUP = [path for path in MUST if path != "pressed"] + ["nemeses.kill_server",
                                                          "nemeses.switch_primary",
                                                          "nemeses.part", "nemeses.lose_etcd"]
MUST_GROUP_DURABLE = [*MUST_GROUP, "nemeses.kill_group", "server.snapshots"]
MUST_DURABLE = ("nemeses.kill_server", "nemeses.kill_recovery", "nemeses.end_server",
                "server.snapshots")


def figure(total, path):
    for name in path.split("."):
        total = total.get(name, 0)
    return total


def lacks(total, narrow):
    """What the run should have met and has not, as a sentence; None: it met all.

    @narrow: it was asked for a part of it.
    """
    if not total.get("operations"):
        return "no operation was recorded"
    if narrow or total["device"] != "soft0" or total["seconds"] < MUST_S:
        return None
    if total["group"]:
        must = MUST_GROUP_DURABLE if total["data_dir"] else MUST_GROUP
    else:
        must = MUST + MUST_DURABLE if total["data_dir"] else MUST
    missing = [path for path in must if not figure(total, path)]
    if total["data_dir"] and total["lives"] * LIFE_S < total["seconds"]:
        missing.append(f"a life in {LIFE_S} s")
    return f"the run has not met what it is for: {', '.join(missing)}" if missing else None


def table(total):
    lines = [f"{total['rounds']} rounds, {total['seconds']:.0f} s of work, on {total['device']}"]
    if total["device"] == "soft0":
        lines[0] += " (a software device; nothing here is a performance of RDMA)"
    for path, words in FIGURES:
        value = figure(total, path)
        text = f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"
        lines.append(f"{text:>14}  {words}")
    lines.append("What was done to them:")
    for name, count in sorted(total.get("nemeses", {}).items()):
        lines.append(f"{count:>14,}  {name.replace('_', ' ')}")
    lines.append(f"{figure(total, 'checked.illegal'):>14,}  keys whose history is not linearizable")
    return "\n".join(lines)
