package auth_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"encoding/pem"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"reckon/access"
	"reckon/access/auth"
)

const clusterIssuer = "https://kubernetes.default.svc"

// apiServer is the part of an API server that publishes the issuer and the keys of its tokens,
// to clients with a token.
type apiServer struct {
	*httptest.Server
	ca, tokenFile string

	mu      sync.Mutex
	keys    map[string]crypto.Signer
	away    bool
	fetches int // of the keys
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{keys: map[string]crypto.Signer{}}
	s.rotate(t, "k1")
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, r *http.Request, v any) {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case s.away:
			http.Error(w, "etcd is away", http.StatusServiceUnavailable)
		case r.Header.Get("Authorization") != "Bearer of the server's pod":
			http.Error(w, "forbidden", http.StatusForbidden)
		default:
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(v) // the client went away
		}
	}
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, r *http.Request) {
		// As kube-apiserver 1.34 responds: jwks_uri need not be reachable.
		answer(w, r, map[string]any{"issuer": clusterIssuer, "jwks_uri": "https://outside.example/openid/v1/jwks", "response_types_supported": []string{"id_token"}})
	})
	mux.HandleFunc("/openid/v1/jwks", func(w http.ResponseWriter, r *http.Request) {
		var set jose.JSONWebKeySet
		s.mu.Lock()
		s.fetches++
		for id, k := range s.keys {
			set.Keys = append(set.Keys, jose.JSONWebKey{Key: k.Public(), KeyID: id, Use: "sig"})
		}
		s.mu.Unlock()
		answer(w, r, set)
	})
	s.Server = httptest.NewTLSServer(mux)
	t.Cleanup(s.Close)
	dir := t.TempDir()
	s.ca, s.tokenFile = filepath.Join(dir, "ca.crt"), filepath.Join(dir, "token")
	must(t, os.WriteFile(s.ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	must(t, os.WriteFile(s.tokenFile, []byte("of the server's pod\n"), 0o600))
	return s
}

// rotate replaces all keys by keys with these ids.
func (s *apiServer) rotate(t *testing.T, ids ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := map[string]crypto.Signer{}
	for _, id := range ids {
		if keys[id] = s.keys[id]; keys[id] == nil {
			k, err := rsa.GenerateKey(rand.Reader, 2048)
			must(t, err)
			keys[id] = k
		}
	}
	s.keys = keys
}

func (s *apiServer) set(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

func (s *apiServer) key(id string) crypto.Signer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[id]
}

func (s *apiServer) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fetches
}

