// A driver library without a driver, for the test of our calls: it checks the order and
// the values of the arguments, and its kernel takes a microsecond for each 1,000 turns.
// Signatures as in cuda.h (NVIDIA CUDA driver API).
#include <stdint.h>
#include <string.h>
#include <time.h>

static int current, launched;
static double now, before_ms, after_ms;
enum { CTX = 0x11, MOD = 0x22, FN = 0x33, STREAM = 0x44, EV1 = 0x55, EV2 = 0x66, MEM = 0x77 };
#define CHECK(x) do { if (!(x)) return 1; } while (0)

int cuInit(unsigned flags) { return flags != 0; }
int cuDeviceGetCount(int *n) { *n = 2; return 0; }
int cuDeviceGet(int *d, int i) { *d = 70 + i; return 0; }
int cuDeviceGetName(char *s, int len, int d) { strncpy(s, d == 70 ? "Fake GPU" : "Other GPU", len); return 0; }
int cuDeviceGetAttribute(int *v, int attr, int d) { CHECK(attr == 16 && d >= 70); *v = 13; return 0; }
int cuDevicePrimaryCtxSetFlags_v2(int d, unsigned f) { CHECK(d >= 70 && f == 4); return 0; }
int cuDevicePrimaryCtxRetain(void **c, int d) { CHECK(d >= 70); *c = (void *)CTX; return 0; }
int cuDevicePrimaryCtxRelease_v2(int d) { CHECK(d >= 70 && current); return 0; }
int cuCtxSetCurrent(void *c) { CHECK(c == (void *)CTX); current = 1; return 0; }
int cuModuleLoadData(void **m, const void *text) { CHECK(strstr(text, ".entry reckon_spin(")); *m = (void *)MOD; return 0; }
int cuModuleUnload(void *m) { CHECK(m == (void *)MOD); return 0; }
int cuModuleGetFunction(void **f, void *m, const char *name) { CHECK(m == (void *)MOD && !strcmp(name, "reckon_spin")); *f = (void *)FN; return 0; }
int cuStreamCreate(void **s, unsigned flags) { CHECK(flags == 1); *s = (void *)STREAM; return 0; }
int cuStreamDestroy_v2(void *s) { CHECK(s == (void *)STREAM); return 0; }
int cuEventCreate(void **e, unsigned flags) { static int n; CHECK(flags == 1); *e = n++ % 2 ? (void *)EV2 : (void *)EV1; return 0; }
int cuEventDestroy_v2(void *e) { CHECK(e == (void *)EV1 || e == (void *)EV2); return 0; }
int cuEventRecord(void *e, void *s) { CHECK(s == (void *)STREAM); *(e == (void *)EV1 ? &before_ms : &after_ms) = now; return 0; }
int cuEventSynchronize(void *e) { CHECK(e == (void *)EV2); return 0; }
int cuEventElapsedTime(float *ms, void *a, void *b) { CHECK(a == (void *)EV1 && b == (void *)EV2); *ms = after_ms - before_ms; return 0; }
int cuMemAlloc_v2(uint64_t *p, size_t n) { CHECK(n == 4); *p = MEM; return 0; }
int cuMemFree_v2(uint64_t p) { CHECK(p == MEM); return 0; }
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *s, void **params, void **extra) {
	CHECK(f == (void *)FN && gx == 13 && gy == 1 && gz == 1 && bx == 256 && by == 1 && bz == 1 && shared == 0 && s == (void *)STREAM && extra == 0);
	CHECK(*(uint64_t *)params[1] == MEM);
	uint64_t turns = *(uint64_t *)params[0];
	if (turns == 13) return 719; // CUDA_ERROR_LAUNCH_FAILED
	struct timespec d = { 0, (long)turns };
	nanosleep(&d, 0);
	now += (double)turns / 1e6;
	launched++;
	return 0;
}
int cuGetErrorName(int code, const char **s) { *s = code == 719 ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR_INVALID_VALUE"; return 0; }
