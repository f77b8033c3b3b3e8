package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestGraph holds that the program describes the cluster where --graph says, with the token and the links of its options.
func TestGraph(t *testing.T) {
	s := startServer(t)
	type request struct{ path, token, owner, body string }
	got := make(chan request, 100)
	graph := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, "{}")
			return
		}
		body, _ := io.ReadAll(r.Body)
		select {
		case got <- request{r.URL.Path, r.Header.Get("Authorization"), r.Header.Get("Reckon-Owner"), string(body)}:
		default:
		}
	}))
	defer graph.Close()
	s.operator("--graph="+graph.URL, "--graph-site=edge", "--graph-url=https://reckon.example")
	if err := s.c.Create(t.Context(), &core.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(2 * time.Minute)
	for {
		select {
		case r := <-got:
			if r.path != "/subgraph/urn:reckon:site/edge/kubernetes/node/n1" {
				continue
			}
			if r.owner != "*" || r.token != "" || !strings.Contains(r.body, `"https://reckon.example"`) || !strings.Contains(r.body, `{node=\"n1\",site=\"edge\"}`) {
				t.Errorf("%+v", r)
			}
			return
		case <-deadline:
			t.Fatal("the node was not described")
		}
	}
}
