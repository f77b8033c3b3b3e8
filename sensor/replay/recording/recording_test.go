package recording

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/metric"
	"reckon/sensor"
)

// fill sets every field of a struct to a different value, so that the test notices a
// field that a recording loses, including fields added later.
func fill(v any, from uint64) {
	e := reflect.ValueOf(v).Elem()
	for i := range e.NumField() {
		n := from + uint64(i) + 1
		switch f := e.Field(i); f.Kind() {
		case reflect.Int, reflect.Int32:
			f.SetInt(int64(n))
		case reflect.Uint64:
			f.SetUint(math.MaxUint64 - n)
		case reflect.Uint32:
			f.SetUint(n)
		case reflect.Uint8:
			f.SetUint('R')
		case reflect.Float64:
			f.SetFloat(float64(n) + 0.5)
		case reflect.Bool:
			f.SetBool(true)
		}
	}
}

func samplePass(k uint64) PassData {
	var p, gone sensor.Process
	fill(&p, k)
	fill(&gone, k+100)
	p.Have = sensor.FieldWait | sensor.FieldMemory | sensor.FieldCPUSplit
	gone.Have = 0
	p.Comm, gone.Comm = sensor.CommOf([]byte("a b)\n\\x41\xff\"")), sensor.CommOf([]byte("plain"))
	var m sensor.Machine
	fill(&m, k)
	var c sensor.Cgroup
	fill(&c, k)
	c.Have = sensor.CgroupCPU | sensor.CgroupPIDs
	h := &metric.Histogram{}
	h.Observe(3)
	h.Observe(float64(k))
	gauge := &metric.Desc{Name: "node_x", Help: "X.", Kind: metric.Gauge, Unit: metric.Celsius, Labels: []string{"a"}}
	hist := &metric.Desc{Name: "node_h", Kind: metric.NativeHistogram}
	session := uint32(7)
	one := metric.NewSeries(gauge, "1")
	one.Created = 5
	return PassData{
		Time:    time.Unix(1_700_000_000+int64(k), 0).UTC(),
		Tasks:   &sensor.Pass{Boot: 99 + k, Lost: 3, Joined: true, Live: []sensor.Process{p}, Exited: []sensor.Process{gone}},
		Machine: &m,
		About:   map[int32]About{1: {Cgroups: []sensor.CgroupPath{{Controllers: "cpu,cpuacct", Path: "/a b"}}, LoginSession: &session, Env: map[string]string{"SLURM_JOB_ID": "7"}}},
		Paths:   map[uint64][]sensor.CgroupPath{1 << 60: {{Path: "/x"}}},
		Users:   map[uint32]string{1000: "alice"},
		Cgroups: []Cgroup{{Paths: []sensor.CgroupPath{{Path: "/x"}}, Figures: c}},
		Sensors: []Reading{{Sensor: "hwmon", Error: "read x: y", Samples: []metric.Sample{
			{Series: one, Value: math.Inf(1), Last: true},
			{Series: metric.NewSeries(gauge, "2"), Value: 0},
			{Series: metric.NewSeries(hist), Histogram: h},
		}}},
		Errors: map[string]string{"machine": "read stat: gone"},
		Files:  []File{{Path: "proc/stat", Data: []byte("cpu 1\n")}, {Path: "sys/device", Link: "../bus/x"}, {Path: "sys/empty", Data: []byte{}}},
	}
}

