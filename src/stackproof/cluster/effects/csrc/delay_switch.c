/*
 * delay_switch NANOSECONDS HEAD_PORT NODE_PORT...
 *
 * An Ethernet switch in user space that holds back every frame of a node by a fixed time. It
 * stands in for netem where the kernel has none, and needs no device file, so that it also works
 * without rights in a user namespace: each port is an existing interface, read and written by a
 * packet socket (packet(7)).
 *
 * - A frame is due at the time at which the kernel took it from the node plus the delay, so the
 *   time that the switch needs to wake up is hidden in the delay where that is longer.
 * - Frames carry the virtio_net_hdr of PACKET_VNET_HDR: TCP segments of 64 KiB and checksums that
 *   nobody has computed yet pass through as they do through a bridge.
 * - The head's frames are not held back: they are the launcher's, not the benchmark's.
 * - A port is known by the last byte of its hosts' addresses, which `stackproof.cluster.model`
 *   gives: the node's number, 254 for the head. Nothing is learnt.
 *
 * Prints one line that begins with "ready", then runs until it is killed.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_PORTS = 33, /* the head and the most nodes */
    HEAD_BYTE = 254,
    ADDRESS_BYTE = 5, /* the last byte of the destination, which stands first in a frame */
    HEADER = sizeof(struct virtio_net_hdr),
    MAX_FRAME = 66 * 1024,
    SOCKET_BUFFER = 16 << 20,
    READ_AT_ONCE = 32,
    TRIALS = 31,
    TRIAL_NS = 50000,
    MAX_LATENESS_NS = 60000,
};
#define QUEUE_BYTES ((size_t)32 << 20) /* address space; memory only as far as it is used */

struct frame {
    long long due_ns;
    size_t length; /* of what follows, with the virtio header; 0: go on at the queue's begin */
};

/* Frames of one port in the order of arrival, one behind the other in a ring of bytes. */
struct port {
    const char *name;
    int fd;
    long long delay_ns;
    unsigned char *queue;
    size_t head, tail, frames;
    unsigned long long dropped;
};

static struct port ports[MAX_PORTS];
static int port_count;

static void die(const char *what, const char *name) {
    fprintf(stderr, "delay_switch: %s %s: %s\n", what, name, strerror(errno));
    exit(1);
}

/* Packet sockets stamp arrivals with the real-time clock, so that is the clock here. */
static long long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void set_option(const struct port *port, int level, int option, int value) {
    if (setsockopt(port->fd, level, option, &value, sizeof value) != 0)
        die("setsockopt", port->name);
}

/* The FORCE variants need a right that root in a user namespace may lack; take what is given. */
static void set_buffer(const struct port *port, int force, int plain) {
    int size = SOCKET_BUFFER;
    if (setsockopt(port->fd, SOL_SOCKET, force, &size, sizeof size) != 0)
        set_option(port, SOL_SOCKET, plain, size);
}

static void open_port(struct port *port, const char *name, long long delay_ns) {
    port->name = name;
    port->delay_ns = delay_ns;
    port->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (port->fd < 0)
        die("socket", name);
    set_option(port, SOL_PACKET, PACKET_VNET_HDR, 1);
    set_option(port, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1);
    set_option(port, SOL_SOCKET, SO_TIMESTAMPNS, 1);
    set_buffer(port, SO_RCVBUFFORCE, SO_RCVBUF);
    set_buffer(port, SO_SNDBUFFORCE, SO_SNDBUF);
    struct sockaddr_ll address = {.sll_family = AF_PACKET,
                                  .sll_protocol = htons(ETH_P_ALL),
                                  .sll_ifindex = (int)if_nametoindex(name)};
    if (address.sll_ifindex == 0 ||
        bind(port->fd, (struct sockaddr *)&address, sizeof address) != 0)
        die("bind to", name);
    /* Frames to the other hosts' addresses must be taken too. */
    struct packet_mreq all = {.mr_ifindex = address.sll_ifindex, .mr_type = PACKET_MR_PROMISC};
    if (setsockopt(port->fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all) != 0)
        die("promiscuous mode of", name);
    port->queue = mmap(NULL, QUEUE_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (port->queue == MAP_FAILED)
        die("memory for", name);
}

static struct frame *frame_at(const struct port *port, size_t offset) {
    return (struct frame *)(port->queue + offset);
}

static size_t step(size_t length) { return (sizeof(struct frame) + length + 15) & ~(size_t)15; }

/* Returns where the next frame can go, whatever its length, or NULL when the queue is full. */
static struct frame *room(struct port *port) {
    const size_t need = step(MAX_FRAME);
    if (port->frames == 0)
        port->head = port->tail = 0;
    if (port->frames > 0 && port->tail <= port->head) /* the free part lies between them */
        return port->head - port->tail > need ? frame_at(port, port->tail) : NULL;
    if (QUEUE_BYTES - port->tail > need + sizeof(struct frame))
        return frame_at(port, port->tail);
    if (port->head <= need)
        return NULL;
    frame_at(port, port->tail)->length = 0;
    port->tail = 0;
    return frame_at(port, 0);
}

static struct frame *oldest(struct port *port) {
    if (port->frames == 0)
        return NULL;
    if (frame_at(port, port->head)->length == 0)
        port->head = 0;
    return frame_at(port, port->head);
}

static long long arrival_ns(struct msghdr *message, long long now) {
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) {
            struct timespec stamp;
            memcpy(&stamp, CMSG_DATA(c), sizeof stamp);
            long long arrival = stamp.tv_sec * 1000000000LL + stamp.tv_nsec;
            /* A clock that was set in between must not hold a frame for hours. */
            return arrival > now || now - arrival > 1000000000LL ? now : arrival;
        }
    return now;
}

