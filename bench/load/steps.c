/*
 * Counts the instructions that one thread of another process needs for a request: `steps TID PORT TIMES`.
 *
 * Sends a GET over one connection, TIMES times, one after the other, and steps the thread from the moment when the request is in
 * its socket until it waits for events again and the response is here. Prints the instructions of each request, one per line.
 * Only instructions in user space are steps; `rep` prefixes count each repetition. Linux on x86_64.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static const char REQUEST[] = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";

static pid_t thread;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

/* Has the thread and this process share a processor: a step then takes a fifth, because no processor has to wake another. */
static void share_a_processor(void) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    if (sched_setaffinity(thread, sizeof one, &one) < 0 || sched_setaffinity(0, sizeof one, &one) < 0) fail("steps: sched_setaffinity");
}

/* Waits until the thread stops, and gives back the signal that the thread is to get, if any. */
static int stopped(void) {
    int status;
    if (waitpid(thread, &status, __WALL) < 0) fail("steps: waitpid");
    if (!WIFSTOPPED(status)) {
        fprintf(stderr, "steps: the thread has ended\n");
        exit(1);
    }
    int signal = WSTOPSIG(status);
    return status >> 16 || signal == SIGTRAP ? 0 : signal;
}

/* Whether the next instruction waits for events. */
static int waits_for_events(void) {
    struct user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, thread, 0, &registers) < 0) fail("steps: PTRACE_GETREGS");
    if (registers.rax != SYS_epoll_wait && registers.rax != SYS_epoll_pwait && registers.rax != SYS_epoll_pwait2) return 0;
    unsigned char code[2];
    struct iovec here = {code, sizeof code}, there = {(void *)registers.rip, sizeof code};
    return process_vm_readv(thread, &here, 1, &there, 1, 0) == 2 && code[0] == 0x0f && code[1] == 0x05;
}

/* The instructions up to the next wait for events. */
static unsigned long turn(void) {
    unsigned long steps = 0;
    int signal = 0;
    do {
        if (ptrace(PTRACE_SINGLESTEP, thread, 0, signal) < 0) fail("steps: PTRACE_SINGLESTEP");
        signal = stopped();
        steps++;
    } while (!waits_for_events());
    return steps;
}

/* Takes the response if it is here as a whole. */
static int takes_response(int client) {
    static char response[65536];
    ssize_t count = recv(client, response, sizeof response - 1, MSG_PEEK | MSG_DONTWAIT);
    if (count < 0 && errno == EAGAIN) return 0;
    if (count <= 0) fail("steps: the connection");
    response[count] = 0;
    const char *end = strstr(response, "\r\n\r\n"), *length = strcasestr(response, "\r\ncontent-length:");
    if (!end) return 0;
    if (strncmp(response, "HTTP/1.1 200", 12) != 0 || !length) {
        fprintf(stderr, "steps: expected a response 200 with Content-Length, got: %s\n", response);
        exit(1);
    }
    ssize_t whole = end + 4 - response + strtol(length + 17, NULL, 10);
    return count >= whole && recv(client, response, whole, MSG_DONTWAIT) == whole;
}

int main(int count, char **arguments) {
    if (count != 4) {
        fprintf(stderr, "usage: steps TID PORT TIMES\n");
        return 2;
    }
    thread = atoi(arguments[1]);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(arguments[2]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int client = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(client, (struct sockaddr *)&address, sizeof address) < 0) fail("steps: connect");

    share_a_processor();
    if (ptrace(PTRACE_SEIZE, thread, 0, 0) < 0) fail("steps: PTRACE_SEIZE");
    for (int left = atoi(arguments[3]); left > 0; left--) {
        /* Its timers have their turn meanwhile: at this speed the next one is not due before the end of a short request. */
        usleep(20000);
        if (ptrace(PTRACE_INTERRUPT, thread, 0, 0) < 0) fail("steps: PTRACE_INTERRUPT");
        stopped();
        turn();
        if (write(client, REQUEST, sizeof REQUEST - 1) < 0) fail("steps: write");
        unsigned long steps = 0;
        do steps += turn();
        while (!takes_response(client));
        printf("%lu\n", steps);
        if (ptrace(PTRACE_CONT, thread, 0, 0) < 0) fail("steps: PTRACE_CONT");
    }
    return 0;
}
