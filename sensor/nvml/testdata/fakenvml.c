/* A library with the names and types of NVIDIA's management library and made-up answers,
 * to hold our calls against a C compiler's idea of them (TestABI):
 *
 *   cc -shared -fPIC -o testdata/libfakenvml.so testdata/fakenvml.c
 *
 * The types are written after the reference manual of NVML; none of its text is here. */
#include <string.h>

typedef struct { int n; } *device;
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } process;
typedef struct { unsigned pid; unsigned long long at; unsigned sm, mem, enc, dec; } use;
typedef union { double d; int i; unsigned u; unsigned long ul; unsigned long long ull; long long ll; unsigned short us; } value;
typedef struct { unsigned long long at; value v; } sample;
typedef struct { unsigned id, scope; long long at, latency; int kind, code; value v; } field;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory;
typedef struct { unsigned gpu, memory; } utilization;

static struct { int n; } whole = { 0 }, part = { 1 };
#define OK 0
static int known(device d) { return (void *)d == &whole || (void *)d == &part; }
#define CHECK(d) if (!known(d)) return 2
#define WHOLE(d) CHECK(d); if ((void *)d != &whole) return 3

int nvmlInit_v2(void) { return OK; }
int nvmlShutdown(void) { return OK; }
int nvmlSystemGetDriverVersion(char *s, unsigned n) { strncpy(s, "580.1", n); return OK; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 1; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, device *d) { if (i) return 2; *d = (device)&whole; return OK; }
int nvmlDeviceGetUUID(device d, char *s, unsigned n) { CHECK(d); strncpy(s, (void *)d == &whole ? "GPU-abi" : "MIG-abi", n); return OK; }
int nvmlDeviceGetName(device d, char *s, unsigned n) { CHECK(d); strncpy(s, "Fake GPU", n); return OK; }
int nvmlDeviceGetUtilizationRates(device d, utilization *u) { WHOLE(d); u->gpu = 37; u->memory = 11; return OK; }
int nvmlDeviceGetSamples(device d, int kind, unsigned long long since, int *type, unsigned *n, sample *s) {
	WHOLE(d);
	if (kind != 1 || since != 1000 || *n < 2) return 2;
	*type = 1; *n = 2;
	memset(s, 0, 2 * sizeof *s);
	s[0].at = 2000; s[0].v.u = 40; s[1].at = 3000; s[1].v.u = 42;
	return OK;
}
int nvmlDeviceGetMemoryInfo_v2(device d, memory *m) {
	CHECK(d);
	if (m->version != (sizeof *m | 2u << 24)) return 25;
	m->total = 80ull << 30; m->reserved = 1; m->free = 2; m->used = ((void *)d == &whole ? 3ull : 1ull) << 30;
	return OK;
}
int nvmlDeviceGetTotalEnergyConsumption(device d, unsigned long long *mj) { WHOLE(d); *mj = 9000000000ull; return OK; }
int nvmlDeviceGetPowerUsage(device d, unsigned *mw) { WHOLE(d); *mw = 123456; return OK; }
int nvmlDeviceGetEnforcedPowerLimit(device d, unsigned *mw) { WHOLE(d); *mw = 700000; return OK; }
int nvmlDeviceGetClockInfo(device d, int kind, unsigned *mhz) { WHOLE(d); *mhz = 1100 + kind; return OK; }
int nvmlDeviceGetTemperature(device d, int sensor, unsigned *t) { WHOLE(d); if (sensor) return 2; *t = 44; return OK; }
int nvmlDeviceGetCurrentClocksThrottleReasons(device d, unsigned long long *bits) { WHOLE(d); *bits = 4 | 1ull << 40; return OK; }
int nvmlDeviceGetTotalEccErrors(device d, int type, int counter, unsigned long long *n) { WHOLE(d); if (counter != 1) return 2; *n = 5 + type; return OK; }
int nvmlDeviceGetFieldValues(device d, int n, field *f) {
	WHOLE(d);
	for (int i = 0; i < n; i++) {
		f[i].code = 3;
		if (f[i].id == 82) { f[i].code = 0; f[i].kind = 1; f[i].v.u = 55; }
		if (f[i].id == 94) { f[i].code = 0; f[i].kind = 3; f[i].v.ull = 7; }
	}
	return OK;
}
int nvmlDeviceGetComputeRunningProcesses_v3(device d, unsigned *n, process *p) {
	CHECK(d);
	if (*n < 1) { *n = 1; return 7; }
	*n = 1; p->pid = 4711; p->used = 1ull << 29; p->gi = 1; p->ci = 0;
	return OK;
}
int nvmlDeviceGetGraphicsRunningProcesses_v2(device d, unsigned *n, process *p) { CHECK(d); (void)p; *n = 0; return OK; }
int nvmlDeviceGetProcessUtilization(device d, use *u, unsigned *n, unsigned long long since) {
	WHOLE(d);
	if (*n < 1) { *n = 1; return 7; }
	*n = 1; u->pid = 4711; u->at = since + 1000; u->sm = 30; u->mem = 20; u->enc = 10; u->dec = 5;
	return OK;
}
int nvmlDeviceGetMigMode(device d, unsigned *now, unsigned *next) { WHOLE(d); *now = 1; *next = 0; return OK; }
int nvmlDeviceGetMaxMigDeviceCount(device d, unsigned *n) { WHOLE(d); *n = 7; return OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(device d, unsigned i, device *m) { WHOLE(d); if (i != 2) return 6; *m = (device)&part; return OK; }
int nvmlDeviceGetGpuInstanceId(device d, unsigned *id) { CHECK(d); *id = 1; return OK; }
