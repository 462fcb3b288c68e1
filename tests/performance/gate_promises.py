# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Every ratio that was promised, and the program that measures it against its floor in one run.

The bounds stand here a second time: a program whose bound was loosened changes nothing here. Where
a program judges by more than the figure (calls that failed, fences that did not happen), its own
word, `flag`, is wanted as well.
"""
import collections.abc
import dataclasses

from gate_figures import (Figure, inverse, leases_until_fenced, longest_pause,
                          megabytes_of_a_million, of_pauses, of_test, over_peer, parse_json,
                          number, parse_rxe, parse_torture, percent, ratio,
                          reads_over_reads_at_rest, server_percent, slower, spread, torn_blocks,
                          unless)


@dataclasses.dataclass(frozen=True)
class Promise:
    words: str
    promised: str  # "at most", "at least" or "below"
    bound: float
    read: collections.abc.Callable[[dict], Figure]
    unit: str = ""
    flag: str | None = None  # where the program's own "kept" is
    note: str = ""  # for the table, whatever is measured

    def bound_words(self):
        return f"{self.promised} {self.bound:g}{' ' + self.unit if self.unit else ''}"

    def holds(self, value):
        return {"at most": value <= self.bound, "at least": value >= self.bound,
                "below": value < self.bound}[self.promised]


@dataclasses.dataclass(frozen=True)
class Group:
    """A program that is run once, and what is promised of what it measures."""

    name: str
    program: str  # in the build folder; with "/" before it: in the source tree
    args: tuple  # "{build}" in them is the build folder, "{device}" and "{host}" what was asked for
    quick: tuple | None  # instead, where only a glimpse is wanted; None: there is no such form
    about_s: int
    limit_s: int
    promises: tuple
    parse: collections.abc.Callable[[str], dict] | None = None  # default: JSON of the program
    asked: str | None = None  # the option without which it runs only where --only names it
    why: str = ""  # it is asked for
    full: tuple = ()  # what a document says, at least, of what was measured, but for --quick
    hugepages: bool = False
    server: tuple = ()  # words of a kv-server that is started for it, as $GRACEKV_SERVER
    env: tuple = ()
    needs: tuple = ()  # of the build folder, besides the program
    peers: tuple = ()  # programs of others, of the PATH

    def title(self):
        """What it is called."""
        return self.program.rsplit("/", 1)[-1] if self.program != "/tests/run" else "tests/run"

    def words(self, options):
        """Those after the program's name."""
        args = self.quick if options.quick and self.quick is not None else self.args
        meant = {"{build}": str(options.build), "{device}": options.device, "{host}": options.host}
        return [meant.get(word, word) for word in args]

    def reader(self):
        return self.parse or parse_json(self.title())


def on_device(*words):
    return "--device", "{device}", "--listen", "{host}", *words


INDEX = Group(
    "index", "tests/performance/index-bench", ("--check", "--json"),
    ("--check", "--json", "--records", "1000000", "--rounds", "1"), 300, 1800, (
        Promise("look-ups of 10 M random keys / cds_lfht's, rate", "at least", 3,
                ratio("lookup.ratio", "lookup.ratio_by_rounds"), flag="lookup.kept"),
        Promise("inserts from an empty table to 10 M / cds_lfht's, rate", "at least", 2,
                ratio("insert.ratio", "insert.ratio_by_rounds"), flag="insert.kept"),
        Promise("deletes of 10 M / cds_lfht's, rate", "at least", 2,
                ratio("delete.ratio", "delete.ratio_by_rounds"), flag="delete.kept"),
        Promise("header and index, for a record of 10 M", "at most", 72, ratio("a_record.bytes"),
                "B", "a_record.kept", "rounding of blocks to 64 B is left out"),
        Promise("p99.9 of an insert up to 10 M, by one writer and by two", "at most", 5,
                longest_pause, "ms")), full=(("records", 10**7),), hugepages=True)

GROWTH = Group(
    "growth", "tests/performance/growth-bench", ("--check", "--json"),
    ("--check", "--json", "--keys", "1000000"), 90, 900, (
        Promise("p99.9 of one-sided GETs, table that grows to 10 M / still", "at most", 10,
                ratio("p999_growing_over_still", "p999_growing_over_still_by_rounds")),
        Promise("p99.9 of an insert meanwhile", "at most", 5,
                ratio("inserts_us.p999", scale=1e-3), "ms")), full=(("keys", 10**7),))

