package auth_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"reckon/access"
	"reckon/access/auth"
)

// served is a server with a single page, which returns the viewer.
func served(t *testing.T, f *auth.Authenticator) *httptest.Server {
	t.Helper()
	f.Logger = slog.New(slog.DiscardHandler)
	mux := http.NewServeMux()
	mux.Handle("/auth/", f.Handler())
	mux.HandleFunc("/work", func(http.ResponseWriter, *http.Request) {})
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, err := f.Viewer(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r.WithContext(access.With(r.Context(), v)))
	}))
	t.Cleanup(s.Close)
	return s
}

// browser keeps cookies.
func browser(t *testing.T, s *httptest.Server) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	must(t, err)
	return &http.Client{Transport: s.Client().Transport, Jar: jar}
}

func who(t *testing.T, c *http.Client, base string) (role, name string) {
	t.Helper()
	r := do(t, c, http.MethodGet, base+"/auth/me", nil)
	var v struct{ Name, Role string }
	must(t, json.Unmarshal([]byte(r.text), &v))
	return v.Role, v.Name
}

type reply struct {
	*http.Response
	text string
}

func do(t *testing.T, c *http.Client, method, target string, form url.Values, header ...string) reply {
	t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(t.Context(), method, target, body)
	must(t, err)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.Do(req)
	must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(t, err)
	return reply{resp, string(text)}
}

func TestSignIn(t *testing.T) {
	k, _, _ := open(t)
	must(t, k.AddUser(t.Context(), auth.User{Name: "alice", Role: access.User}, good))
	s := served(t, &auth.Authenticator{Users: k})
	b := browser(t, s)
	if role, _ := who(t, b, s.URL); role != "nobody" {
		t.Errorf("a stranger is %s", role)
	}
	if r := do(t, b, http.MethodGet, s.URL+"/auth/login?next=/work%3Fa=1", nil); r.StatusCode != 200 || !strings.Contains(r.text, `name="next" value="/work?a=1"`) {
		t.Errorf("%d %s", r.StatusCode, r.text)
	}
	bad := do(t, b, http.MethodPost, s.URL+"/auth/login", url.Values{"name": {"<script>"}, "password": {"nothing like it"}})
	if bad.StatusCode != 401 || !strings.Contains(bad.text, "is wrong") || strings.Contains(bad.text, "<script>") || len(bad.Cookies()) > 0 || strings.Contains(bad.text, "nothing like it") {
		t.Errorf("%d %s", bad.StatusCode, bad.text)
	}
	r := do(t, b, http.MethodPost, s.URL+"/auth/login", url.Values{"name": {"alice"}, "password": {good}, "next": {"/work"}})
	if r.StatusCode != 200 || r.Request.URL.Path != "/work" {
		t.Errorf("%d at %s", r.StatusCode, r.Request.URL)
	}
	if role, name := who(t, b, s.URL); role != "user" || name != "alice" {
		t.Errorf("signed in as %s %s", role, name)
	}
	// A form on a page of another site has no effect, with or without our cookie.
	for _, header := range [][]string{{"Origin", "https://evil.example"}, {"Sec-Fetch-Site", "cross-site"}} {
		if r := do(t, b, http.MethodPost, s.URL+"/auth/logout", url.Values{}, header...); r.StatusCode == 200 {
			t.Errorf("%v: another site signs out: %d", header, r.StatusCode)
		}
		if r := do(t, b, http.MethodPost, s.URL+"/work", url.Values{}, header...); r.StatusCode == 200 {
			t.Errorf("%v: another site acts as alice", header)
		}
	}
	do(t, b, http.MethodPost, s.URL+"/auth/logout", url.Values{})
	if role, _ := who(t, b, s.URL); role != "nobody" {
		t.Errorf("after signing out one is %s", role)
	}
}

func TestCookieIsKept(t *testing.T) {
	k, _, _ := open(t)
	must(t, k.AddUser(t.Context(), auth.User{Name: "alice", Role: access.User}, good))
	s := served(t, &auth.Authenticator{Users: k})
	c := s.Client()
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for next, want := range map[string]string{
		"/work": "/work", "//evil.example": "/", "https://evil.example/": "/", `/\evil.example`: "/", "javascript:alert(1)": "/", "": "/", "/a\r\nb: c": "/",
	} {
		r := do(t, c, http.MethodPost, s.URL+"/auth/login", url.Values{"name": {"alice"}, "password": {good}, "next": {next}})
		if got := r.Header.Get("Location"); got != want {
			t.Errorf("next %q leads to %q", next, got)
		}
		for _, c := range r.Cookies() {
			if !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteStrictMode || len(c.Value) < 40 {
				t.Errorf("cookie %+v", c)
			}
		}
	}
}

