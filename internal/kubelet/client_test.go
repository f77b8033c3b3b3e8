package kubelet

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// one is a list of one pod as the kubelet of Kubernetes 1.34 writes it, shortened.
const one = `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"a","namespace":"n","uid":"u"},"spec":{},"status":{}}]}`

func write(t testing.TB, name, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestAnswers gives what a kubelet may answer, and the texts about it.
func TestAnswers(t *testing.T) {
	half := one[:len(one)-2] + `,{"metadata":{"name":"b","na`
	for what, c := range map[string]struct {
		answer func(w http.ResponseWriter)
		pods   int
		want   string // of the error
	}{
		"all is well":    {func(w http.ResponseWriter) { fmt.Fprint(w, one) }, 1, ""},
		"no pods":        {func(w http.ResponseWriter) { fmt.Fprint(w, `{"items":[]}`) }, 0, ""},
		"401":            {func(w http.ResponseWriter) { w.WriteHeader(401) }, 0, "never grant nodes/proxy"},
		"403":            {func(w http.ResponseWriter) { w.WriteHeader(403) }, 0, "may get nodes/pods"},
		"500":            {func(w http.ResponseWriter) { w.WriteHeader(500) }, 0, "answers 500"},
		"elsewhere":      {func(w http.ResponseWriter) { w.Header().Set("Location", "http://x/"); w.WriteHeader(302) }, 0, "answers 302"},
		"half an answer": {func(w http.ResponseWriter) { fmt.Fprint(w, half) }, 1, "unexpected EOF"},
		"cut off":        {func(w http.ResponseWriter) { w.Header().Set("Content-Length", "999999"); fmt.Fprint(w, half) }, 1, "unexpected EOF"},
		"a page":         {func(w http.ResponseWriter) { fmt.Fprint(w, "<html>") }, 0, "can not be read"},
		"null":           {func(w http.ResponseWriter) { fmt.Fprint(w, "null") }, 0, "no object"},
		"no items":       {func(w http.ResponseWriter) { fmt.Fprint(w, `{"kind":"Status"}`) }, 0, "no items"},
		"an empty node":  {func(w http.ResponseWriter) { fmt.Fprint(w, `{"items":null}`) }, 0, ""},
		"strange items":  {func(w http.ResponseWriter) { fmt.Fprint(w, `{"items":{}}`) }, 0, "no list"},
		"slow":           {func(w http.ResponseWriter) { fmt.Fprint(w, half); w.(http.Flusher).Flush(); <-t.Context().Done() }, 1, "within 200ms"},
	} {
		t.Run(what, func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			node := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer secret" || r.URL.Path != "/pods" || r.Method != "GET" {
					t.Errorf("%s %s %q", r.Method, r.URL, r.Header["Authorization"])
				}
				if what == "slow" {
					fmt.Fprint(w, half)
					w.(http.Flusher).Flush()
					<-ctx.Done()
					return
				}
				c.answer(w)
			}))
			defer node.Close()
			defer end()
			config := Config{Address: node.URL, TokenFile: write(t, t.TempDir()+"/token", "secret\n"), Insecure: true}
			if what == "slow" {
				config.Timeout = 200 * time.Millisecond
			}
			for {
				client, err := New(config)
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close()
				pods, err := client.Pods(ctx)
				if what == "slow" && len(pods) == 0 && config.Timeout < time.Minute { // not even half of the answer came in time
					config.Timeout *= 2
					c.want = "within " + config.Timeout.String()
					continue
				}
				if len(pods) != c.pods || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
					t.Errorf("%d pods, %v; want %d, %q", len(pods), err, c.pods, c.want)
				}
				break
			}
		})
	}
}

// TestAway: nobody listens.
func TestAway(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	client, err := New(Config{Address: "https://" + ln.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Pods(t.Context()); err == nil || !strings.Contains(err.Error(), "can not be reached") || !strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
}

func TestToken(t *testing.T) {
	var got string
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got = r.Header.Get("Authorization"); fmt.Fprint(w, one) })
	node := httptest.NewServer(answer)
	defer node.Close()
	token := write(t, t.TempDir()+"/token", "first")
	client, err := New(Config{Address: node.URL, TokenFile: token})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, text := range []string{"first", "second"} { // it is rotated
		write(t, token, text)
		if _, err := client.Pods(t.Context()); err != nil || got != "Bearer "+text {
			t.Errorf("%q, %v", got, err)
		}
	}
	if err := os.Remove(token); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Pods(t.Context()); err == nil || !strings.Contains(err.Error(), "read the token for the kubelet") {
		t.Error(err)
	}
	for _, host := range []string{"127.0.0.1", "[::1]", "localhost", "10.0.0.1", "kubelet"} {
		c, err := New(Config{Address: "http://" + host + ":10255", TokenFile: write(t, token, "x")})
		if err != nil {
			t.Fatal(err)
		}
		req := httptest.NewRequest("GET", c.URL(), nil)
		req.Header.Del("Authorization")
		if err := c.authorize(req); err != nil || (req.Header.Get("Authorization") != "") != (host == "127.0.0.1" || host == "[::1]" || host == "localhost") {
			t.Errorf("%s: without TLS the token is shown: %q, %v", host, req.Header.Get("Authorization"), err)
		}
	}
}