GRACE = Group(
    "grace", "tests/performance/grace-bench", on_device("--check", "--json"),
    on_device("--check", "--json", "--rounds", "2", "--idle", "3"), 180, 900, (
        Promise("others' rate beside a client under SIGSTOP / without", "at least", 0.95,
                ratio("stop.ratio", "stop.ratio_by_rounds"), flag="stop.kept_rate"),
        Promise("leases until that client is fenced, the most of all rounds", "at most", 1.1,
                leases_until_fenced, flag="stop.kept_fence"),
        Promise("deferred bytes / cap, the most, two stuck sessions that beat", "below", 1,
                ratio("cap.deferred_share"), flag="cap.kept"),
        Promise("READs for a GET, housekeeper at work / at rest", "at most", 1,
                reads_over_reads_at_rest, flag="cost.kept"),
        Promise("messages of an idle client with 10 handles", "below", 10,
                ratio("idle.messages_per_s"), "a second", "idle.kept")))

RECLAIM = Group(
    "reclaim", "bin/kv-rcu-bench",
    ("--strategy", "gpc,liburcu,floor", "--check", "--json"),
    ("--strategy", "gpc,liburcu,floor", "--check", "--json", "--rounds", "3", "--time", "0.2"),
    420, 1200, (
        Promise("gpc's updates / liburcu's call_rcu, 95 % lower bound, least of all pauses",
                "at least", 0.97, of_pauses("lower95", min)),
        Promise("p99 of gpc's update / exchange and malloc, most of all pauses", "below", 5,
                of_pauses("gpc_p99_over_floor", max))), full=(("rounds", 9),))

RESULT = "results.0"
OVER_RAW = ratio(f"{RESULT}.over_raw", f"{RESULT}.over_raw_by_rounds")


