package server

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/web/client"
)

const imported = `v=0.13.0,time=2023-03-01T10:00:00+00:00,host=n1,user=alice,cmd=sim,job=4711,pid=70,ppid=1,rssanonkib=1024,cputime_sec=10,epoch=0
v=0.13.0,time=2023-03-01T10:05:00+00:00,host=n1,user=alice,cmd=sim,job=4711,pid=70,ppid=1,rssanonkib=2048,cputime_sec=300,epoch=0
a line that is none
`

func file(name, text string) client.ImportFile {
	return client.ImportFile{Name: name, Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }}
}

// serveOnly runs a server without an agent until the test ends or stop is called.
func serveOnly(t *testing.T, data string) (c *client.Client, stop func()) {
	t.Helper()
	s, err := Open(t.Context(), Config{Listen: "127.0.0.1:0", Data: data, Receive: true, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	c, err = client.New("http://" + s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	return c, stop
}

func ofJob(t *testing.T, c *client.Client) string {
	t.Helper()
	list, err := c.Workloads(t.Context(), client.Filter{IDs: []string{"slurm/4711"}})
	if err != nil || len(list.Workloads) != 1 {
		t.Fatalf("%+v %v", list, err)
	}
	d, err := c.Workload(t.Context(), "slurm/4711", client.Range{})
	if err != nil || len(d.Profile) == 0 {
		t.Fatalf("%+v %v", d.Profile, err)
	}
	w := list.Workloads[0]
	return fmt.Sprint(w.Owner, w.Nodes, w.Start.Unix(), w.WallSeconds, *w.CPUSeconds, *w.MemoryPeakBytes)
}

// History of years ago goes into a running server and is there after it was restarted;
// into a directory without a server the same comes out. The second time adds nothing.
func TestImport(t *testing.T) {
	const want = "alice[n1]1677664800 300 300 2.097152e+06"
	dir := filepath.Join(t.TempDir(), "on")
	c, stop := serveOnly(t, dir)
	for i, taken := range []int{2, 0} {
		r, err := c.Import(t.Context(), client.ImportOptions{Format: "sonar"}, []client.ImportFile{file("a.csv", imported), file("empty", "")})
		if err != nil || r.Taken != taken || r.Known != 2-taken || r.Files != 2 || r.BadCount != 1 || r.Bad[0].File != "a.csv" || r.Bad[0].Line != 3 {
			t.Fatalf("import %d: %+v %v", i, r, err)
		}
		if got := strings.ReplaceAll(ofJob(t, c), "] ", "]"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	stop()
	c, stop = serveOnly(t, dir)
	if got := strings.ReplaceAll(ofJob(t, c), "] ", "]"); got != want {
		t.Errorf("restarted: %s, want %s", got, want)
	}
	stop()

	off := filepath.Join(t.TempDir(), "off")
	for i, taken := range []int{2, 0} {
		r, err := ImportFiles(t.Context(), off, nil, client.ImportOptions{Format: "sonar"}, []client.ImportFile{file("a.csv", imported)})
		if err != nil || r.Taken != taken {
			t.Fatalf("import %d: %+v %v", i, r, err)
		}
	}
	c, stop = serveOnly(t, off)
	defer stop()
	if got := strings.ReplaceAll(ofJob(t, c), "] ", "]"); got != want {
		t.Errorf("offline: %s, want %s", got, want)
	}
}

// What the data API of Waggle answered is there under its site and node, once.
func TestImportWaggle(t *testing.T) {
	const text = `{"timestamp":"2024-05-01T10:00:00.5Z","name":"env.temperature","value":21.5,"meta":{"node":"000048b02d05a0a4","vsn":"W023","sensor":"bme680"}}
{"timestamp":"2024-05-01T10:00:30Z","name":"env.temperature","value":22,"meta":{"node":"000048b02d05a0a4","vsn":"W023","sensor":"bme680"}}
{"timestamp":"2024-05-01T10:00:30Z","name":"env.temperature","value":22,"meta":{"node":"000048b02d05a0a4","vsn":"W023","sensor":"bme680"}}
{"timestamp":"2024-05-01T10:00:30Z","name":"upload","value":"https://storage/x.jpg","meta":{"vsn":"W023"}}
{"timestamp":"2124-05-01T10:00:30Z","name":"env.temperature","value":1,"meta":{"vsn":"W023"}}
not a measurement
`
	c, stop := serveOnly(t, filepath.Join(t.TempDir(), "d"))
	defer stop()
	for i, taken := range []int{2, 0} {
		r, err := c.Import(t.Context(), client.ImportOptions{Format: "waggle", Site: "sage"}, []client.ImportFile{file("data.json", text)})
		if err != nil || r.Taken != taken || r.Known != 3-taken || r.Records != 4 || r.Refused != 1 || r.BadCount != 2 || r.Bad[0].Line != 5 || r.Bad[1].Line != 6 {
			t.Fatalf("import %d: %+v %v", i, r, err)
		}
	}
	v, err := c.Query(t.Context(), `last_over_time(env_temperature{site="sage",node="W023",node_id="000048b02d05a0a4",sensor="bme680",source="waggle"}[1m])`, time.Date(2024, 5, 1, 10, 1, 0, 0, time.UTC))
	if got := fmt.Sprint(v); err != nil || !strings.Contains(got, "22") {
		t.Errorf("%s, %v", got, err)
	}
}

// Readings five minutes apart make a profile of steps of five minutes, without holes.
func TestProfileOfReadings(t *testing.T) {
	c, stop := serveOnly(t, filepath.Join(t.TempDir(), "d"))
	defer stop()
	var text strings.Builder
	for m := 0; m < 60; m += 5 {
		fmt.Fprintf(&text, "v=0.13.0,time=2023-03-01T10:%02d:00+00:00,host=n1,user=alice,cmd=sim,job=4711,pid=70,ppid=1,rssanonkib=%d,cputime_sec=%d,epoch=0\n", m, 1024+m, 10+60*m)
	}
	if _, err := c.Import(t.Context(), client.ImportOptions{Format: "sonar"}, []client.ImportFile{file("a.csv", text.String())}); err != nil {
		t.Fatal(err)
	}
	d, err := c.Workload(t.Context(), "slurm/4711", client.Range{})
	if err != nil || d.StepSeconds != 300 {
		t.Fatalf("step %g, %v", d.StepSeconds, err)
	}
	for _, l := range d.Profile {
		for i, p := range l.Points {
			if p.Value == nil && i > 0 && i < len(l.Points)-1 {
				t.Errorf("%s %s: no figure at %s", l.Metric, l.Node, p.Time)
			}
		}
	}
}

// Mistakes of the caller are reported as such, and nothing is left behind.
func TestImportRefused(t *testing.T) {
	c, stop := serveOnly(t, filepath.Join(t.TempDir(), "d"))
	defer stop()
	for _, x := range []struct {
		o    client.ImportOptions
		text string
	}{
		{client.ImportOptions{Format: "sonalyze"}, `nothing is imported from "sonalyze"; give sonar, sacct, waggle`},
		{client.ImportOptions{Format: "sacct", Zone: "Mars/Phobos"}, "give a name such as Europe/Oslo"},
	} {
		_, err := c.Import(t.Context(), x.o, []client.ImportFile{file("a", imported)})
		if err == nil || !strings.Contains(err.Error(), x.text) {
			t.Errorf("%+v: %v", x.o, err)
		}
	}
	_, err := c.Import(t.Context(), client.ImportOptions{Format: "sonar"}, []client.ImportFile{
		{Name: "gone", Open: func() (io.ReadCloser, error) { return nil, io.ErrUnexpectedEOF }},
	})
	if err == nil {
		t.Error("a file that cannot be opened is no error")
	}
}
