# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""What is done to server and clients while they work, in seeded random order.

Each nemesis is a generator over a Cast: it does something, yields for how many seconds it lasts,
and ends it; or yields several times. What it returns is words for the list of events. Those of one
track come one after the other, tracks run side by side.
"""
import random
import signal
import time


def between(cast, low, high):
    """Seconds, of milliseconds."""
    return cast.rng.uniform(low, high) / 1000 * cast.options.slow


def stop_client(cast):
    """A client stands still for less than the lease, wherever it is."""
    name = cast.any_client()
    yield from stand_still(cast, cast.clients[name], between(cast, 5, cast.options.lease * 0.6))
    return name


def hold_client(cast):
    """For longer: it is fenced, and finds its queue pairs gone."""
    name = cast.any_client()
    lease = cast.options.lease
    yield from stand_still(cast, cast.clients[name], between(cast, lease * 1.3, lease * 2.5))
    return name


def stand_still(cast, process, seconds):
    process.signal(signal.SIGSTOP)
    yield seconds
    process.signal(signal.SIGCONT)


def asked(cast, switch, seconds):
    cast.board.set(switch, True)
    yield seconds
    cast.board.set(switch, False)


def kill_client(cast):
    """In the midst of what it does; another one comes."""
    name = cast.any_client()
    cast.kill_client(name)
    yield between(cast, 0, 200)
    return f"{name}, then {cast.start_client()}"


def cut_lines(cast):
    """TCP connections are reset: those of some, or of all, several times."""
    part = cast.rng.choice([0.3, 1.0])
    times = cast.rng.randrange(1, 5)
    for _ in range(times):
        dice = random.Random(cast.rng.random())  # how many lines there are is nobody's choice
        cast.cut(lambda dice=dice: dice.random() < part)
        yield between(cast, 10, 300)
    return f"{part:.0%}, {times} times"


def brief_sessions(cast):
    """Sessions come and go."""
    yield from asked(cast, "brief", between(cast, 500, 1500))
    return ""


def mute(cast):
    """Clients that tick by themselves do not: they are fenced while they are at work."""
    yield from asked(cast, "mute", between(cast, cast.options.lease * 1.3, cast.options.lease * 3))
    return ""


def stop_server(cast):
    """The server stands still; one-sided reads go on."""
    yield from stand_still(cast, cast.server, between(cast, 5, 300))
    return ""


def hold_server(cast):
    """For longer than clients wait for an answer."""
    yield from stand_still(cast, cast.server, between(cast, 500, 1500))
    return ""


def kill_server(cast):
    """It dies with all that it had in memory, and another one comes."""
    begin, end = cast.kill_server()
    if not cast.options.data_dir and not cast.options.group:
        cast.wiped(begin, end)
    yield between(cast, 0, 300)
    cast.start_server()
    return f"life {cast.lives}"


def kill_recovery(cast):
    """It dies, and the next ones while they read what there is, one after the other."""
    cast.kill_server()
    times = cast.rng.randrange(1, 5)
    for _ in range(times):
        cast.half_a_life(between(cast, 1, 150))
        yield between(cast, 0, 50)
    cast.start_server()
    return f"{times} times, then life {cast.lives}"


def end_server(cast):
    """It ends in order, and another one comes."""
    cast.stop_server()
    yield between(cast, 0, 300)
    cast.start_server()
    return f"life {cast.lives}"


def part(cast):
    """The network between servers, etcd and clients is cut, in some places one way only."""
    words = cast.part()
    yield between(cast, 50, 1500)
    cast.mend()
    return words


def lose_etcd(cast):
    """It dies, stands still, or is slow: it has some milliseconds, again and again. Reads and
    writes go on. The primary may die: nobody takes over then, unless those milliseconds do."""
    kill, dies = cast.rng.random() < 0.4, cast.rng.random() < 0.5
    breaths = 0 if kill else cast.rng.choice([0, 10])
    cast.lose_etcd(kill, dies)
    for _ in range(breaths):
        yield between(cast, 50, 150)
        cast.breathe_etcd(cast.rng.uniform(0.005, 0.02))
    yield between(cast, 100, 1500)
    cast.find_etcd()
    words = "killed" if kill else "slow" if breaths else "stopped"
    return f"{words}{', and the primary killed' if dies else ''}"


def kill_group(cast):
    """All servers of a group die."""
    cast.kill_group()
    yield between(cast, 0, 300)
    cast.start_server()
    return f"life {cast.lives}"


def switch_primary(cast):
    """The primary of a group gives way to another one."""
    words = cast.switch_primary()
    yield between(cast, 0, 300)
    return words


def grow(cast):
    """The index grows and shrinks where the keys are."""
    yield from asked(cast, "grow", between(cast, 500, 2500))
    return ""


def press(cast):
    """The memory is filled until writes are refused, and emptied."""
    yield from asked(cast, "press", between(cast, 1500, 3500))
    return ""


TRACKS = {
    "clients": [stop_client, stop_client, stop_client, hold_client, kill_client, kill_client],
    "lines": [cut_lines, brief_sessions, mute],
    "server": [stop_server, stop_server, hold_server, kill_server],
    "memory": [grow, grow, press],
}
# Where there is a data directory: most of a life is its end.
DURABLE = {**TRACKS, "server": [stop_server, hold_server, kill_server, kill_server, kill_server,
                                kill_server, kill_recovery, end_server]}
# Of a group: a full store is left out, since a backup may need another block more than its primary.
GROUP = {**TRACKS, "server": [stop_server, hold_server, kill_server, kill_server, switch_primary,
                              part, lose_etcd],
         "memory": [grow]}
GROUP_DURABLE = {**GROUP, "server": [*GROUP["server"], kill_group, kill_group]}
NAMES = sorted({nemesis.__name__ for tracks in (DURABLE, GROUP_DURABLE) for track in tracks.values()
                for nemesis in track})
# Seconds of rest between two of a track
REST = {"clients": (0.02, 0.25), "lines": (0.1, 1.0), "server": (0.3, 1.5), "memory": (0.05, 0.5)}


def tracks_of(options):
    if options.group:
        return GROUP_DURABLE if options.data_dir else GROUP
    return DURABLE if options.data_dir else TRACKS


class Track:
    """One after the other; each of the track's once before any of them comes again.

    A track has choices of its own: which of two is first by an instant changes none of them.
    """

    def __init__(self, cast, name, allowed, events):
        self.cast = cast
        self.rng = random.Random(cast.rng.random())
        self.name = name
        self.all = [n for n in tracks_of(cast.options)[name] if n.__name__ in allowed]
        self.bag = []
        self.events = events
        self.running = None
        self.due = time.monotonic() + self.rest()

    def rest(self):
        low, high = REST[self.name]
        return self.rng.uniform(low, high) * self.cast.options.slow

    def step(self, last):
        """Go on if it is time. @last: begin nothing more. Whether something is under way."""
        while self.all and time.monotonic() >= self.due:
            if self.running is None:
                if last:
                    return False
                self.begin()
            self.advance()
        return self.running is not None

    def begin(self):
        if not self.bag:
            kinds = list(dict.fromkeys(self.all))  # one of each comes first
            more = [n for n in kinds for _ in range(self.all.count(n) - 1)]
            self.bag = self.rng.sample(more, len(more)) + self.rng.sample(kinds, len(kinds))
        self.nemesis = self.bag.pop()
        self.since = time.monotonic_ns()
        self.running = self.nemesis(self.cast)

    def advance(self):
        self.cast.rng = self.rng
        try:
            self.due = time.monotonic() + next(self.running)
        except StopIteration as end:
            self.events.add(self.nemesis.__name__, self.since, time.monotonic_ns(), end.value)
            self.running = None
            self.due = time.monotonic() + self.rest()