static void take_frames(struct port *port) {
    static unsigned char waste[MAX_FRAME];
    for (int count = 0; count < READ_AT_ONCE; count++) {
        struct frame *frame = room(port);
        union {
            struct cmsghdr align;
            char bytes[256];
        } control;
        struct iovec part = {.iov_base = frame != NULL ? (void *)(frame + 1) : waste,
                             .iov_len = MAX_FRAME};
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = &control,
                                 .msg_controllen = sizeof control};
        ssize_t length = recvmsg(port->fd, &message, MSG_TRUNC);
        if (length < 0)
            return; /* nothing there, or the interface has just gone */
        if (frame == NULL || length <= HEADER + ETHER_HDR_LEN || length > MAX_FRAME) {
            port->dropped++;
            continue;
        }
        frame->due_ns = arrival_ns(&message, now_ns()) + port->delay_ns;
        frame->length = (size_t)length;
        port->tail += step(frame->length);
        port->frames++;
    }
}

static void send_frame(const struct port *from, const struct frame *frame) {
    const unsigned char *bytes = (const unsigned char *)(frame + 1);
    const unsigned char *target = bytes + HEADER;
    int to_all = target[0] & 1;
    int only = target[ADDRESS_BYTE] == HEAD_BYTE ? 0 : target[ADDRESS_BYTE];
    for (int i = 0; i < port_count; i++) {
        if (&ports[i] == from || (!to_all && i != only))
            continue;
        /* A port whose queue is full drops the frame, as any switch does. */
        if (write(ports[i].fd, bytes, frame->length) < 0)
            ports[i].dropped++;
    }
}

/* Sends what is due; returns when the next frame is, or -1 when there is none. */
static long long send_due(void) {
    long long next = -1;
    for (int i = 0; i < port_count; i++) {
        struct port *port = &ports[i];
        struct frame *frame;
        while ((frame = oldest(port)) != NULL && frame->due_ns <= now_ns()) {
            send_frame(port, frame);
            port->head += step(frame->length);
            port->frames--;
        }
        if (frame != NULL && (next < 0 || frame->due_ns < next))
            next = frame->due_ns;
    }
    return next;
}

static int by_value(const void *a, const void *b) {
    long long x = *(const long long *)a, y = *(const long long *)b;
    return (x > y) - (x < y);
}

/*
 * Returns how late a timer wakes this process up on this machine: tens of microseconds in a
 * virtual machine. The switch wakes up that much earlier and waits for the rest without sleeping.
 */
static long long timer_lateness_ns(void) {
    long long late[TRIALS];
    for (int i = 0; i < TRIALS; i++) {
        struct timespec wait = {.tv_nsec = TRIAL_NS};
        long long begin = now_ns();
        ppoll(NULL, 0, &wait, NULL);
        late[i] = now_ns() - begin - TRIAL_NS;
    }
    qsort(late, TRIALS, sizeof late[0], by_value);
    long long usual = late[TRIALS * 3 / 4];
    return usual < 0 ? 0 : usual > MAX_LATENESS_NS ? MAX_LATENESS_NS : usual;
}

int main(int count, char **words) {
    if (count < 4 || count - 2 > MAX_PORTS) {
        fprintf(stderr, "usage: delay_switch NANOSECONDS HEAD_PORT NODE_PORT...\n");
        return 2;
    }
    long long delay = strtoll(words[1], NULL, 10);
    port_count = count - 2;
    for (int i = 0; i < port_count; i++)
        open_port(&ports[i], words[i + 2], i == 0 ? 0 : delay);
    prctl(PR_SET_TIMERSLACK, 1UL);
    struct sched_param priority = {.sched_priority = 10};
    int real_time = sched_setscheduler(0, SCHED_FIFO, &priority) == 0;
    const long long lateness = timer_lateness_ns();
    printf("ready %s, timer %lld ns late\n", real_time ? "real-time" : "ordinary", lateness);
    fflush(stdout);

    struct pollfd watched[MAX_PORTS];
    for (int i = 0; i < port_count; i++)
        watched[i] = (struct pollfd){.fd = ports[i].fd, .events = POLLIN};
    for (;;) {
        long long next = send_due();
        long long wait = next < 0 ? 0 : next - now_ns() - lateness;
        if (wait < 0)
            wait = 0;
        struct timespec timeout = {.tv_sec = wait / 1000000000LL, .tv_nsec = wait % 1000000000LL};
        int ready = ppoll(watched, (nfds_t)port_count, next < 0 ? NULL : &timeout, NULL);
        for (int i = 0; ready > 0 && i < port_count; i++)
            if (watched[i].revents & (POLLIN | POLLERR))
                take_frames(&ports[i]);
    }
}