def perf(name, program, about_s, promises, *words, keys=10**6, quick=("-D", "0.5")):
    """kv-lat or kv-bw on a kv-server that the gate starts. Of an option that is given twice the
    last one counts. The keys are short enough that blocks of 64 B values have 128 B."""
    args = ("-d", "{device}", "--json", "--name", name, "--keep", "-s", "64", "-D", "9", "--rounds",
            "9", "--keys", str(keys), *words)
    return Group(name, f"bin/{program}", args, (*args, "--keys", str(keys // 10), *quick), about_s,
                 10 * about_s, promises, full=((f"{RESULT}.keys", keys),),
                 server=("--memory", "4G" if keys > 10**6 else "1G"))


GET = perf(
    "get", "kv-lat", 50, (
        Promise("GET of 64 B without hints / raw READs of the same lengths, time", "at most", 3,
                OVER_RAW),
        Promise("server's CPU over 10 s of GETs, less that of 10 s idle", "below", 1,
                server_percent(RESULT, less=f"{RESULT}.idle"), "%"),
        Promise("idle server's CPU", "below", 0.5, server_percent(f"{RESULT}.idle"), "%")),
    "--no-hints", "--raw", "-D", "10", "--idle", "10", quick=("-D", "1", "--idle", "1"))

WARM = perf("warm", "kv-lat", 40, (
    Promise("warm GET, one by one / raw READ, time", "at most", 2, OVER_RAW),), "--raw")

DEPTH = perf("depth", "kv-bw", 40, (
    Promise("warm GETs at depth 32 / raw READs, each with one XXH3, rate", "at least", 0.6,
            OVER_RAW),), "--raw-checksum", "-t", "32", "-l", "32")

REDIS = Group(
    "redis", "/tests/performance/redis", ("--build", "{build}"),
    ("--build", "{build}", "--keys", "50000", "--rounds", "2", "--seconds", "0.3"), 60, 600, (
        Promise("one synchronous handle / redis-benchmark -c 1, rate", "at least", 25,
                unless("no_redis", spread("figures.get_rate_over_redis"))),
        Promise("one handle at depth 32 / redis-benchmark -c 50 -P 16, rate", "at least", 5,
                unless("no_redis", spread("figures.get_depth_rate_over_redis")))),
    full=(("keys", 10**6),), needs=("bin/kv-server", "bin/kv-lat", "bin/kv-bw"))


def zipf(name, words, bound, about_s, warm_s, keys):
    """Counted, not timed: records are as small as they may be."""
    return perf(name, "kv-lat", about_s, (
        Promise(f"READs for a GET, Zipf 0.99, {words}", "at most", bound,
                ratio(f"{RESULT}.reads_per_get")),),
        "-s", "1", "--dist", "zipf:0.99", "--hints", "64M", "--warm-up", str(warm_s), keys=keys,
        quick=("-D", "0.5", "--warm-up", "2"))


ZIPF = zipf("zipf", "10 M keys, 64 MiB of hints", 1.2, 120, 60, 10**7)
ZIPF_FEW = zipf("zipf-few", "1 M keys", 1.02, 30, 10, 10**6)

SOFT = Group(
    "soft", "tests/performance/soft-bench", ("--check", "--json"),
    ("--check", "--json", "--rounds", "3", "--ops", "50000"), 5, 120, (
        Promise("mapped READ of 64 B in lists of 16 / memcpy, time", "at most", 6,
                ratio("mapped_list_over_memcpy.ratio", "mapped_list_over_memcpy.ratio_by_rounds"),
                flag="mapped_list_over_memcpy.kept"),
        Promise("chained process_vm READs / single ones, rate, blocks that touch", "at least", 3,
                ratio("private_over_neighbours.ratio", "private_over_neighbours.ratio_by_rounds"),
                flag="private_over_neighbours.kept"),
        Promise("the same, blocks scattered over 64 MiB", "at least", 3,
                ratio("private_over_private_list.ratio",
                      "private_over_private_list.ratio_by_rounds",
                      floor="kernel_over_kernel_list.ratio"),
                note="the floor is what bare process_vm_readv() gains by the same lists in the same"
                     " run; the rest is the kernel's look-up of each page"),
        Promise("the same lists / bare process_vm_readv() of them, time", "at most", 1.5,
                ratio("private_list_over_kernel_list.ratio",
                      "private_list_over_kernel_list.ratio_by_rounds"),
                flag="private_list_over_kernel_list.kept")))

WASTE = Group(
    "waste", "/tests/performance/waste", ("--build", "{build}"),
    ("--build", "{build}", "--many", "20000"), 20, 300, (
        Promise("memory of blocks beyond their records, those of deploy/quickstart", "below", 15,
                unless("no_records", percent("waste")), "%"),
        Promise("slabs and segments of 1 M records of 16 + 64 B", "below", 250,
                megabytes_of_a_million, "MB")), full=(("million.records", 10**6),),
    needs=("bin/kv-server", "bin/kv-cli"))

SIZES = ("64 B", "64 ?B|64 bytes"), ("1 KiB", "1 ?KiB|1024 ?B|1024 bytes")
PEERS_ARGS = "--workload", "C", "--peer", "redis", "--peer", "memcached"
PEERS = Group(
    "peers", "bin/kv-bench",
    on_device("--check", "--json", *PEERS_ARGS),
    on_device("--check", "--json", *PEERS_ARGS, "--records", "20000", "--rounds", "2", "--seconds",
          "0.3"),
    180, 1800, tuple(
        Promise(f"GET of {size}, one synchronous client / {peer}, rate", "at least", 10,
                over_peer(peer, program, size, words))
        for peer, program in (("redis", "redis-server"), ("memcached", "memcached"))
        for size, words in SIZES), peers=("redis-server", "memcached"))


def rxe(words, bound, place, test, **how):
    return Promise(words, how.pop("promised", "at most"), bound,
                   how.pop("read", of_test)(place, test), flag=f"{place}: {test}.passed",
                   note="Soft-RoCE in emulated machines: times mean nothing there, ratios do",
                   **how)


RXE = Group(
    "rxe", "/tests/run", ("rxe",), None, 480, 5400, (
        rxe("GET / ib_read_lat of the block's size, time", 2.3, "ratios",
            "test_get_against_ib_read_lat"),
        rxe("warm GET / ib_read_lat of the block's size, time", 1.3, "ratios",
            "test_warm_get_against_ib_read_lat"),
        rxe("PUT / twice ib_send_lat, time", 1.5, "ratios", "test_put_against_ib_send_lat"),
        rxe("server's user CPU over 10 s of GETs, less that of 10 s idle", 1, "ratios",
            "test_user_time_of_the_server_under_gets", promised="below", unit="%"),
        rxe("mget of 64 between two guests / single GETs, rate", 2.5, "two guests",
            "test_mget_against_single_gets", promised="at least",
            read=lambda *which: inverse(of_test(*which))),
        rxe("PUT with a backup in the other guest / of a server alone, time", 2, "peer failure",
            "test_what_a_backup_costs_a_put")),
    parse=parse_rxe, asked="--rxe", why="it installs packages, boots emulated guests",
    env=(("GRACEKV_TEST_ONLY", "ratios and (against or user_time) or backup_costs"),))

# Where it is done earlier it ends earlier.
TORTURE_ARGS = ("--seconds", "2700", "--keys", "64", "--keep", "16", "--hot", "8", "--memory",
                "256M", "--lease", "1000")
TORTURE = Group(
    "torture", "tests/stress/torture/torture", ("--gets", "100000000", *TORTURE_ARGS),
    ("--gets", "1000000", *TORTURE_ARGS), 120, 3000, (
        Promise("torn blocks in 10^8 GETs, full write load on the same keys", "at most", 0,
                torn_blocks,
                note="that grace periods are what keeps them out is shown by a mutant without"
                     " them, in tests/run stress"),),
    parse=parse_torture, full=(("gets", 10**8),), asked="--long", why="it takes both cores")

LOG = Group(
    "log", "/tests/performance/log", ("--build", "{build}"),
    ("--build", "{build}", "--keys", "10000", "--rounds", "1", "--seconds", "1"), 90, 600, (
        Promise("durable PUTs, one in flight / fio with one job, same size and sync, rate",
                "at least", 0.9, unless("no_fio", ratio("figures.over_fio_1.median",
                                                        "figures.over_fio_1",
                                                        floor="figures.chain_over_fio.median")),
                note="the floor is what three threads reach that do fio's writes and only hand each"
                     " other a word: a client, a worker, and one that waits for the disk"),
        Promise("durable PUTs, 64 in flight / fio with 64 jobs, rate", "at least", 0.9,
                unless("no_fio", spread("figures.over_fio_64"))),
        Promise("the same / redis-benchmark -c 64, appendfsync always, rate", "at least", 3,
                unless("no_fio", unless("no_redis", spread("figures.over_redis_64"))))),
    full=(("rounds", 5),),
    needs=("bin/kv-server", "bin/kv-cli", "bin/kv-bw", "tests/performance/handoff"))

SNAPSHOT = Group(
    "snapshot", "/tests/performance/snapshot", ("--build", "{build}"),
    ("--build", "{build}", "--keys", "100000", "--rounds", "1", "--recoveries", "1", "--seconds",
     "0.5", "--memory", "1G"), 720, 1800, (
        Promise("p99 of a GET beside snapshots / without, 10 M records", "at most", 1.5,
                spread("figures.get_p99", "figures.get_p99_floor")),
        Promise("rate of PUTs beside snapshots / without", "at least", 0.8,
                spread("figures.put_rate", "figures.put_rate_floor"),
                note="the floors here are measured beside a process that computes, as nice as the"
                     " snapshots' thread and with its share of a core; that of the longest GET is"
                     " in microseconds"),
        Promise("longest GET beside snapshots", "at most", 1,
                ratio("figures.get_max_us_saving.median", "figures.get_max_us_saving",
                      floor="figures.get_max_us_computing.median", scale=1e-3), "ms"),
        Promise("memory beside snapshots, more than without, of the records'", "at most", 1,
                lambda doc: Figure(100 * number(doc, "extra_memory.max")), "%"),
        Promise("snapshot, for a second of CPU", "at least", 0.5,
                ratio("bytes_per_cpu_s", scale=1e-9), "GB"),
        Promise("recovery of a log of 1 KiB values: GB for a second of CPU, or times a plain read's"
                " rate", "at least", 1,
                ratio("recovery_of_log.kept.median", "recovery_of_log.kept",
                      floor="recovery_of_log.floor_gb_per_cpu_s.median"),
                note="the floor is GB for a second of CPU of a plain read, and of having the system"
                     " give as much memory")),
    full=(("keys", 10**7),), needs=("bin/kv-server", "bin/kv-cli", "bin/kv-bw", "bin/kv-lat"))

FAILOVER = Group(
    "failover", "/tests/performance/failover", ("--build", "{build}"),
    ("--build", "{build}", "--kills", "3", "--short-kills", "2", "--switches", "2", "--rounds", "1",
     "--seconds", "0.3"), 330, 1200, (
        Promise("three servers, kill -9 of the primary: until reads and writes go on, median",
                "at most", 2, slower("failover", "median_leases", "failover.floor_leases"),
                "leases", note="the floor is the lease, and what etcd takes"),
        Promise("the same, p99", "at most", 3,
                slower("failover", "p99_leases", "failover.floor_leases"), "leases"),
        Promise("the same with a lease of 25 ms, median", "at most", 50,
                slower("short", "median_ms"), "ms"),
        Promise("a planned switch: operations that fail", "at most", 0,
                lambda doc: Figure(number(doc, "switch.failed"))),
        Promise("a planned switch: p99 of the time without an operation", "below", 50,
                ratio("switch.pause.p99_ms", "switch.pause", floor="switch.etcd_ms"), "ms",
                note="the floor is what etcd takes for a read and a transaction"),
        Promise("rate of GETs of a group / of a server alone", "at least", 0.95,
                spread("figures.get"))),
    full=(("failover.rounds", 100),), peers=("etcd",),
    needs=("bin/kv-server", "bin/kv-cluster", "bin/kv-lat", "bin/kv-bw",
           "tests/integration/kv-test-client"))

GROUPS = (INDEX, GROWTH, GRACE, RECLAIM, GET, WARM, DEPTH, REDIS, ZIPF, ZIPF_FEW, LOG, SNAPSHOT,
          FAILOVER, SOFT, WASTE, PEERS, RXE, TORTURE)
