/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-cli/screen.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "common/base/time.h"
#include "tools/kv-cli/caught.h"

/* The other screen; no cursor; lines that are too long do not go on in the next one. */
#define ENTER "\033[?1049h\033[?25l\033[?7l\033[2J"
#define LEAVE "\033[m\033[?7h\033[?25h\r\n\033[?1049l"

#define PATIENCE_NS NS_PER_S /* with a terminal that takes nothing */

struct screen {
	struct caught caught;
	struct termios modes; /* that were found; where keys */
	int fd; /* the terminal, of our own and not blocking; -1: there is no screen */
	bool keys; /* stdin is a terminal */
	bool left;
	int number; /* of the signal that it was left by, or 0 */
};

/* The first ones are noted without a screen too. */
static const int screen_signals[] = {
	SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH, SIGCONT
};

#define SIGNALS		(sizeof(screen_signals) / sizeof(screen_signals[0]))
#define SIGNALS_WITHOUT 2u
#define SIGNALS_DEADLY	4u

/*
 * stdout's terminal opened again: its description is shared with the program that started us, which
 * does not want it to be non-blocking. A terminal that stands still must not hold up a signal.
 */
static int terminal_fd(void)
{
	char name[64];
	int fd = -1;

	if (ttyname_r(STDOUT_FILENO, name, sizeof(name)) == 0)
		fd = open(name, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd >= 0 ? fd : fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
}

static bool terminal_knows(void)
{
	const char *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && term && term[0] && strcmp(term, "dumb") != 0;
}

/* Write all, or what the terminal takes while we have patience, and no signal comes. */
static int terminal_write(struct screen *s, const char *text, size_t len, bool hurry)
{
	const uint64_t end_ns = time_now_ns() + PATIENCE_NS;

	while (len > 0) {
		struct pollfd room = { .fd = s->fd, .events = POLLOUT };
		struct timespec pause = { .tv_nsec = 20 * NS_PER_MS };
		ssize_t n = write(s->fd, text, len);

		if (n >= 0) {
			text += n;
			len -= (size_t)n;
			continue;
		}
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		if ((ppoll(&room, 1, &pause, &s->caught.outside) < 0 && hurry) ||
		    time_now_ns() >= end_ns)
			break;
	}
	return 0;
}

int screen_show(struct screen *s, const char *text, size_t len)
{
	return terminal_write(s, text, len, true);
}

static void enter(struct screen *s)
{
	struct termios raw;

	if (s->keys) {
		tcgetattr(STDIN_FILENO, &s->modes);
		raw = s->modes;
		raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		raw.c_cc[VMIN] = 1;
		raw.c_cc[VTIME] = 0;
		tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	}
	terminal_write(s, ENTER, sizeof(ENTER) - 1, false);
}

static void leave(struct screen *s)
{
	terminal_write(s, LEAVE, sizeof(LEAVE) - 1, false);
	if (s->keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &s->modes);
}

int screen_open(struct screen **out, bool wanted)
{
	struct screen *s = calloc(1, sizeof(*s));
	bool on = wanted && terminal_knows();

	if (!s)
		return -ENOMEM;
	s->fd = on ? terminal_fd() : -1;
	if (on && s->fd < 0) {
		int rc = -errno;

		free(s);
		return rc;
	}
	s->keys = on && isatty(STDIN_FILENO);
	/* without a screen a second one ends the program whatever it waits for */
	caught_begin(&s->caught, screen_signals, on ? SIGNALS : SIGNALS_WITHOUT,
		     on ? 0 : SA_RESTART | (int)SA_RESETHAND);
	if (on)
		enter(s);
	*out = s;
	return 0;
}

bool screen_on(const struct screen *s)
{
	return s->fd >= 0;
}

void screen_size(const struct screen *s, unsigned *rows, unsigned *columns)
{
	struct winsize size;
	bool known = ioctl(s->fd, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col;

	*rows = known ? size.ws_row : 24;
	*columns = known ? size.ws_col : 80;
}

/* The terminal is the shell's while we are stopped, and may be of any size and modes after it. */
static void stop_and_go_on(struct screen *s)
{
	leave(s);
	raise(SIGSTOP);
	caught_take(SIGCONT);
	enter(s);
}

/* What signals have come? Returns whether that is an event. */
static bool look_at_signals(struct screen *s, enum screen_event *event)
{
	bool redraw = false;

	for (size_t i = 0; i < SIGNALS_DEADLY; i++) {
		if (caught_take(screen_signals[i])) {
			s->left = true;
			s->number = screen_signals[i];
		}
	}
	if (s->left) {
		*event = SCREEN_LEFT;
		return true;
	}
	if (s->fd < 0)
		return false;
	if (caught_take(SIGTSTP)) {
		stop_and_go_on(s);
		redraw = true;
	}
	if (caught_take(SIGCONT)) { /* it was stopped by SIGSTOP */
		leave(s);
		enter(s);
		redraw = true;
	}
	if (caught_take(SIGWINCH))
		redraw = true;
	*event = SCREEN_REDRAW;
	return redraw;
}

/* Returns whether a key was typed that leaves, or none can be typed any more. */
static bool key_leaves(void)
{
	char keys[64];
	ssize_t n = read(STDIN_FILENO, keys, sizeof(keys));

	if (n < 0)
		return errno != EINTR && errno != EAGAIN;
	return n == 0 || memchr(keys, 'q', (size_t)n) || memchr(keys, 'Q', (size_t)n);
}

enum screen_event screen_wait(struct screen *s, int fd, uint64_t until_ns)
{
	struct pollfd wait[] = { { .fd = fd, .events = POLLIN },
				 { .fd = s->keys ? STDIN_FILENO : -1, .events = POLLIN } };
	enum screen_event event;

	for (;;) {
		uint64_t now = time_now_ns(), left = until_ns > now ? until_ns - now : 0;
		struct timespec time = { .tv_sec = (time_t)(left / NS_PER_S),
					 .tv_nsec = (long)(left % NS_PER_S) };
		int rc;

		if (look_at_signals(s, &event))
			return event;
		rc = ppoll(wait, 2, &time, &s->caught.outside);
		if (rc == 0)
			return SCREEN_TIME;
		if (rc > 0 && wait[1].revents && key_leaves())
			s->left = true;
		else if (rc > 0 && wait[0].revents)
			return SCREEN_READY;
	}
}

void screen_let(struct screen *s)
{
	caught_let(&s->caught);
}

void screen_hold(struct screen *s)
{
	caught_hold(&s->caught);
}

int screen_close(struct screen *s)
{
	int number = s->number;

	if (number == SIGINT && s->keys)
		number = 0;
	if (s->fd >= 0) {
		leave(s);
		close(s->fd);
	}
	caught_end(&s->caught);
	free(s);
	return number;
}
