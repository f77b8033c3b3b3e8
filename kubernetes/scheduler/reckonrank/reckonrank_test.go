package reckonrank

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

func pod() *v1.Pod {
	asked := func(cpu, memory string) v1.ResourceRequirements {
		return v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}}
	}
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u-1"}, Spec: v1.PodSpec{Containers: []v1.Container{{Resources: asked("1500m", "1Gi")}, {Resources: asked("500m", "1Gi")}}}}
}

func nodes(names ...string) []fwk.NodeInfo {
	var out []fwk.NodeInfo
	for _, n := range names {
		info := framework.NewNodeInfo()
		info.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: n}})
		out = append(out, info)
	}
	return out
}

// TestScores: the scores are the server's; the question holds what the pod asks for and the nodes; Reserve and Unreserve report where it goes.
func TestScores(t *testing.T) {
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		asked = append(asked, r.URL.Path+" "+r.Header.Get("Authorization")+" "+r.PostForm.Encode())
		fmt.Fprint(w, `{"nodes":[{"node":"n2","score":100},{"node":"n1","score":40},{"node":"n9","score":900}]}`)
	}))
	defer s.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// Arguments come as the scheduler gives those of plugins that it does not know.
	raw := fmt.Sprintf(`{"url":%q,"tokenFile":%q,"site":"lab","timeoutMilliseconds":10000}`, s.URL+"/", token)
	made, err := New(t.Context(), &runtime.Unknown{Raw: []byte(raw), ContentType: runtime.ContentTypeJSON}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := made.(*Plugin)
	state, list := framework.NewCycleState(), nodes("n1", "n2", "n3", "n9")
	if st := p.PreScore(t.Context(), state, pod(), list); !st.IsSuccess() {
		t.Fatal(st)
	}
	for i, want := range []int64{40, 100, 0, 100} {
		if got, st := p.Score(t.Context(), state, pod(), list[i]); got != want || !st.IsSuccess() {
			t.Errorf("%s: %d %v, want %d", list[i].Node().Name, got, st, want)
		}
	}
	p.Reserve(t.Context(), state, pod(), "n2")
	p.Unreserve(t.Context(), state, pod(), "n2")
	const work = "cores=2&memory_bytes=2.147483648e%2B09&"
	want := []string{
		"/api/reckon/v1/rank Bearer secret " + work + "node=n1&node=n2&node=n3&node=n9&site=lab&work=u-1",
		"/api/reckon/v1/rank/placed Bearer secret " + work + "node=n2&site=lab&work=u-1",
		"/api/reckon/v1/rank/placed Bearer secret " + work + "node=n2&removed=true&site=lab&work=u-1",
	}
	if strings.Join(asked, "\n") != strings.Join(want, "\n") {
		t.Errorf("asked\n%s\nwant\n%s", strings.Join(asked, "\n"), strings.Join(want, "\n"))
	}
}

// answer is a server that does what a test wants.
type answer func(*http.Request) (*http.Response, error)

func (a answer) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

// TestServerDown: whatever the server does, the plugin is skipped for the pod within the timeout, and nothing fails.
func TestServerDown(t *testing.T) {
	reply := func(status int, body string) answer {
		return func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: status, Status: http.StatusText(status), Body: io.NopCloser(strings.NewReader(body))}, nil
		}
	}
	for name, server := range map[string]answer{
		"refused":     func(*http.Request) (*http.Response, error) { return nil, fmt.Errorf("connection refused") },
		"hangs":       func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() },
		"not ready":   reply(503, `{"error":"the store is being opened"}`),
		"no login":    reply(401, `{}`),
		"not JSON":    reply(200, "<html>"),
		"cut off":     reply(200, `{"nodes":[{"node":"n1","sc`),
		"ranks none":  reply(404, `{}`),
		"empty reply": reply(200, ""),
	} {
		synctest.Test(t, func(t *testing.T) {
			p, err := newPlugin(Args{URL: "http://reckon:9870"})
			if err != nil {
				t.Fatal(err)
			}
			p.client = &http.Client{Transport: server}
			state := framework.NewCycleState()
			begin := time.Now()
			if st := p.PreScore(context.Background(), state, pod(), nodes("n1")); !st.IsSkip() {
				t.Errorf("%s: %v", name, st)
			}
			if d := time.Since(begin); d > 20*time.Millisecond {
				t.Errorf("%s: took %v", name, d)
			}
			if st := p.Reserve(context.Background(), state, pod(), "n1"); !st.IsSuccess() {
				t.Errorf("%s: %v", name, st)
			}
			if v, st := p.Score(context.Background(), state, pod(), nodes("n1")[0]); v != 0 || !st.IsSuccess() {
				t.Errorf("%s: %d %v", name, v, st)
			}
		})
	}
}

// TestManyNodes: more nodes than are named are asked for without names.
func TestManyNodes(t *testing.T) {
	for _, n := range []int{maxNamed, maxNamed + 1} {
		p, err := newPlugin(Args{URL: "http://reckon"})
		if err != nil {
			t.Fatal(err)
		}
		var q url.Values
		p.client = &http.Client{Transport: answer(func(r *http.Request) (*http.Response, error) {
			if err := r.ParseForm(); err != nil {
				return nil, err
			}
			q = r.PostForm
			return nil, fmt.Errorf("enough")
		})}
		p.PreScore(t.Context(), framework.NewCycleState(), pod(), nodes(strings.Fields(strings.Repeat("n ", n))...))
		if named := len(q["node"]); named != n && n == maxNamed || named != 0 && n > maxNamed {
			t.Errorf("%d nodes, %d named", n, named)
		}
	}
}

func TestArgs(t *testing.T) {
	for raw, ok := range map[string]bool{`{"url":"http://h:1"}`: true, `{"url":"https://h"}`: true, `{}`: false, `{"url":"h:1"}`: false, `{"url":"ftp://h"}`: false, `{"url":"http://h","timeoutMilliseconds":-1}`: false, `{`: false} {
		if _, err := New(t.Context(), &runtime.Unknown{Raw: []byte(raw), ContentType: runtime.ContentTypeJSON}, nil); (err == nil) != ok {
			t.Errorf("%s: %v", raw, err)
		}
	}
	if _, err := New(t.Context(), nil, nil); err == nil {
		t.Error("no arguments")
	}
}
