package netfs

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"reckon/sensor/netfs/nfstest"
)

// What an NFS server was asked for, and that it was asked by this mount alone, is known: the counters of the mount are those of its server.
func TestServed(t *testing.T) {
	dir := nfstest.Mounted(t, "noac,rsize=4096,wsize=4096")
	s := start(t, "")
	const reads, writes, stats, size = 300, 100, 200, 4096
	fd, err := unix.Open(dir+"/f", unix.O_RDWR|unix.O_CREAT|unix.O_DIRECT, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	buf := aligned(size)
	try := func(n int, err error) {
		t.Helper()
		if err != nil || n != size {
			t.Fatalf("%d octets, %v", n, err)
		}
	}
	before, asked := read(t, s), served(t)
	for i := range int64(writes) {
		n, err := unix.Pwrite(fd, buf, i*size)
		try(n, err)
	}
	for i := range int64(reads) {
		n, err := unix.Pread(fd, buf, i%writes*size)
		try(n, err)
	}
	for range stats {
		var st unix.Stat_t
		if err := unix.Stat(dir+"/f", &st); err != nil {
			t.Fatal(err)
		}
	}
	after, then := read(t, s), served(t)
	if err := unix.Close(fd); err != nil {
		t.Fatal(err)
	}
	grown := func(name, label, value string) float64 {
		t.Helper()
		key := fmt.Sprintf(`reckon_mount_%s{type="nfs",source=%q,%s=%q}`, name, nfstest.Source, label, value)
		if _, ok := after[key]; !ok {
			t.Fatalf("there is no %s: %v", key, after)
		}
		return after[key] - before[key]
	}
	for _, c := range []struct {
		what                string
		got, known, counted float64
	}{
		{"reads", grown("operations_total", "operation", "read"), reads, then["READ"] + then["READ_PLUS"] - asked["READ"] - asked["READ_PLUS"]},
		{"writes", grown("operations_total", "operation", "write"), writes, then["WRITE"] + then["COMMIT"] - asked["WRITE"] - asked["COMMIT"]},
		{"octets read", grown("bytes_total", "direction", "read"), reads * size, then["octets read"] - asked["octets read"]},
		{"octets written", grown("bytes_total", "direction", "write"), writes * size, then["octets written"] - asked["octets written"]},
	} {
		t.Logf("%s: %v, the server counted %v", c.what, c.got, c.counted)
		if c.got != c.known || c.counted != c.known {
			t.Errorf("%s: %v; the server counted %v, the test %v", c.what, c.got, c.counted, c.known)
		}
	}
	// A stat asks at least for the attributes of the file; what else a version of the client asks for only its server can report it.
	requests := then["requests"] - asked["requests"] - reads - writes
	metadata := grown("operations_total", "operation", "metadata")
	t.Logf("metadata: %v, the server counted %v, of these %v GETATTR", metadata, requests, then["GETATTR"]-asked["GETATTR"])
	if metadata < stats || metadata != requests {
		t.Errorf("metadata: %v operations; the server had %v requests, the test made %v", metadata, requests, stats)
	}
	for _, kind := range operations {
		if grown("operation_seconds_total", "operation", kind) <= 0 {
			t.Errorf("%s took no time", kind)
		}
	}
	for _, name := range []string{"retransmissions_total", "timeouts_total"} {
		if v, ok := after[fmt.Sprintf(`reckon_mount_%s{type="nfs",source=%q}`, name, nfstest.Source)]; !ok || v != 0 {
			t.Errorf("%s is %v (there: %t)", name, v, ok)
		}
	}
}

// served are the counts of the server: requests, octets, and the parts of requests that are of interest (fs/nfsd/stats.c, include/linux/nfs4.h).
func served(t *testing.T) map[string]float64 {
	t.Helper()
	text, err := os.ReadFile("/proc/net/rpc/nfsd")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		take := func(name string, at int) {
			var v float64
			if len(f) <= at {
				t.Fatalf("no %s in %q", name, line)
			}
			if _, err := fmt.Sscan(f[at], &v); err != nil {
				t.Fatal(err)
			}
			out[name] = v
		}
		switch f[0] {
		case "io":
			take("octets read", 1)
			take("octets written", 2)
		case "rpc":
			take("requests", 1)
		case "proc4ops": // their number, then each
			take("COMMIT", 2+5)
			take("GETATTR", 2+9)
			take("READ", 2+25)
			take("WRITE", 2+38)
			take("READ_PLUS", 2+68)
		}
	}
	return out
}

// aligned makes memory for direct reads.
func aligned(size int) []byte {
	b := make([]byte, 2*size)
	skip := (size - int(uintptr(unsafe.Pointer(&b[0])))%size) % size
	return b[skip : skip+size]
}
