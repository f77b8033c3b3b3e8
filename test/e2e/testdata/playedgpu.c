/* A played GPU, for a machine that has none: one library with the names of NVIDIA's driver
 * (libcuda.so.1, what `reckon stress --gpu` computes with) and of its management library
 * (libnvidia-ml.so.1, what the agent reads). Both sides share the file that PLAYED_GPU names:
 *
 *   word 0   nanoseconds that kernels have run
 *   word 1   pid that ran the last one
 *
 *   cc -shared -fPIC -o libcuda.so.1 playedgpu.c && cp libcuda.so.1 libnvidia-ml.so.1
 *
 * A kernel takes a microsecond for each 1,000 turns. Signatures after the reference manuals of the
 * CUDA driver API and of NVML; none of their text is here. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static volatile uint64_t *shared;

static int attach(void) {
	if (shared) return 0;
	const char *name = getenv("PLAYED_GPU");
	int fd = name ? open(name, O_RDWR) : -1;
	if (fd < 0) return 1;
	void *p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (p == MAP_FAILED) return 1;
	shared = p;
	return 0;
}

static uint64_t clock_ns(int id) {
	struct timespec t;
	clock_gettime(id, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* The driver. */
static double now, before_ms, after_ms;
enum { CTX = 0x11, MOD = 0x22, FN = 0x33, STREAM = 0x44, EV1 = 0x55, EV2 = 0x66, MEM = 0x77 };

int cuInit(unsigned flags) { (void)flags; return attach() ? 100 : 0; }
int cuDeviceGetCount(int *n) { *n = 1; return 0; }
int cuDeviceGet(int *d, int i) { *d = i; return 0; }
int cuDeviceGetName(char *s, int len, int d) { (void)d; strncpy(s, "Played GPU", len); return 0; }
int cuDeviceGetAttribute(int *v, int attr, int d) { (void)attr; (void)d; *v = 13; return 0; }
int cuDevicePrimaryCtxSetFlags_v2(int d, unsigned f) { (void)d; (void)f; return 0; }
int cuDevicePrimaryCtxRetain(void **c, int d) { (void)d; *c = (void *)CTX; return 0; }
int cuDevicePrimaryCtxRelease_v2(int d) { (void)d; return 0; }
int cuCtxSetCurrent(void *c) { (void)c; return 0; }
int cuModuleLoadData(void **m, const void *text) { (void)text; *m = (void *)MOD; return 0; }
int cuModuleUnload(void *m) { (void)m; return 0; }
int cuModuleGetFunction(void **f, void *m, const char *name) { (void)m; (void)name; *f = (void *)FN; return 0; }
int cuStreamCreate(void **s, unsigned flags) { (void)flags; *s = (void *)STREAM; return 0; }
int cuStreamDestroy_v2(void *s) { (void)s; return 0; }
int cuEventCreate(void **e, unsigned flags) { static int n; (void)flags; *e = n++ % 2 ? (void *)EV2 : (void *)EV1; return 0; }
int cuEventDestroy_v2(void *e) { (void)e; return 0; }
int cuEventRecord(void *e, void *s) { (void)s; *(e == (void *)EV1 ? &before_ms : &after_ms) = now; return 0; }
int cuEventSynchronize(void *e) { (void)e; return 0; }
int cuEventElapsedTime(float *ms, void *a, void *b) { (void)a; (void)b; *ms = after_ms - before_ms; return 0; }
int cuMemAlloc_v2(uint64_t *p, size_t n) { (void)n; *p = MEM; return 0; }
int cuMemFree_v2(uint64_t p) { (void)p; return 0; }
int cuGetErrorName(int code, const char **s) { *s = code == 100 ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_INVALID_VALUE"; return 0; }

int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned mem, void *s, void **params, void **extra) {
	(void)f; (void)gx; (void)gy; (void)gz; (void)bx; (void)by; (void)bz; (void)mem; (void)s; (void)extra;
	uint64_t turns = *(uint64_t *)params[0], began = clock_ns(CLOCK_MONOTONIC);
	struct timespec d = { turns / 1000000000, turns % 1000000000 };
	nanosleep(&d, 0);
	uint64_t took = clock_ns(CLOCK_MONOTONIC) - began;
	now += took / 1e6;
	__sync_fetch_and_add(&shared[0], took);
	shared[1] = getpid();
	return 0;
}

/* The management library. */
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } process;
typedef struct { unsigned pid; unsigned long long at; unsigned sm, mem, enc, dec; } use;
typedef struct { unsigned long long at, value; } sample;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory;
typedef struct { unsigned gpu, memory; } utilization;
static int gpu;

/* The share of the time since the call before in which kernels ran, in percent; a slot for each kind of question. */
static unsigned busy(int slot) {
	static uint64_t ran[2], at[2];
	static unsigned last[2];
	uint64_t r = shared[0], t = clock_ns(CLOCK_MONOTONIC);
	if (t - at[slot] > 1000000) {
		last[slot] = at[slot] ? (unsigned)(100.0 * (r - ran[slot]) / (t - at[slot]) + 0.5) : 0;
		ran[slot] = r; at[slot] = t;
	}
	return last[slot] > 100 ? 100 : last[slot];
}

int nvmlInit_v2(void) { return attach() ? 9 : 0; }
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char *s, unsigned n) { strncpy(s, "580.1", n); return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { if (i) return 2; *d = &gpu; return 0; }
int nvmlDeviceGetUUID(void *d, char *s, unsigned n) { (void)d; strncpy(s, "GPU-played", n); return 0; }
int nvmlDeviceGetName(void *d, char *s, unsigned n) { (void)d; strncpy(s, "Played GPU", n); return 0; }
int nvmlDeviceGetUtilizationRates(void *d, utilization *u) { (void)d; u->gpu = busy(0); u->memory = 0; return 0; }
int nvmlDeviceGetSamples(void *d, int kind, unsigned long long since, int *type, unsigned *n, sample *s) {
	(void)d;
	if (kind != 1) return 3;
	if (*n < 1) return 2;
	*type = 1; *n = 1; s->at = clock_ns(CLOCK_REALTIME) / 1000; s->value = busy(0);
	return s->at > since ? 0 : 6;
}
int nvmlDeviceGetMemoryInfo_v2(void *d, memory *m) { (void)d; m->total = 80ull << 30; m->reserved = 0; m->used = 1ull << 30; m->free = m->total - m->used; return 0; }
int nvmlDeviceGetClockInfo(void *d, int kind, unsigned *mhz) { (void)d; (void)kind; *mhz = 1500; return 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, process *p) {
	(void)d;
	if (!shared[1]) { *n = 0; return 0; }
	if (*n < 1) { *n = 1; return 7; }
	*n = 1; p->pid = shared[1]; p->used = 1ull << 29; p->gi = p->ci = ~0u;
	return 0;
}
int nvmlDeviceGetProcessUtilization(void *d, use *u, unsigned *n, unsigned long long since) {
	(void)d;
	unsigned long long at = clock_ns(CLOCK_REALTIME) / 1000;
	if (!shared[1] || at <= since) { *n = 0; return 6; }
	if (*n < 1) { *n = 1; return 7; }
	*n = 1; u->pid = shared[1]; u->at = at; u->sm = busy(1); u->mem = u->enc = u->dec = 0;
	return 0;
}
