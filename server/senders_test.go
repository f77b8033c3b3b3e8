package server

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/metric"
	"reckon/transport/instance"
	"reckon/transport/push"
	"reckon/web/client"
)

// Two machines of one name are two machines: the second is refused, keeps what it has, is
// shown, and gets the name when a person reports it. Nothing of it is added to the first.
func TestTwoMachinesOfOneName(t *testing.T) {
	s := opened(t, Config{Listen: "127.0.0.1:0", Data: filepath.Join(t.TempDir(), "data"), Receive: true, Retention: 90 * 24 * time.Hour, Version: "test"})
	url := "http://" + s.Addr()
	machine := func() *push.Pusher {
		t.Helper()
		id, err := instance.Load("", t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		p, err := push.Open(push.Config{Endpoints: []push.Endpoint{{URL: url}}, Labels: map[string]string{"node": "n1"}, QueueDir: t.TempDir(), Instance: id})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close() })
		return p
	}
	begin := time.Now().Add(-time.Minute)
	send := func(p *push.Pusher, from string, value float64) push.Status {
		t.Helper()
		b := &metric.Batch{Time: begin}
		begin = begin.Add(time.Second)
		b.Add(metric.NewSeries(&metric.Desc{Name: "reckon_sensor_up", Kind: metric.Gauge, Help: "x", Labels: []string{"sensor"}}, from), value)
		if err := p.Put(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		p.Flush(t.Context()) // tries once
		return p.Status()[0]
	}
	first, second := machine(), machine()
	if st := send(first, "first", 1); st.Queue.Records != 0 || st.Sent != 1 {
		t.Fatalf("the first: %+v", st)
	}
	st := send(second, "second", 1)
	if st.Queue.Records != 1 || st.Sent != 0 || st.Refused != 0 {
		t.Errorf("the second: %+v", st)
	}
	node := func() *client.NodeSender {
		t.Helper()
		got := s.sender("", "n1")
		if got == nil {
			t.Fatal("nobody sends")
		}
		return got
	}
	if n := node(); n.Other == nil || n.Other.Refused == 0 || !n.Other.SameMachine || n.ClockAheadSeconds > 1 || n.ClockAheadSeconds < -5 {
		t.Errorf("shown: %+v", n)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x/api/reckon/v1/nodes/replace", strings.NewReader("node=n1"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	got, err := s.InProcessClient().Do(r)
	if err != nil || got.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", got, err)
	}
	got.Body.Close()
	begin = time.Now().Add(time.Second)
	if st := send(second, "second", 1); st.Queue.Records != 0 || st.Sent != 1 || st.Refused != 1 {
		t.Errorf("the second has the name, and what it measured before is not taken: %+v", st)
	}
	if st := send(first, "first", 1); st.Queue.Records != 1 || st.Sent != 1 {
		t.Errorf("the first has it no more: %+v", st)
	}
	// Others, which do not show themselves, pass.
	plain, err := push.Open(push.Config{Endpoints: []push.Endpoint{{URL: url}}, Labels: map[string]string{"node": "n1"}, QueueDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if st := send(plain, "plain", 1); st.Sent != 1 {
		t.Errorf("without a header: %+v", st)
	}
}