// sign signs the claims of a projected token (Kubernetes 1.34), modified by the test.
func sign(t *testing.T, key crypto.Signer, id string, now time.Time, change map[string]any) string {
	t.Helper()
	claims := map[string]any{
		"iss": clusterIssuer, "aud": []string{"reckon"}, "sub": "system:serviceaccount:reckon:reckon-agent",
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(time.Hour).Unix(), "jti": "1",
		"kubernetes.io": account("reckon", "reckon-agent", "node0"),
	}
	maps.Copy(claims, change)
	alg := jose.RS256
	if _, ok := key.(*ecdsa.PrivateKey); ok {
		alg = jose.ES256
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", id))
	must(t, err)
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	must(t, err)
	return text
}

func account(namespace, name, node string) map[string]any {
	k := map[string]any{"namespace": namespace, "serviceaccount": map[string]any{"name": name, "uid": "u"}, "pod": map[string]any{"name": name + "-x", "uid": "p"}}
	if node != "" {
		k["node"] = map[string]any{"name": node, "uid": "n"}
	}
	return k
}

func (s *apiServer) cluster(t *testing.T, c *clock, change func(*auth.ClusterConfig)) *auth.Cluster {
	t.Helper()
	config := auth.ClusterConfig{
		CAFile: s.ca, TokenFile: s.tokenFile,
		Agents: []string{"reckon/reckon-agent"}, Site: "lab", Admins: []string{"reckon/reckon"}, Supporters: []string{"ops/desk"}, Describers: []string{"reckon/reckon-operator", "reckon/graph"}, Runs: []string{"reckon/reckon-operator", "reckon/runs"},
	}
	if change != nil {
		change(&config)
	}
	u, err := url.Parse(s.URL)
	must(t, err)
	cl, err := auth.NewCluster(config, u.Hostname(), u.Port(), c.now, slog.New(slog.DiscardHandler))
	must(t, err)
	return cl
}

// TestServiceAccounts: a token gives its account's rights, and only if everything about it is valid.
func TestServiceAccounts(t *testing.T) {
	users, c, _ := open(t)
	api := newAPIServer(t)
	a := &auth.Authenticator{Users: users, Cluster: api.cluster(t, c, nil)}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	now := c.now()
	hour := now.Add(time.Hour)
	of := func(namespace, name, node string) map[string]any {
		return map[string]any{"sub": "system:serviceaccount:" + namespace + ":" + name, "kubernetes.io": account(namespace, name, node)}
	}
	for name, test := range map[string]struct {
		change map[string]any
		key    crypto.Signer
		kid    string
		want   string // the viewer; part of the error after !
	}{
		"agent":                 {want: "nobody agent node0 writes site lab, nodes node0"},
		"server's own account":  {change: of("reckon", "reckon", "node0"), want: "admin service account reckon/reckon"},
		"support":               {change: of("ops", "desk", ""), want: "support service account ops/desk"},
		"operator":              {change: of("reckon", "reckon-operator", "node0"), want: "nobody service account reckon/reckon-operator keeps runs writes site lab, nodes "},
		"describes only":        {change: of("reckon", "graph", ""), want: "nobody service account reckon/graph writes site lab, nodes "},
		"keeps runs only":       {change: of("reckon", "runs", ""), want: "nobody service account reckon/runs keeps runs"},
		"operator of another":   {change: of("shop", "reckon-operator", "node0"), want: "!shop/reckon-operator is not let in"},
		"another account":       {change: of("shop", "default", "node0"), want: "!shop/default is not let in"},
		"same name elsewhere":   {change: of("shop", "reckon-agent", "node0"), want: "!shop/reckon-agent is not let in"},
		"no node":               {change: of("reckon", "reckon-agent", ""), want: "!anyNode=true"},
		"a pattern for a node":  {change: of("reckon", "reckon-agent", "node*"), want: "!names no node"},
		"subject and claims":    {change: map[string]any{"sub": "system:serviceaccount:reckon:reckon", "kubernetes.io": account("reckon", "reckon-agent", "node0")}, want: "!subject"},
		"a user's certificate":  {change: map[string]any{"sub": "admin", "kubernetes.io": map[string]any{}}, want: "!subject"},
		"other issuer":          {change: map[string]any{"iss": "https://evil.example"}, want: "!different provider"},
		"for the API server":    {change: map[string]any{"aud": []string{clusterIssuer}}, want: "!audience"},
		"no audience":           {change: map[string]any{"aud": nil}, want: "!audience"},
		"several audiences":     {change: map[string]any{"aud": []string{"x", "reckon"}}, want: "nobody agent node0 writes site lab, nodes node0"},
		"expired a second ago":  {change: map[string]any{"exp": now.Add(-time.Second).Unix()}, want: "!expired"},
		"expires in a second":   {change: map[string]any{"exp": now.Add(time.Second).Unix()}, want: "nobody agent node0 writes site lab, nodes node0"},
		"not yet":               {change: map[string]any{"nbf": hour.Unix(), "exp": hour.Add(time.Hour).Unix()}, want: "!before the nbf"},
		"signed by another key": {key: other, want: "!no key of this cluster"},
		"a key of nobody":       {key: other, kid: "k9", want: "!no key of this cluster"},
	} {
		if test.key == nil {
			test.key = api.key("k1")
		}
		if test.kid == "" {
			test.kid = "k1"
		}
		text := sign(t, test.key, test.kid, now, test.change)
		v, err := a.Viewer(bearer(text))
		got := strings.TrimSpace(v.Role.String() + " " + v.Name)
		if v.Runs {
			got += " keeps runs"
		}
		if v.Writes != nil {
			got += " writes " + v.Writes.String()
		}
		if part, bad := strings.CutPrefix(test.want, "!"); bad {
			if !errors.Is(err, access.ErrUnauthenticated) || !strings.Contains(err.Error(), part) || v.Writes != nil || v.Role != access.Nobody {
				t.Errorf("%s: %s, %v; want an error with %q", name, got, err, part)
			}
		} else if err != nil || got != test.want {
			t.Errorf("%s: %s, %v; want %s", name, got, err, test.want)
		}
		if err != nil && strings.Contains(err.Error(), text[len(text)-40:]) {
			t.Errorf("%s: the error holds the token", name)
		}
	}
	// An agent may send for its node alone.
	v, err := a.Viewer(bearer(sign(t, api.key("k1"), "k1", now, nil)))
	must(t, err)
	for at, want := range map[[2]string]bool{{"lab", "node0"}: true, {"lab", "node1"}: false, {"", "node0"}: false, {"lab", ""}: false, {"lab", "node00"}: false} {
		if v.MayWrite(at[0], at[1]) != want {
			t.Errorf("may write %q: %v", at, !want)
		}
	}
	// Neither form of token is accepted as the other, and nothing of it is read without a signature.
	parts := strings.Split(sign(t, api.key("k1"), "k1", now, nil), ".")
	for _, text := range []string{"rkn_a.b.c", "a.b.c", parts[0] + "." + parts[1] + ".", "eyJhbGciOiJub25lIn0." + parts[1] + ".", strings.Repeat("a", 20<<10) + ".b.c"} {
		if _, err := a.Viewer(bearer(text)); !errors.Is(err, access.ErrUnauthenticated) {
			t.Errorf("%.20q...: %v", text, err)
		}
	}
	// A server with service accounts accepts no sender without credentials, not even a local one.
	local := &auth.Authenticator{Users: users, Cluster: a.Cluster, Local: true}
	if v, err := local.Viewer(httptest.NewRequest(http.MethodGet, "http://localhost/", nil)); err != nil || v.Role != access.Nobody {
		t.Errorf("without a token: %s, %v", v.Role, err)
	}
}

func bearer(text string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/api/v1/write", nil)
	r.Header.Set("Authorization", "Bearer "+text)
	return r
}

// TestOldCluster: before Kubernetes 1.30 tokens name no node; the agent is trusted to name it if
// that is configured, and a node in the token still binds.
func TestOldCluster(t *testing.T) {
	_, c, _ := open(t)
	api := newAPIServer(t)
	cl := api.cluster(t, c, func(c *auth.ClusterConfig) { c.AnyNode = true })
	for node, want := range map[string]bool{"": true, "node0": false} {
		v, err := cl.CheckToken(t.Context(), sign(t, api.key("k1"), "k1", c.now(), map[string]any{"kubernetes.io": account("reckon", "reckon-agent", node)}))
		must(t, err)
		if v.MayWrite("lab", "elsewhere") != want || v.MayWrite("home", "node0") {
			t.Errorf("node %q: %s", node, v.Writes)
		}
	}
}

// TestKeyRotation: a new key is found at once, a withdrawn one is refused ten minutes later, and
// while the API server is down the cached keys remain in use.
func TestKeyRotation(t *testing.T) {
	_, c, _ := open(t)
	api := newAPIServer(t)
	cl := api.cluster(t, c, nil)
	k1 := api.key("k1")
	check := func(what string, key crypto.Signer, id string, want error) {
		t.Helper()
		_, err := cl.CheckToken(t.Context(), sign(t, key, id, c.now(), nil))
		if !errors.Is(err, want) || (want == nil) != (err == nil) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	api.set(true)
	check("the API server is away at first", k1, "k1", auth.ErrKeys)
	api.set(false)
	c.add(5*time.Second - time.Millisecond)
	check("within the pause", k1, "k1", auth.ErrKeys)
	c.add(time.Millisecond)
	check("after the pause", k1, "k1", nil)
	before := api.asked()
	for range 20 {
		check("a key that is here", k1, "k1", nil)
		check("a key of nobody", k1, "k9", auth.ErrToken)
	}
	if n := api.asked() - before; n != 0 {
		t.Errorf("%d requests for keys within the pause, want none", n)
	}
	api.rotate(t, "k1", "k2")
	k2 := api.key("k2")
	check("a new key within the pause", k2, "k2", auth.ErrToken)
	c.add(5 * time.Second)
	check("a new key", k2, "k2", nil)
	check("the old one beside it", k1, "k1", nil)
	api.rotate(t, "k2")
	c.add(10*time.Minute - time.Millisecond)
	check("a withdrawn key, a millisecond before it is forgotten", k1, "k1", nil)
	c.add(time.Millisecond)
	check("a withdrawn key", k1, "k1", auth.ErrToken)
	check("the key in force", k2, "k2", nil)
	api.set(true)
	c.add(time.Hour)
	check("a key that is here, the API server away", k2, "k2", nil)
	check("a key that is not, the API server away", k1, "k3", auth.ErrKeys)
}

// TestClusterConfig: the error for an invalid configuration includes the correct form.
func TestClusterConfig(t *testing.T) {
	_, c, _ := open(t)
	api := newAPIServer(t)
	empty := filepath.Join(t.TempDir(), "empty")
	must(t, os.WriteFile(empty, nil, 0o600))
	for want, config := range map[string]auth.ClusterConfig{
		"no pod of a cluster":     {Agents: []string{"a/b"}, CAFile: api.ca},
		"write it like":           {APIServer: "http://plain", Agents: []string{"a/b"}, CAFile: api.ca},
		"lets no account in":      {APIServer: api.URL, CAFile: api.ca},
		`"b" is no service`:       {APIServer: api.URL, Agents: []string{"b"}, CAFile: api.ca},
		`"a/*" is no service`:     {APIServer: api.URL, Admins: []string{"a/*"}, CAFile: api.ca},
		"ca_file: open /no/such":  {APIServer: api.URL, Agents: []string{"a/b"}, CAFile: "/no/such/file"},
		"holds no certificate in": {APIServer: api.URL, Agents: []string{"a/b"}, CAFile: empty},
	} {
		if _, err := auth.NewCluster(config, "", "", c.now, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	// A server without permission reports which one is missing.
	must(t, os.WriteFile(api.tokenFile, []byte("of somebody else"), 0o600))
	cl := api.cluster(t, c, nil)
	if _, err := cl.CheckToken(t.Context(), sign(t, api.key("k1"), "k1", c.now(), nil)); !errors.Is(err, auth.ErrKeys) || !strings.Contains(err.Error(), "service-account-issuer-discovery") {
		t.Error(err)
	}
}

// TestRecordedToken: a token of Kubernetes 1.34, with the discovery and the keys of its API server as they were recorded.
func TestRecordedToken(t *testing.T) {
	raw, err := os.ReadFile("testdata/kubernetes-1.34.json")
	must(t, err)
	var recorded struct {
		Source          string
		Discovery, JWKS json.RawMessage
		Token           string
	}
	must(t, json.Unmarshal(raw, &recorded))
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(recorded.Discovery) })
	mux.HandleFunc("/openid/v1/jwks", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(recorded.JWKS) })
	s := httptest.NewTLSServer(mux)
	t.Cleanup(s.Close)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	must(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	c := &clock{t: time.Unix(1795335305, 0)}
	cl, err := auth.NewCluster(auth.ClusterConfig{APIServer: s.URL, CAFile: ca, Agents: []string{"reckon/reckon-agent"}}, "", "", c.now, slog.New(slog.DiscardHandler))
	must(t, err)
	v, err := cl.CheckToken(t.Context(), recorded.Token)
	must(t, err)
	if v.Name != "agent node0" || !v.MayWrite("", "node0") || v.MayWrite("", "node1") || v.Role != access.Nobody {
		t.Errorf("%+v %s", v, v.Writes)
	}
	c.add(time.Hour)
	if _, err := cl.CheckToken(t.Context(), recorded.Token); err != nil {
		t.Errorf("in its last second: %v", err)
	}
	c.add(time.Second)
	if _, err := cl.CheckToken(t.Context(), recorded.Token); !errors.Is(err, auth.ErrToken) {
		t.Errorf("after an hour: %v", err)
	}
}
