// Changes the wall clock of one process.
//
// Build it with `cc -shared -fPIC` and name the result in LD_PRELOAD. CLOCK_RATE is the rate above the real clock, as a
// share: 0.02 is a clock that runs 2 % fast, -0.02 one that runs 2 % slow, and -1 one that stands still. The clock is
// right when the process starts. CLOCK_FILE names a file with one double, which can be changed at any time: the seconds
// by which the clock is set forward in addition. All other clocks of the process are real.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static double rate;
static long long start;
static volatile const double *ahead;

static long long real(void) {
  struct timespec now;
  syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
  return now.tv_sec * SECOND + now.tv_nsec;
}

static long long wrong(void) {
  long long now = real();
  return now + (long long)((now - start) * rate) + (ahead ? (long long)(*ahead * SECOND) : 0);
}

__attribute__((constructor)) static void load(void) {
  const char *text = getenv("CLOCK_RATE");
  start = real();
  rate = text ? atof(text) : 0;
  const char *name = getenv("CLOCK_FILE");
  int file = name ? open(name, O_RDONLY) : -1;
  if (file < 0) return;
  void *memory = mmap(0, sizeof(double), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (memory != MAP_FAILED) ahead = memory;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) return syscall(SYS_clock_gettime, clock, time);
  long long now = wrong();
  time->tv_sec = now / SECOND;
  time->tv_nsec = now % SECOND;
  return 0;
}

int gettimeofday(struct timeval *time, void *zone) {
  (void)zone;
  long long now = wrong();
  time->tv_sec = now / SECOND;
  time->tv_usec = now % SECOND / 1000;
  return 0;
}

time_t time(time_t *seconds) {
  time_t now = wrong() / SECOND;
  if (seconds) *seconds = now;
  return now;
}