func TestHeaders(t *testing.T) {
	k, _, _ := open(t)
	must(t, k.AddUser(t.Context(), auth.User{Name: "alice", Role: access.Support}, good))
	token, err := k.AddToken(t.Context(), auth.Token{Kind: auth.Person, Role: access.User, Name: "bob"})
	must(t, err)
	s := served(t, &auth.Authenticator{Users: k, Public: true})
	basic := func(name, password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(name+":"+password))
	}
	for header, want := range map[string]string{
		"": "public", "Bearer " + token: "user bob", "bearer " + token: "user bob", basic("alice", good): "support alice",
		"Bearer " + token + "x": "401", "Bearer": "401", "Bearer x": "401", basic("alice", good+"x"): "401", "Basic !": "401", "Digest x": "401", token: "401",
	} {
		r := do(t, s.Client(), http.MethodGet, s.URL+"/auth/me", nil, "Authorization", header)
		var v struct{ Name, Role string }
		_ = json.Unmarshal([]byte(r.text), &v) // an error response is not JSON
		got := strings.TrimSpace(v.Role + " " + v.Name)
		if r.StatusCode != 200 {
			got = "401"
		}
		if got != want {
			t.Errorf("%q is %q, want %q", header, got, want)
		}
		if strings.Contains(r.text, token) || strings.Contains(r.text, good) {
			t.Errorf("%q: the answer repeats a secret", header)
		}
	}
}

// issuer is an OpenID Connect provider that signs in every user, with the claims that a
// test sets, and checks that the client follows the standard.
type issuer struct {
	*httptest.Server
	key    *rsa.PrivateKey
	mu     sync.Mutex
	claims map[string]any
	codes  map[string]url.Values
	spoil  func(claims map[string]any)
	signer *rsa.PrivateKey // signs instead of key
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	i := &issuer{key: key, signer: key, codes: map[string]url.Values{}}
	mux := http.NewServeMux()
	send := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v) // the client went away
	}
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		send(w, map[string]any{"issuer": i.URL, "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token", "jwks_uri": i.URL + "/keys",
			"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"}, "id_token_signing_alg_values_supported": []string{"RS256"}})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		send(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k1", Algorithm: "RS256", Use: "sig"}}})
	})
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || len(q.Get("state")) < 20 || len(q.Get("nonce")) < 20 || !strings.Contains(q.Get("scope"), "openid") {
			http.Error(w, "not as the standard asks", http.StatusBadRequest)
			return
		}
		i.mu.Lock()
		code := "code" + q.Get("state")
		i.codes[code] = q
		i.mu.Unlock()
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusSeeOther)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		q, ok := i.codes[r.FormValue("code")]
		delete(i.codes, r.FormValue("code")) // a code is valid once
		sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		if !ok || base64.RawURLEncoding.EncodeToString(sum[:]) != q.Get("code_challenge") {
			http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
			return
		}
		now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
		claims := map[string]any{"iss": i.URL, "sub": "1", "aud": "reckon", "exp": now.Add(time.Hour).Unix(), "iat": now.Unix(), "nonce": q.Get("nonce")}
		maps.Copy(claims, i.claims)
		if i.spoil != nil {
			i.spoil(claims)
		}
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: i.signer}, (&jose.SignerOptions{}).WithHeader("kid", "k1"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		text, err := jwt.Signed(signer).Claims(claims).Serialize()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		send(w, map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": text})
	})
	i.Server = httptest.NewTLSServer(mux)
	t.Cleanup(i.Close)
	return i
}

