package graphapi_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"reckon/access"
)

// TestReplay sends the requests of published clients as bytes over a connection (testdata/replay/README.md): the
// exporter writes a cluster and queries its previous content, the trade-off service queries nodes and workloads, the
// clean-up drops the graph.
func TestReplay(t *testing.T) {
	a := newAPI(t)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.h.ServeHTTP(w, r.WithContext(access.With(r.Context(), a.as)))
	}))
	defer s.Close()
	c, err := net.Dial("tcp", s.Listener.Addr().String()) // all over one connection, as clients do
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	answers := bufio.NewReader(c)
	send := func(name string) string {
		t.Helper()
		raw, err := os.ReadFile(filepath.Join("testdata/replay", name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(raw); err != nil {
			t.Fatal(err)
		}
		method, _, _ := bytes.Cut(raw, []byte(" "))
		res, err := http.ReadResponse(answers, &http.Request{Method: string(method)})
		if err != nil {
			t.Fatal(name, err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
			t.Fatalf("%s: %s, %v: %s", name, res.Status, err, body)
		}
		return string(body)
	}
	if got := send("1-exporter-insert.http"); !strings.Contains(got, "Success - Inserted ") || !strings.Contains(got, "graph <timestamp:1800000000000>") {
		t.Error(got)
	}
	for _, test := range []struct {
		name, column string
		rows         int
		first        []string
	}{
		{"2-exporter-nodes.http", "resource", 1, []string{"https://kubernetes.local/#glaciation-test-worker01"}},
		{"2-exporter-pods.http", "resource", 1, []string{"https://kubernetes.local/#kube-flannel.kube-flannel-ds-848v8"}},
		{"2-exporter-containers.http", "resource", 1, []string{"https://kubernetes.local/#kube-flannel.kube-flannel-ds-848v8.kube-flannel"}},
		{"3-trade-off-nodes.http", "measurementName", 9, nil},
		{"3-trade-off-node.http", "measurementName", 9, nil},
		{"3-trade-off-workloads.http", "measurementName", 15, nil},
		{"3-trade-off-workload.http", "measurementName", 8, []string{"CPU.Allocated", "CPU.Capacity", "CPU.Usage", "Network.Usage", "RAM.Allocated", "RAM.Capacity", "RAM.Usage", "Storage.Usage"}},
	} {
		var got struct {
			Head    struct{ Vars []string }
			Results struct {
				Bindings []map[string]struct{ Type, Value, Datatype string }
			}
		}
		if err := json.Unmarshal([]byte(send(test.name)), &got); err != nil {
			t.Fatal(test.name, err)
		}
		var values []string
		for _, row := range got.Results.Bindings {
			values = append(values, row[test.column].Value)
		}
		slices.Sort(values)
		if len(values) != test.rows || test.first != nil && !slices.Equal(values, test.first) {
			t.Errorf("%s: %d rows, want %d: %v", test.name, len(values), test.rows, values)
		}
	}
	for _, name := range []string{"4-cleaner-compact.http", "5-cleaner-drop.http"} {
		if got := send(name); got != `"Success"` && got != "\"Success\"\n" {
			t.Error(name, got)
		}
	}
	if list, err := a.store.List(t.Context()); err != nil || len(list) != 0 {
		t.Error("the graph was not dropped:", list, err)
	}
}
