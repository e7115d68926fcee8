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
#include <sys/ioctl.h>
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

struct worker {
	pthread_t thread;
	int set, told, go[2];
};

/* Waits for one event, tells, and is busy until it is told to end. */
static void *works(void *argument)
{
	struct worker *worker = argument;
	struct epoll_event event;
	char byte;
	CHECK(epoll_wait(worker->set, &event, 1, LONG) == 1 && event.data.u64 == STREAM);
	__atomic_store_n(&worker->told, 1, __ATOMIC_SEQ_CST);
	CHECK(read(worker->go[0], &byte, 1) == 1);
	return NULL;
}

static int told(struct worker *workers)
{
	return __atomic_load_n(&workers[0].told, __ATOMIC_SEQ_CST) +
	       __atomic_load_n(&workers[1].told, __ATOMIC_SEQ_CST);
}

static void until_told(struct worker *workers, int count)
{
	for (double began = seconds(); told(workers) < count; usleep(1000))
		CHECK(seconds() - began < LONG / 1000);
}

/* Two threads wait for one set. An event is one thread's, and the next one is the other's. */
static void two_workers(int listener, int stream)
{
	struct worker workers[2] = { 0 };
	int set = epoll_create1(0);
	CHECK(!control(set, EPOLL_CTL_ADD, listener, EPOLLIN, LISTENER));
	for (int i = 0; i < 2; i++) {
		workers[i].set = set;
		CHECK(!pipe(workers[i].go));
		CHECK(!pthread_create(&workers[i].thread, NULL, works, &workers[i]));
	}
	usleep(100000);
	CHECK(!control(set, EPOLL_CTL_ADD, stream, EPOLLOUT | EPOLLONESHOT, STREAM));
	until_told(workers, 1);
	usleep(50000);
	CHECK(told(workers) == 1);
	CHECK(!control(set, EPOLL_CTL_MOD, stream, EPOLLOUT | EPOLLONESHOT, STREAM));
	until_told(workers, 2);
	for (int i = 0; i < 2; i++) {
		CHECK(write(workers[i].go[1], "g", 1) == 1);
		CHECK(!pthread_join(workers[i].thread, NULL));
		close(workers[i].go[0]);
		close(workers[i].go[1]);
	}
	CHECK(!close(set));
}

/* Where there is room for one event only, all have their turn. */
static void turns(int set, int *ends)
{
	int of_pipe = 0, of_stream = 0;
	char byte;
	CHECK(write(ends[1], "p", 1) == 1);
	for (int i = 0; i < 40; i++) {
		struct epoll_event event;
		CHECK(epoll_wait(set, &event, 1, LONG) == 1);
		of_pipe += event.data.u64 == PIPE;
		of_stream += event.data.u64 == STREAM;
	}
	CHECK(of_pipe >= 10 && of_stream >= 10 && of_pipe + of_stream == 40);
	CHECK(read(ends[0], &byte, 1) == 1);
}

static int waited_for[2];

static void *waits_in_epoll(void *unused)
{
	struct epoll_event event;
	(void)unused;
	epoll_wait(waited_for[0], &event, 1, -1);
	return NULL;
}

static void *waits_in_select(void *unused)
{
	fd_set reads;
	(void)unused;
	FD_ZERO(&reads);
	FD_SET(waited_for[1], &reads);
	select(waited_for[1] + 1, &reads, NULL, NULL, NULL);
	return NULL;
}

static void *waits_in_poll(void *unused)
{
	struct pollfd polled = { waited_for[1], POLLIN, 0 };
	(void)unused;
	poll(&polled, 1, LONG);
	return NULL;
}

/* A thread that waits may be cancelled, and nothing is spoilt. */
static void cancelled(int listener)
{
	void *(*ways[])(void *) = { waits_in_epoll, waits_in_select, waits_in_poll };
	waited_for[0] = epoll_create1(0);
	waited_for[1] = listener;
	CHECK(!control(waited_for[0], EPOLL_CTL_ADD, listener, EPOLLIN, LISTENER));
	for (int i = 0; i < 12; i++) {
		pthread_t thread;
		void *result;
		CHECK(!pthread_create(&thread, NULL, ways[i % 3], NULL));
		usleep(i / 3 * 5000);
		CHECK(!pthread_cancel(thread));
		CHECK(!pthread_join(thread, &result) && result == PTHREAD_CANCELED);
	}
	nothing(waited_for[0]);
	CHECK(!close(waited_for[0]));
}

/* Flags that are given at once, or by another call. */
static void flags(int set)
{
	int no = 0, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0 && fcntl(fd, F_GETFL) & O_NONBLOCK && fcntl(fd, F_GETFD) == FD_CLOEXEC);
	CHECK(!ioctl(fd, FIONBIO, &no) && !(fcntl(fd, F_GETFL) & O_NONBLOCK));
	CHECK(control(set, EPOLL_CTL_MOD, fd, EPOLLIN, 0) && errno == ENOENT);
	CHECK(control(set, EPOLL_CTL_DEL, fd, 0, 0) && errno == ENOENT);
	CHECK(!close(fd));
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

	flags(set);
	cancelled(listener);

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
	turns(set, ends);
	two_workers(listener, *stream);

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
	int told = 0;
	for (double began = seconds(); seconds() - began < 0.1;) {
		struct epoll_event found;
		told += epoll_wait(set, &found, 1, 100) == 1;
	}
	CHECK(told < 50);
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
