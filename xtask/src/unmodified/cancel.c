/* Threads that wait in a call of the library, or for a descriptor, and are cancelled there, as
 * programs end threads that wait for events. What they waited for still works afterwards. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <infiniband/verbs.h>

/* Longer than anything takes, in seconds. */
#define LONG 20

/* What must be so is so, or the program ends. */
#define must(what) do { if (!(what)) { \
	fprintf(stderr, "cancel: line %d: not %s, errno %d\n", __LINE__, #what, errno); exit(3); } } while (0)

static struct ibv_context *context;
static struct ibv_comp_channel *channel;
static int ends[2];
/* A command of the connection manager's: the next event. */
static int manager;
static volatile int waits;

static void *reads(void *unused)
{
	char byte;
	(void)unused;
	waits = 1;
	must(read(ends[0], &byte, 1) == 1);
	return NULL;
}

static void *gets_completion(void *unused)
{
	struct ibv_cq *cq;
	void *of;
	(void)unused;
	waits = 1;
	must(!ibv_get_cq_event(channel, &cq, &of));
	return NULL;
}

static void *gets_event(void *unused)
{
	struct ibv_async_event event;
	(void)unused;
	waits = 1;
	must(!ibv_get_async_event(context, &event));
	return NULL;
}

/* As librdmacm asks for an event (rdma_user_cm.h): command 12. */
static ssize_t ask(void)
{
	static char room[1024];
	struct {
		uint32_t command;
		uint16_t in, out;
		uint64_t response;
	} asked = { 12, 8, sizeof(room), (uintptr_t)room };
	return write(manager, &asked, sizeof(asked));
}

static void *gets_word(void *unused)
{
	(void)unused;
	waits = 1;
	must(ask() == sizeof(uint64_t) * 2);
	return NULL;
}

/* Cancels a thread that waits there, in the middle of it and at its beginning. */
static void cancelled(const char *name, void *(*what)(void *))
{
	for (int turn = 0; turn < 20; turn++) {
		struct timespec limit, rest = { 0, turn % 4 * 3000000 };
		pthread_t thread;
		void *result;
		waits = 0;
		must(!pthread_create(&thread, NULL, what, NULL));
		while (!waits)
			usleep(100);
		nanosleep(&rest, NULL);
		must(!pthread_cancel(thread));
		must(!clock_gettime(CLOCK_REALTIME, &limit));
		limit.tv_sec += LONG;
		if (pthread_timedjoin_np(thread, &result, &limit)) {
			fprintf(stderr, "cancel: the thread does not end: %s\n", name);
			exit(3);
		}
		must(result == PTHREAD_CANCELED);
	}
	printf("%s\n", name);
	fflush(stdout);
}

static void do_not_block(int fd)
{
	must(!fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK));
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_async_event event;
	struct ibv_cq *cq, *of;
	void *data;
	must(list && list[0]);
	must(context = ibv_open_device(list[0]));
	ibv_free_device_list(list);
	must(channel = ibv_create_comp_channel(context));
	must(cq = ibv_create_cq(context, 8, NULL, channel, 0));
	must(!ibv_req_notify_cq(cq, 0));
	must(!pipe(ends));
	must((manager = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC)) >= 0);

	cancelled("read", reads);
	cancelled("ibv_get_cq_event", gets_completion);
	cancelled("ibv_get_async_event", gets_event);
	cancelled("an event of the connection manager", gets_word);

	/* Nothing was taken, and no lock is held. */
	do_not_block(channel->fd);
	do_not_block(context->async_fd);
	do_not_block(manager);
	must(ibv_get_cq_event(channel, &of, &data) && errno == EAGAIN);
	must(ibv_get_async_event(context, &event) && errno == EAGAIN);
	must(ask() < 0 && errno == EAGAIN);
	must(!close(manager));
	must(!ibv_destroy_cq(cq));
	must(!ibv_destroy_comp_channel(channel));
	must(!ibv_close_device(context));
	return 0;
}
