/* A program of sockets, as such programs are written: epoll, select, accept4, descriptors of the
 * kernel's beside sockets, threads that change what another one waits for. It knows nothing of
 * RDMA; librspreload makes rsockets of its sockets.
 *
 * sockets server ADDRESS PORT | sockets client ADDRESS PORT */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LISTENER = 1, PIPE, STREAM, MANY = 1 << 20 };
/* Far longer than anything takes, in milliseconds. */
enum { LONG = 20000 };

#define CHECK(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "%s:%d: %s does not hold; errno is %s\n", role, __LINE__, #what, \
				strerror(errno)); \
			exit(1); \
		} \
	} while (0)

static const char *role;

static double seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

static int control(int set, int operation, int fd, unsigned events, unsigned long data)
{
	struct epoll_event event = { .events = events, .data.u64 = data };
	return epoll_ctl(set, operation, fd, &event);
}

/* The data and the events of the one thing that is ready. */
static unsigned long one(int set, unsigned *events)
{
	struct epoll_event found[4];
	CHECK(epoll_wait(set, found, 4, LONG) == 1);
	if (events)
		*events = found[0].events;
	return found[0].data.u64;
}

/* Nothing is ready, and the time passes: at least the limit, and not for ever. */
static void nothing(int set)
{
	struct epoll_event found;
	double began = seconds();
	CHECK(epoll_wait(set, &found, 1, 60) == 0);
	CHECK(seconds() - began >= 0.059);
}

static void *later_write(void *fd)
{
	CHECK(write(*(int *)fd, "p", 1) == 1);
	return NULL;
}

struct change {
	int set, fd;
};

/* Adds the stream to a set that another thread waits for. */
static void *later_add(void *argument)
{
	struct change *change = argument;
	CHECK(!control(change->set, EPOLL_CTL_ADD, change->fd, EPOLLOUT, STREAM));
	return NULL;
}

/* A socket that does not block, whose descriptor says so. */
static void do_not_block(int fd)
{
	CHECK(!fcntl(fd, F_SETFL, O_NONBLOCK));
	CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

static void sets(int listener, int set, int *ends, int *stream)
{
	pthread_t thread;
	unsigned events;
	char byte;

	/* Of the kernel's and rsockets, and neither is ready. Twice: the first limit that passed
	 * must leave the second as it is. */
	CHECK(!control(set, EPOLL_CTL_ADD, listener, EPOLLIN, LISTENER));
	CHECK(!control(set, EPOLL_CTL_ADD, ends[0], EPOLLIN, PIPE));
	CHECK(control(set, EPOLL_CTL_ADD, listener, EPOLLIN, LISTENER) && errno == EEXIST);
	nothing(set);
	nothing(set);
	CHECK(accept4(listener, NULL, NULL, SOCK_NONBLOCK) < 0 && errno == EAGAIN);

	/* The kernel's wakes whoever waits for both. */
	CHECK(!pthread_create(&thread, NULL, later_write, &ends[1]));
	CHECK(one(set, NULL) == PIPE && read(ends[0], &byte, 1) == 1);
	CHECK(!pthread_join(thread, NULL));

	printf("ready\n");
	fflush(stdout);
	CHECK(one(set, &events) == LISTENER && events == EPOLLIN);
	*stream = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	CHECK(*stream >= 0);
	CHECK(fcntl(*stream, F_GETFL) & O_NONBLOCK);
	CHECK(read(*stream, &byte, 1) < 0 && errno == EAGAIN);

	/* Whoever waits hears of what is added meanwhile. */
	struct change change = { set, *stream };
	CHECK(!pthread_create(&thread, NULL, later_add, &change));
	CHECK(one(set, &events) == STREAM && events == EPOLLOUT);
	CHECK(!pthread_join(thread, NULL));

	/* Nothing is asked for, nothing is told; once is once. */
	CHECK(!control(set, EPOLL_CTL_MOD, *stream, EPOLLIN | EPOLLONESHOT, STREAM + 1));
	nothing(set);
	CHECK(write(*stream, "a", 1) == 1);
	CHECK(one(set, &events) == STREAM + 1 && events == EPOLLIN);
	nothing(set);
	CHECK(!control(set, EPOLL_CTL_MOD, *stream, EPOLLIN, STREAM));
	CHECK(one(set, NULL) == STREAM && one(set, NULL) == STREAM);
	CHECK(read(*stream, &byte, 1) == 1 && byte == 'b');

	/* An edge is not told all the time. */
	CHECK(!control(set, EPOLL_CTL_MOD, *stream, EPOLLOUT | EPOLLET, STREAM));
	int told = 0;
	for (double began = seconds(); seconds() - began < 0.1;) {
		struct epoll_event found;
		told += epoll_wait(set, &found, 1, 100) == 1;
	}
	CHECK(told >= 1 && told < 50);

	CHECK(!control(set, EPOLL_CTL_DEL, *stream, 0, 0));
	CHECK(control(set, EPOLL_CTL_DEL, *stream, 0, 0) && errno == ENOENT);
	CHECK(control(set, EPOLL_CTL_MOD, *stream, EPOLLIN, 0) && errno == ENOENT);
	CHECK(control(set, EPOLL_CTL_ADD, 60000, EPOLLIN, 0) && errno == EBADF);
	int file = open("/proc/self/exe", O_RDONLY);
	CHECK(control(set, EPOLL_CTL_ADD, file, EPOLLIN, 0) && errno == EPERM);
	close(file);
}

/* The bits of the descriptors that the program named, whatever numbers rsockets have. */
static void bits(int stream, int *ends)
{
	fd_set reads, writes;
	struct timeval soon = { 0, 60000 }, past = { -1, 0 };
	int most = (stream > ends[0] ? stream : ends[0]) + 1;

	FD_ZERO(&reads);
	FD_SET(stream, &reads);
	FD_SET(ends[0], &reads);
	double began = seconds();
	CHECK(select(most, &reads, NULL, NULL, &soon) == 0);
	CHECK(seconds() - began >= 0.059 && !FD_ISSET(stream, &reads) && !FD_ISSET(ends[0], &reads));

	FD_ZERO(&reads);
	FD_ZERO(&writes);
	FD_SET(stream, &reads);
	FD_SET(ends[0], &reads);
	FD_SET(stream, &writes);
	CHECK(write(ends[1], "p", 1) == 1);
	CHECK(select(most, &reads, &writes, NULL, NULL) == 2);
	CHECK(!FD_ISSET(stream, &reads) && FD_ISSET(ends[0], &reads) && FD_ISSET(stream, &writes));
	char byte;
	CHECK(read(ends[0], &byte, 1) == 1);

	CHECK(write(stream, "c", 1) == 1);
	FD_ZERO(&reads);
	FD_SET(stream, &reads);
	FD_SET(ends[0], &reads);
	CHECK(select(most, &reads, NULL, NULL, NULL) == 1);
	CHECK(FD_ISSET(stream, &reads) && !FD_ISSET(ends[0], &reads));
	CHECK(read(stream, &byte, 1) == 1 && byte == 'd');

	CHECK(select(most, &reads, NULL, NULL, &past) < 0 && errno == EINVAL);
	FD_ZERO(&reads);
	FD_SET(60, &reads);
	CHECK(select(61, &reads, NULL, NULL, NULL) < 0 && errno == EBADF);
}

static unsigned char byte_at(size_t at)
{
	return at * 7 + at / 251;
}

/* Many bytes, by one that takes what is there when it is told of it. */
static void many(int set, int stream)
{
	static unsigned char bytes[65536];
	CHECK(!control(set, EPOLL_CTL_ADD, stream, EPOLLIN | EPOLLET, STREAM));
	for (size_t at = 0; at < MANY;) {
		CHECK(one(set, NULL) == STREAM);
		for (;;) {
			ssize_t some = read(stream, bytes, sizeof(bytes));
			if (some < 0) {
				CHECK(errno == EAGAIN);
				break;
			}
			CHECK(some > 0);
			for (ssize_t i = 0; i < some; i++)
				CHECK(bytes[i] == byte_at(at + i));
			at += some;
			if (at == MANY)
				break;
		}
	}
}

static int server(struct sockaddr_in *address)
{
	int ends[2], stream, yes = 1;
	int set = epoll_create1(EPOLL_CLOEXEC), listener = socket(AF_INET, SOCK_STREAM, 0);

	CHECK(set >= 0 && listener >= 0 && !pipe(ends));
	CHECK(!setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)));
	do_not_block(listener);
	CHECK(!bind(listener, (struct sockaddr *)address, sizeof(*address)));
	CHECK(!listen(listener, 8));
	sets(listener, set, ends, &stream);
	bits(stream, ends);
	many(set, stream);
	CHECK(write(stream, "e", 1) == 1);

	/* What is closed is in no set. */
	char byte;
	CHECK(one(set, NULL) == STREAM && read(stream, &byte, 1) == 0);
	CHECK(!close(stream));
	nothing(set);
	CHECK(!close(listener) && !close(set));
	return 0;
}

