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

static int used, xid;
int nvmlInit_v2(void) { used = 0; xid = 79; return OK; }
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
		if (f[i].id == 138 && f[i].scope == ~0u) { f[i].code = 0; f[i].kind = 3; f[i].v.ull = 4096; }
		if (f[i].id == 143) { f[i].code = 0; f[i].kind = 1; f[i].v.u = 2; }
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
int nvmlDeviceGetMinorNumber(device d, unsigned *n) { WHOLE(d); *n = 5; return OK; }
int nvmlDeviceGetGpuInstanceId(device d, unsigned *id) { CHECK(d); *id = 1; return OK; }

typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } pci;
typedef struct { unsigned version, supported; } gpm_support;
typedef struct { unsigned id; int code; double value; struct { char *s, *l, *u; } info; } gpm_metric;
typedef struct { unsigned version, n; void *one, *two; gpm_metric m[210]; } gpm_get;
typedef struct { device d; unsigned long long type, data; unsigned gi, ci; } event;
static int buffers[8], taken[8], set;

int nvmlDeviceGetPciInfo_v3(device d, pci *p) { CHECK(d); strcpy(p->legacy, "0000:3B:00.0"); p->bus = 0x3b; strcpy(p->bus_id, "00000000:3B:00.0"); return OK; }
int nvmlDeviceGetEncoderUtilization(device d, unsigned *percent, unsigned *us) { WHOLE(d); *percent = 12; *us = 167000; return OK; }
int nvmlDeviceGetDecoderUtilization(device d, unsigned *percent, unsigned *us) { WHOLE(d); *percent = 34; *us = 167000; return OK; }
int nvmlGpmQueryDeviceSupport(device d, gpm_support *s) { WHOLE(d); if (s->version != 1) return 25; s->supported = 1; return OK; }
int nvmlGpmSampleAlloc(void **s) { if (used == 8) return 20; *s = &buffers[used++]; return OK; }
int nvmlGpmSampleFree(void *s) { (void)s; return OK; }
static int take(void *s, int what) { long i = (int *)s - buffers; if (i < 0 || i >= used) return 2; taken[i] = what; return OK; }
int nvmlGpmSampleGet(device d, void *s) { WHOLE(d); return take(s, 1); }
int nvmlGpmMigSampleGet(device d, unsigned gi, void *s) { WHOLE(d); if (gi != 1) return 2; return take(s, 2); }
int nvmlGpmMetricsGet(gpm_get *g) {
	if (g->version != 1) return 25;
	long a = (int *)g->one - buffers, b = (int *)g->two - buffers;
	if (a < 0 || b < 0 || a >= used || b >= used || a == b || taken[a] != taken[b]) return 2;
	for (unsigned i = 0; i < g->n; i++) {
		g->m[i].code = 0;
		switch (g->m[i].id) {
		case 5: g->m[i].value = 62.5; break;
		case 20: g->m[i].value = 3; break;
		default: g->m[i].code = 3; g->m[i].value = -1;
		}
	}
	return OK;
}
int nvmlEventSetCreate(void **s) { *s = &set; return OK; }
int nvmlEventSetFree(void *s) { return s == &set ? OK : 2; }
int nvmlDeviceRegisterEvents(device d, unsigned long long types, void *s) { WHOLE(d); if (s != &set || types != 8) return 2; return OK; }
int nvmlEventSetWait_v2(void *s, event *e, unsigned ms) {
	if (s != &set || ms) return 2;
	if (!xid) return 10;
	e->d = (device)&whole; e->type = 8; e->data = xid; e->gi = e->ci = ~0u; xid = 0;
	return OK;
}