func TestOpenIDConnect(t *testing.T) {
	k, c, _ := open(t)
	is := newIssuer(t)
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	var front auth.Authenticator
	front.Users = k
	s := served(t, &front) // its address is part of the configuration
	front.OIDC, err = auth.NewProvider(t.Context(), auth.ProviderConfig{
		Issuer: is.URL, ClientID: "reckon", URL: s.URL, GroupsClaim: "groups", Admins: []string{"hpc-admins"}, Supporters: []string{"helpdesk"}, Users: []string{"hpc-users"}, OwnersClaim: "projects",
	}, is.Client(), c.now)
	must(t, err)
	// The handler is created again, now with the provider.
	mux := front.Handler()
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, err := front.Viewer(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r.WithContext(access.With(r.Context(), v)))
	})
	for name, test := range map[string]struct {
		claims map[string]any
		spoil  func(map[string]any)
		signer *rsa.PrivateKey
		want   string
	}{
		"user":           {claims: map[string]any{"preferred_username": "carol", "groups": []string{"x", "hpc-users"}, "projects": []string{"shop"}}, want: "user carol"},
		"admin":          {claims: map[string]any{"preferred_username": "root", "groups": []string{"hpc-admins"}}, want: "admin root"},
		"support":        {claims: map[string]any{"preferred_username": "sue", "groups": "helpdesk"}, want: "support sue"},
		"no group":       {claims: map[string]any{"preferred_username": "eve", "groups": []string{"guests"}}, want: "nobody"},
		"no name":        {claims: map[string]any{"groups": []string{"hpc-users"}}, want: "nobody"},
		"odd name":       {claims: map[string]any{"preferred_username": "a\tb", "groups": []string{"hpc-users"}}, want: "nobody"},
		"other nonce":    {claims: map[string]any{"preferred_username": "root", "groups": []string{"hpc-admins"}}, spoil: func(c map[string]any) { c["nonce"] = "x" }, want: "nobody"},
		"other audience": {claims: map[string]any{"preferred_username": "root", "groups": []string{"hpc-admins"}}, spoil: func(c map[string]any) { c["aud"] = "shop" }, want: "nobody"},
		"other issuer":   {claims: map[string]any{"preferred_username": "root", "groups": []string{"hpc-admins"}}, spoil: func(c map[string]any) { c["iss"] = "https://evil.example" }, want: "nobody"},
		"expired":        {claims: map[string]any{"preferred_username": "root", "groups": []string{"hpc-admins"}}, spoil: func(c map[string]any) { c["exp"] = 1 }, want: "nobody"},
		"other key":      {claims: map[string]any{"preferred_username": "root", "groups": []string{"hpc-admins"}}, signer: other, want: "nobody"},
	} {
		is.mu.Lock()
		is.claims, is.spoil, is.signer = test.claims, test.spoil, is.key
		if test.signer != nil {
			is.signer = test.signer
		}
		is.mu.Unlock()
		b := browser(t, s)
		b.Transport = both{s, is}
		r := do(t, b, http.MethodGet, s.URL+"/auth/oidc?next=/auth/me", nil)
		role, user := who(t, b, s.URL)
		if got := strings.TrimSpace(role + " " + user); got != test.want {
			t.Errorf("%s: signed in as %q, want %q: %s", name, got, test.want, r.text)
		}
		if strings.Contains(r.text, "evil") || (test.want == "nobody" && r.StatusCode != 401) {
			t.Errorf("%s: %d %s", name, r.StatusCode, r.text)
		}
	}
	// A redirect to a browser that did not start the flow is refused, and so is another state.
	fresh := browser(t, s)
	if r := do(t, fresh, http.MethodGet, s.URL+"/auth/callback?code=x&state=y", nil); r.StatusCode != 401 {
		t.Errorf("a callback out of nowhere: %d", r.StatusCode)
	}
	fresh.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	do(t, fresh, http.MethodGet, s.URL+"/auth/oidc", nil)
	if r := do(t, fresh, http.MethodGet, s.URL+"/auth/callback?code=x&state=y", nil); r.StatusCode != 401 {
		t.Errorf("another state: %d", r.StatusCode)
	}
	for _, bad := range []auth.ProviderConfig{{}, {Issuer: "http://plain.example", ClientID: "x", URL: "https://y"}, {Issuer: is.URL + "/none", ClientID: "x", URL: "https://y"}, {Issuer: is.URL, ClientID: "x", URL: "https://y", SecretFile: "/no/such/file"}} {
		if _, err := auth.NewProvider(context.Background(), bad, is.Client(), c.now); err == nil || !strings.HasPrefix(err.Error(), "oidc: ") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// both reaches two servers, each by its own certificate.
type both struct {
	s *httptest.Server
	i *issuer
}

func (b both) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(b.i.URL, r.URL.Host) {
		return b.i.Client().Transport.RoundTrip(r)
	}
	return b.s.Client().Transport.RoundTrip(r)
}