func record(t testing.TB, passes ...PassData) []byte {
	t.Helper()
	var buf bytes.Buffer
	w, err := NewWriter(&buf, Meta{Node: "n1", Interval: 1, Booted: time.Unix(1_600_000_000, 0).UTC()})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range passes {
		if err := w.Pass(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func readAll(data []byte) (passes []*PassData, err error) {
	r, err := Open(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	for {
		p, err := r.Next()
		if err == io.EOF {
			return passes, nil
		}
		if err != nil {
			return passes, err
		}
		passes = append(passes, p)
	}
}

func TestRoundTrip(t *testing.T) {
	want := []PassData{samplePass(0), samplePass(1000)}
	data := record(t, want...)
	got, err := readAll(data)
	if err != nil || len(got) != 2 {
		t.Fatalf("%d passes, %v", len(got), err)
	}
	for i := range want {
		if !reflect.DeepEqual(*got[i], want[i]) {
			t.Errorf("pass %d:\n got %+v\nwant %+v\n tasks %+v\n want %+v", i, *got[i], want[i], got[i].Tasks, want[i].Tasks)
		}
	}
	if a, b := got[0].Sensors[0].Samples[0].Series, got[1].Sensors[0].Samples[0].Series; a != b {
		t.Error("the same series has another pointer in the second pass")
	}
	r, _ := Open(bytes.NewReader(data))
	if m := r.Meta(); m.Node != "n1" || m.Format != Version || m.Booted.Unix() != 1_600_000_000 || m.Recorded.IsZero() {
		t.Errorf("meta %+v", m)
	}
}

// The names in the file match doc/recording-format.md.
func TestNamesInTheFile(t *testing.T) {
	p := samplePass(0)
	data, err := encodePass(&p)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"pid":`, `"ppid":`, `"user_nanos":`, `"minor_faults":`, `"soft_irq":`, `"io_wait":`, `"oom_kills":`, `"pids":`,
		`"memory_stall_nanos":`, `"cpu_max":`, `{"controllers":"cpu,cpuacct","path":"/a b"}`, `"comm":"a b)\\x0a\\x5cx41\\xff\""`, `"have":["wait","memory","cpu_split"]`, `"value":"+Inf"`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("no %s in %s", want, data)
		}
	}
	// Every bit has a name; without one a figure would be read back as unknown.
	if n := len(bitsToNames(fieldNames, 1<<len(fieldNames)-1)); n != len(fieldNames) {
		t.Errorf("%d names for %d bits", n, len(fieldNames))
	}
	if n := len(bitsToNames(cgroupNames, 1<<len(cgroupNames)-1)); n != len(cgroupNames) {
		t.Errorf("%d names for %d cgroup bits", n, len(cgroupNames))
	}
}

// Truncated anywhere, a recording yields its complete passes and then reports that
// something is missing.
func TestTruncation(t *testing.T) {
	data := record(t, samplePass(0), samplePass(1), samplePass(2))
	step := max(1, len(data)/300)
	most := 0
	for n := 0; n < len(data)-1; n += step {
		got, err := readAll(data[:n])
		if err == nil && len(got) < 3 {
			t.Fatalf("cut at %d of %d: %d passes and no error", n, len(data), len(got))
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if len(got) < most {
			t.Fatalf("cut at %d: %d passes, but a shorter piece gave %d", n, len(got), most)
		}
		most = len(got)
	}
	if most != 3 {
		t.Errorf("the longest piece gave %d passes, want 3", most)
	}
}

type entry struct {
	name, data, link string
	kind             byte
}

func archive(entries ...entry) []byte {
	var buf bytes.Buffer
	gz := gzip.NewWriter(&buf)
	w := tar.NewWriter(gz)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Size: int64(len(e.data)), Linkname: e.link, Typeflag: e.kind, Mode: 0o644}
		if e.kind == 0 {
			h.Typeflag = tar.TypeReg
		}
		if err := w.WriteHeader(h); err != nil {
			panic(err)
		}
		io.WriteString(w, e.data)
	}
	w.Close()
	gz.Close()
	return buf.Bytes()
}

func TestHostileRecordings(t *testing.T) {
	meta := entry{name: "meta.json", data: `{"format":1,"node":"n"}`}
	end := entry{name: "pass/0000/readings.json", data: `{}`}
	for name, data := range map[string][]byte{
		"not gzip":           []byte("hello"),
		"empty":              {},
		"no tar":             gzipped("hello"),
		"no meta":            archive(end),
		"meta is no JSON":    archive(entry{name: "meta.json", data: "{"}),
		"newer":              archive(entry{name: "meta.json", data: `{"format":99}`}),
		"meta is a link":     archive(entry{name: "meta.json", link: "/etc/passwd", kind: tar.TypeSymlink}),
		"passes out of step": archive(meta, entry{name: "pass/0001/readings.json", data: `{}`}),
		"leaves the tree":    archive(meta, entry{name: "pass/0000/root/../../x", data: "x"}, end),
		"absolute":           archive(meta, entry{name: "pass/0000/root//etc/x", data: "x"}, end),
		"device":             archive(meta, entry{name: "pass/0000/root/null", kind: tar.TypeChar}, end),
		"readings no JSON":   archive(meta, entry{name: "pass/0000/readings.json", data: `[`}),
		"wrong kind":         archive(meta, entry{name: "pass/0000/readings.json", data: `{"sensors":[{"families":[{"name":"x","kind":"y","series":[{"value":1}]}]}]}`}),
		"labels and values":  archive(meta, entry{name: "pass/0000/readings.json", data: `{"sensors":[{"families":[{"name":"x","kind":"gauge","labels":["a"],"series":[{"value":1}]}]}]}`}),
		"no value":           archive(meta, entry{name: "pass/0000/readings.json", data: `{"sensors":[{"families":[{"name":"x","kind":"gauge","series":[{}]}]}]}`}),
		"number too large":   archive(meta, entry{name: "pass/0000/readings.json", data: `{"tasks":{"live":[{"figures":{"pid":99999999999}}]}}`}),
	} {
		got, err := readAll(data)
		if err == nil || len(got) != 0 {
			t.Errorf("%s: %d passes and error %v", name, len(got), err)
		} else if !errors.Is(err, ErrFormat) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: the error does not say that it is a bad recording: %v", name, err)
		}
	}
}

func gzipped(s string) []byte {
	var buf bytes.Buffer
	gz := gzip.NewWriter(&buf)
	io.WriteString(gz, s)
	gz.Close()
	return buf.Bytes()
}

func TestLimits(t *testing.T) {
	p := samplePass(0)
	p.Files = append(p.Files, File{Path: "proc/big", Data: bytes.Repeat([]byte("x"), 5000)})
	data := record(t, p)
	for name, change := range map[string]func(*Limits){
		"file":     func(l *Limits) { l.File = 4999 },
		"files":    func(l *Limits) { l.Files = 2 },
		"pass":     func(l *Limits) { l.Pass = 5000 },
		"readings": func(l *Limits) { l.Readings = 100 },
		"total":    func(l *Limits) { l.Total = 6000 },
	} {
		l := DefaultLimits()
		change(&l)
		r, err := OpenLimits(bytes.NewReader(data), l)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err = r.Next(); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
		if _, again := r.Next(); again == nil {
			t.Errorf("%s: the error did not stick", name)
		}
	}
}

func TestExtractRoot(t *testing.T) {
	second := samplePass(1)
	second.Files[0].Data = []byte("cpu 2\n")
	data := record(t, samplePass(0), second)
	dir := filepath.Join(t.TempDir(), "tree")
	if err := ExtractRoot(bytes.NewReader(data), 1, dir); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "proc/stat")); err != nil || string(got) != "cpu 2\n" {
		t.Errorf("%q, %v", got, err)
	}
	if link, err := os.Readlink(filepath.Join(dir, "sys/device")); err == nil && path.Base(link) != "x" {
		t.Errorf("link %q", link)
	}
	if err := ExtractRoot(bytes.NewReader(data), 2, dir); err == nil || !strings.Contains(err.Error(), "no pass 2") {
		t.Errorf("%v", err)
	}
}

func TestExtractStaysInside(t *testing.T) {
	top := t.TempDir()
	for i, files := range [][]File{
		{{Path: "a", Link: ".."}, {Path: "a/evil", Data: []byte("x")}},
		{{Path: "a", Link: top}, {Path: "a/evil", Data: []byte("x")}},
		{{Path: "b/c", Link: "../.."}, {Path: "b/c/evil", Data: []byte("x")}},
		{{Path: "../evil", Data: []byte("x")}},
		{{Path: "/evil", Data: []byte("x")}},
	} {
		dir := filepath.Join(top, fmt.Sprint("in", i))
		if err := WriteFiles(files, dir); err == nil {
			t.Errorf("case %d was written", i)
		}
		if _, err := os.Lstat(filepath.Join(top, "evil")); err == nil {
			t.Fatalf("case %d wrote outside of its folder", i)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add(record(f, samplePass(0)), true)
	f.Add([]byte(`{"time":"2026-01-01T00:00:00Z","tasks":{"live":[{"comm":"\\x","have":["wait"],"figures":{}}]},"machine":{}}`), false)
	f.Fuzz(func(t *testing.T, data []byte, whole bool) {
		if !whole { // the fuzzer does not get through gzip: use the bytes as readings
			data = archive(entry{name: "meta.json", data: `{"format":1}`}, entry{name: "pass/0000/readings.json", data: string(data)})
		}
		got, err := readAll(data)
		if err != nil {
			return
		}
		for _, p := range got { // a decoded pass can be written and read again
			again, err := encodePass(p)
			if err != nil {
				t.Fatalf("%v of %+v", err, p)
			}
			var d decoder
			if _, err := d.decodePass(again); err != nil {
				t.Fatalf("%v of %s", err, again)
			}
		}
	})
}

func FuzzComm(f *testing.F) {
	f.Add([]byte("a\\x00\n\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := sensor.CommOf(b)
		text, err := json.Marshal(encodeComm(c))
		if err != nil {
			t.Fatal(err)
		}
		var back string
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		if got := decodeComm(back); !slices.Equal(got.Bytes(), c.Bytes()) {
			t.Fatalf("%q came back as %q", c.Bytes(), got.Bytes())
		}
	})
}

func BenchmarkPass1000(b *testing.B) {
	p := samplePass(0)
	for range 1000 {
		p.Tasks.Live = append(p.Tasks.Live, p.Tasks.Live[0])
	}
	w, err := NewWriter(io.Discard, Meta{Node: "n"})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := w.Pass(p); err != nil {
			b.Fatal(err)
		}
	}
}
