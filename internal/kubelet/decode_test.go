package kubelet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
)

// podText is a pod as a kubelet writes it, about as long.
func podText(i int, phase string) string {
	var env strings.Builder
	for k := range 60 {
		fmt.Fprintf(&env, `,{"name":"SETTING_%d","value":"a \"quoted\" value } ] \\ of some length, number %d"}`, k, i)
	}
	return fmt.Sprintf(`{"metadata":{"name":"p%d","namespace":"n","uid":"u%d","labels":{"app":"many"}},`+
		`"spec":{"containers":[{"name":"main","image":"i:1","env":[{"name":"A","value":"{["}%s],"resources":{"requests":{"cpu":"100m"}}}]},`+
		`"status":{"phase":%q,"containerStatuses":[{"name":"main","containerID":"containerd://c%d","state":{"running":{}}}]}}`, i, i, env.String(), phase, i)
}

func listText(pods ...string) string {
	return `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[` + strings.Join(pods, ",\n ") + "]}\n"
}

// TestOnlyWhatChangedIsDecoded: pods with the same text as in the list before are what they were, in whatever order they come, and those
// who got them may fill in what they like.
func TestOnlyWhatChangedIsDecoded(t *testing.T) {
	a, b, c, later := podText(1, "Running"), podText(2, "Running"), podText(3, "Pending"), podText(3, "Running")
	d := new(decoder)
	for i, x := range []struct {
		list  string
		fresh int
	}{
		{listText(a, b, c), 3},
		{listText(c, a, b), 0},
		{listText(b, later, a), 1},
		{listText(later, a), 0},
		{listText(a, b), 1}, // b was not in the list before
		{listText(), 0},
		{listText(a, a), 1},
	} {
		want, err := byLibrary(x.list)
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.decode(strings.NewReader(x.list))
		if err != nil || !reflect.DeepEqual(got, want) || d.fresh != x.fresh {
			t.Errorf("list %d: %d decoded, want %d; %v\n%+v\nwant\n%+v", i, d.fresh, x.fresh, err, got, want)
		}
		for _, p := range got {
			p.UID, p.Containers[0].Before = "changed", &End{}
		}
	}
}

// TestListThatBreaksOff: pods of a list that broke off, and of the whole one before it, are known in the next.
func TestListThatBreaksOff(t *testing.T) {
	a, b, c := podText(1, "Running"), podText(2, "Running"), podText(3, "Pending")
	d := new(decoder)
	_, _ = d.decode(strings.NewReader(listText(a)))
	whole := listText(b, a, c)
	got, err := d.decode(strings.NewReader(whole[:len(whole)-20]))
	if !errors.Is(err, io.ErrUnexpectedEOF) || len(got) != 2 || d.fresh != 1 {
		t.Errorf("%d pods, %d decoded, %v", len(got), d.fresh, err)
	}
	if got, err := d.decode(strings.NewReader(whole)); err != nil || len(got) != 3 || d.fresh != 1 {
		t.Errorf("%d pods, %d decoded, %v", len(got), d.fresh, err)
	}
}

// byLibrary reads a list as encoding/json does.
func byLibrary(list string) (pods []*Pod, err error) {
	var w struct {
		Items []*wirePod `json:"items"`
	}
	err = json.Unmarshal([]byte(list), &w)
	for _, x := range w.Items {
		if x != nil && x.Metadata.UID != "" {
			pods = append(pods, x.toPod())
		}
	}
	return pods, err
}

// FuzzLists: what encoding/json takes for a list is read alike, however it arrives, and again from memory.
func FuzzLists(f *testing.F) {
	for _, text := range []string{one, listText(podText(1, "Running"), podText(2, "x")), `{"items":[ ]}`, `{"items":[{} , {"metadata":{"uid":"}\""}}]}`,
		`{"items":[{"metadata":{"uid":"a"}},]}`, `{"items":[,{}]}`, `{"items":[{}{}]}`, `{"items":[{]}]}`, `{"items":[{"a":"\\"}]}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d := new(decoder)
		got, err := d.decode(strings.NewReader(text))
		again, err2 := d.decode(iotest.OneByteReader(strings.NewReader(text)))
		if !reflect.DeepEqual(got, again) || (err == nil) != (err2 == nil) {
			t.Errorf("%q: %v, %v", text, err, err2)
		}
		if err == nil && d.fresh > 0 {
			t.Errorf("%q: %d were decoded again", text, d.fresh)
		}
		want, bad := byLibrary(text)
		if bad == nil && err == nil && strings.Count(text, `"items"`) == 1 && !reflect.DeepEqual(got, want) && len(got)+len(want) > 0 {
			t.Errorf("%q: %d pods, want %d", text, len(got), len(want))
		}
	})
}

// TestConnectionServesAgain: questions follow each other on one connection, also where the end of an answer comes late.
func TestConnectionServesAgain(t *testing.T) {
	var connections atomic.Int32
	node := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		text := listText(podText(1, "Running"))
		fmt.Fprint(w, text[:len(text)-1])
		w.(http.Flusher).Flush()
		fmt.Fprint(w, text[len(text)-1:])
	}))
	node.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	node.Start()
	defer node.Close()
	client, err := New(Config{Address: node.URL, TokenFile: write(t, t.TempDir()+"/token", "x")})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for range 5 {
		if pods, err := client.Pods(t.Context()); err != nil || len(pods) != 1 {
			t.Fatal(pods, err)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// BenchmarkDecode reads the list of 100 pods again; none has changed.
func BenchmarkDecode(b *testing.B) {
	var pods []string
	for i := range 100 {
		pods = append(pods, podText(i, "Running"))
	}
	list := listText(pods...)
	for name, d := range map[string]*decoder{"known": new(decoder), "new": nil} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(list)))
			b.ReportAllocs()
			for b.Loop() {
				d := d
				if d == nil {
					d = new(decoder)
				}
				if got, err := d.decode(strings.NewReader(list)); err != nil || len(got) != 100 {
					b.Fatal(len(got), err)
				}
			}
		})
	}
}