func TestWrongConfig(t *testing.T) {
	for _, c := range []Config{
		{Address: "localhost:10250"}, {Address: "https://u:p@h:1"}, {Address: "https://h:1/pods"}, {Address: "ftp://h"}, {Address: "https://"},
		{CAFile: "/does/not/exist"}, {CAFile: write(t, t.TempDir()+"/ca", "no PEM")},
	} {
		if _, err := New(c); err == nil || !strings.HasPrefix(err.Error(), "kubelet: ") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// certificate is a new one of a key of its own, signed by parent or by itself.
func certificate(t *testing.T, names []string, ips []net.IP, parent *tls.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "test " + fmt.Sprint(names)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: names, IPAddresses: ips,
		BasicConstraintsValid: true, IsCA: parent == nil, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	signer, by := template, any(key)
	if parent != nil {
		signer, by = parent.Leaf, parent.PrivateKey
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, signer, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key, Leaf: leaf}
}

func pemOf(c tls.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}))
}

// TestTrust: the token is shown to the kubelet of this node and to nobody else.
func TestTrust(t *testing.T) {
	authority := certificate(t, []string{"authority"}, nil, nil)
	local := net.ParseIP("127.0.0.1")
	for what, c := range map[string]struct {
		shown  tls.Certificate
		own    bool // it lies in the folder of the kubelet
		ca     bool // the authority is named
		strict string
		want   bool
	}{
		"signed for the address":              {shown: certificate(t, []string{"n1"}, []net.IP{local}, &authority), ca: true, want: true},
		"signed for the name of the node":     {shown: certificate(t, []string{"n1"}, nil, &authority), ca: true, want: true},
		"signed for another node":             {shown: certificate(t, []string{"n2"}, nil, &authority), ca: true},
		"signed by itself, known by its file": {shown: certificate(t, []string{"n1"}, nil, nil), own: true, want: true},
		"the same beside an authority":        {shown: certificate(t, []string{"n1"}, nil, nil), own: true, ca: true, want: true},
		"signed by itself":                    {shown: certificate(t, []string{"n1"}, []net.IP{local}, nil), ca: true},
		"signed by nobody known":              {shown: certificate(t, []string{"n1"}, []net.IP{local}, nil)},
	} {
		t.Run(what, func(t *testing.T) {
			asked := false
			node := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { asked = true; fmt.Fprint(w, one) }))
			node.TLS = &tls.Config{Certificates: []tls.Certificate{c.shown}}
			node.Config.ErrorLog = log.New(io.Discard, "", 0)
			node.StartTLS()
			defer node.Close()
			root := t.TempDir()
			config := Config{Address: node.URL, Node: "n1", Root: root, TokenFile: write(t, root+"/token", "x")}
			if c.own {
				write(t, root+"/var/lib/kubelet/pki/kubelet.crt", pemOf(c.shown)+pemOf(authority))
			}
			if c.ca {
				config.CAFile = write(t, root+"/ca.crt", pemOf(authority))
			}
			client, err := New(config)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			if _, err = client.Pods(t.Context()); (err == nil) != c.want || asked != c.want || err != nil && !strings.Contains(err.Error(), "kubelet-ca") {
				t.Errorf("asked %v, %v", asked, err)
			}
		})
	}
}

// TestLargeList: 32 MB of pods take the memory of the pods kept, and more is refused.
func TestLargeList(t *testing.T) {
	filler := strings.Repeat("x", 64<<10)
	list := func(pods int) io.Reader {
		r := []io.Reader{strings.NewReader(`{"items":[`)}
		for i := range pods {
			comma := ","
			if i == 0 {
				comma = ""
			}
			r = append(r, strings.NewReader(fmt.Sprintf(`%s{"metadata":{"uid":"u%d","name":"p","namespace":"n","annotations":{"note":"`, comma, i)), strings.NewReader(filler), strings.NewReader(`"}}}`))
		}
		return io.MultiReader(append(r, strings.NewReader("]}"))...)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	in := list(512)
	pods, err := Decode(in)
	if err != nil || len(pods) != 512 {
		t.Fatal(len(pods), err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > 4<<20 {
		t.Errorf("%d bytes are kept of a list of 32 MB", kept)
	}
	runtime.KeepAlive(pods)
	if pods, err := Decode(list(maxResponse/len(filler) + 1)); err == nil || len(pods) < 1000 || !strings.Contains(err.Error(), "larger than 128 MiB") {
		t.Errorf("%d pods, %v", len(pods), err)
	}
	huge := io.MultiReader(strings.NewReader(`{"items":[{"metadata":{"uid":"`), io.LimitReader(zeros{}, 2*maxPod), strings.NewReader(`"}}]}`))
	if _, err := Decode(huge); err == nil || !strings.Contains(err.Error(), "larger than 8 MiB") {
		t.Errorf("one pod of 16 MiB: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

func FuzzDecode(f *testing.F) {
	f.Add(one)
	f.Add(`{"items":[{"metadata":{"uid":"u","ownerReferences":[{}]},"spec":{"initContainers":[{"name":"i","restartPolicy":"Always"}],"containers":[{"resources":{"requests":{"cpu":"1e"}}}]},"status":{"containerStatuses":[{"lastState":{"terminated":{}}}]}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		pods, _ := Decode(strings.NewReader(text))
		for _, p := range pods {
			if p.ReportedUID == "" {
				t.Error("a pod without a UID")
			}
			for _, v := range []Resources{p.Request(), p.Limit()} {
				if v.Cores < 0 || v.MemoryBytes < 0 || v.GPUs < 0 {
					t.Errorf("%+v", v)
				}
			}
			p.Container("")
			p.Started()
		}
	})
}