static void expect(int stream, char byte)
{
	char found;
	CHECK(read(stream, &found, 1) == 1 && found == byte);
}

static int client(struct sockaddr_in *address)
{
	static unsigned char bytes[MANY];
	int error, stream = socket(AF_INET, SOCK_STREAM, 0), set = epoll_create(1);
	socklen_t len = sizeof(error);

	/* A connection that is on its way is told as one that can be written. */
	CHECK(stream >= 0 && set >= 0);
	do_not_block(stream);
	CHECK(connect(stream, (struct sockaddr *)address, sizeof(*address)) < 0 && errno == EINPROGRESS);
	CHECK(!control(set, EPOLL_CTL_ADD, stream, EPOLLOUT, STREAM));
	CHECK(one(set, NULL) == STREAM);
	CHECK(!getsockopt(stream, SOL_SOCKET, SO_ERROR, &error, &len) && !error);
	CHECK(!fcntl(stream, F_SETFL, 0));

	expect(stream, 'a');
	CHECK(write(stream, "b", 1) == 1);
	expect(stream, 'c');
	CHECK(write(stream, "d", 1) == 1);
	for (size_t at = 0; at < MANY; at++)
		bytes[at] = byte_at(at);
	for (size_t at = 0; at < MANY;) {
		ssize_t some = write(stream, bytes + at, MANY - at);
		CHECK(some > 0);
		at += some;
	}
	expect(stream, 'e');
	CHECK(!shutdown(stream, SHUT_WR));
	char byte;
	CHECK(read(stream, &byte, 1) == 0);
	CHECK(!close(stream) && !close(set));
	return 0;
}

int main(int count, char **words)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	if (count != 4 || inet_pton(AF_INET, words[2], &address.sin_addr) != 1) {
		fprintf(stderr, "sockets server|client ADDRESS PORT\n");
		return 2;
	}
	role = words[1];
	address.sin_port = htons(atoi(words[3]));
	return strcmp(role, "server") ? client(&address) : server(&address);
}
