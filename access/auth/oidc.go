package auth

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"reckon/access"
)

// ProviderConfig configures sign-in with OpenID Connect (https://openid.net/specs/openid-connect-core-1_0.html): the authorization
// code flow with PKCE (RFC 7636), state and nonce.
type ProviderConfig struct {
	// Name is the provider's name on the sign-in page.
	Name string `yaml:"name"`
	// Issuer is its address; the rest is found by discovery.
	Issuer   string `yaml:"issuer"`
	ClientID string `yaml:"client_id"`
	// SecretFile holds the client's secret; a public client has none.
	SecretFile string `yaml:"client_secret_file"`
	// URL is the address of this server as users' browsers see it. The provider redirects them to
	// URL/auth/callback.
	URL    string   `yaml:"url"`
	Scopes []string `yaml:"scopes"` // besides openid; profile and email when empty
	// NameClaim holds the Unix name, by default preferred_username. OwnersClaim holds the owners of
	// the user's own work, by default that name.
	NameClaim   string `yaml:"name_claim"`
	OwnersClaim string `yaml:"owners_claim"`
	// GroupsClaim holds groups. Members of Admins and Supporters get that role. All others are users if they are in a
	// group of Users or Users is empty.
	GroupsClaim string   `yaml:"groups_claim"`
	Admins      []string `yaml:"admin_groups"`
	Supporters  []string `yaml:"support_groups"`
	Users       []string `yaml:"user_groups"`
}

// Provider signs people in by OpenID Connect.
type Provider struct {
	ProviderConfig
	oauth    oauth2.Config
	verifier *oidc.IDTokenVerifier
	client   *http.Client
	clock    func() time.Time
}

// NewProvider fetches the addresses and keys of the provider. client may be nil.
func NewProvider(ctx context.Context, c ProviderConfig, client *http.Client, clock func() time.Time) (*Provider, error) {
	switch {
	case c.Issuer == "" || c.ClientID == "" || c.URL == "":
		return nil, errors.New("oidc: give issuer, client_id and url")
	case !strings.HasPrefix(c.Issuer, "https://"):
		return nil, fmt.Errorf("oidc: the issuer %s must begin with https://", c.Issuer)
	}
	if c.Name == "" {
		c.Name = "single sign-on"
	}
	if len(c.Scopes) == 0 {
		c.Scopes = []string{"profile", "email"}
	}
	if c.NameClaim == "" {
		c.NameClaim = "preferred_username"
	}
	if client == nil {
		client = &http.Client{Timeout: 15 * time.Second}
	}
	secret := ""
	if c.SecretFile != "" {
		raw, err := os.ReadFile(c.SecretFile)
		if err != nil {
			return nil, fmt.Errorf("oidc: client_secret_file: %w", err)
		}
		secret = strings.TrimSpace(string(raw))
	}
	// The keys are fetched long after this function has returned.
	p, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), client), c.Issuer)
	if err != nil {
		return nil, fmt.Errorf("oidc: read the configuration of %s: %w", c.Issuer, err)
	}
	return &Provider{
		ProviderConfig: c, client: client, clock: clock,
		oauth: oauth2.Config{
			ClientID: c.ClientID, ClientSecret: secret, Endpoint: p.Endpoint(),
			RedirectURL: strings.TrimRight(c.URL, "/") + "/auth/callback", Scopes: append([]string{oidc.ScopeOpenID}, c.Scopes...),
		},
		verifier: p.Verifier(&oidc.Config{ClientID: c.ClientID, Now: clock}),
	}, nil
}

const (
	flowCookie = "reckon_signin"
	flowLasts  = 10 * time.Minute
)

// flow is the state of a sign-in. The browser keeps it in a cookie while the user is at the provider.
type flow struct{ State, Nonce, Verifier, Next string }

// redirectToProvider redirects the browser to the provider.
func (p *Provider) redirectToProvider(w http.ResponseWriter, r *http.Request, a *Authenticator) {
	fl := flow{State: randomSecret(), Nonce: randomSecret(), Verifier: oauth2.GenerateVerifier(), Next: localRedirect(r.FormValue("next"))}
	raw, err := json.Marshal(fl)
	if err != nil || len(raw) > 3000 { // too long for a cookie
		fl.Next = "/"
		raw, _ = json.Marshal(fl)
	}
	// Lax: the redirect back from the provider is a navigation from another site.
	http.SetCookie(w, a.newCookie(r, flowCookie, base64.RawURLEncoding.EncodeToString(raw), int(flowLasts.Seconds()), http.SameSiteLaxMode))
	http.Redirect(w, r, p.oauth.AuthCodeURL(fl.State, oidc.Nonce(fl.Nonce), oauth2.S256ChallengeOption(fl.Verifier)), http.StatusSeeOther)
}

func randomSecret() string {
	raw := make([]byte, 24)
	_, _ = rand.Read(raw) // never fails (crypto/rand)
	return base64.RawURLEncoding.EncodeToString(raw)
}

// handleCallback handles the redirect back from the provider.
func (p *Provider) handleCallback(w http.ResponseWriter, r *http.Request, a *Authenticator) {
	http.SetCookie(w, a.newCookie(r, flowCookie, "", -1, http.SameSiteLaxMode))
	v, next, err := p.exchangeCode(r)
	if err != nil {
		a.Logger.WarnContext(r.Context(), "sign in by OpenID Connect", "err", err)
		a.recordRefusal(r, "")
		a.serveForm(w, r, http.StatusUnauthorized, p.Name+" did not sign you in. See the server log.")
		return
	}
	a.startSession(w, r, v, false, next)
}

func (p *Provider) exchangeCode(r *http.Request) (access.Viewer, string, error) {
	var fl flow
	c, err := r.Cookie(flowCookie)
	if err != nil {
		return access.Viewer{}, "", errors.New("the browser did not begin here, or took longer than ten minutes")
	}
	raw, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err != nil || json.Unmarshal(raw, &fl) != nil || fl.State == "" || fl.Nonce == "" {
		return access.Viewer{}, "", errors.New("the cookie of the sign-in cannot be read")
	}
	if !equalConstantTime(fl.State, r.FormValue("state")) {
		return access.Viewer{}, "", errors.New("the state is not the one that was sent")
	}
	if e := r.FormValue("error"); e != "" {
		return access.Viewer{}, "", fmt.Errorf("the provider returned %.100q: %.200q", e, r.FormValue("error_description"))
	}
	ctx := oidc.ClientContext(r.Context(), p.client)
	token, err := p.oauth.Exchange(ctx, r.FormValue("code"), oauth2.VerifierOption(fl.Verifier))
	if err != nil {
		return access.Viewer{}, "", fmt.Errorf("exchange the code: %w", err)
	}
	text, ok := token.Extra("id_token").(string)
	if !ok {
		return access.Viewer{}, "", errors.New("the provider sent no id_token")
	}
	id, err := p.verifier.Verify(ctx, text)
	if err != nil {
		return access.Viewer{}, "", err
	}
	if !equalConstantTime(id.Nonce, fl.Nonce) {
		return access.Viewer{}, "", errors.New("the nonce is not the one that was sent")
	}
	var claims map[string]any
	if err := id.Claims(&claims); err != nil {
		return access.Viewer{}, "", err
	}
	v, err := p.viewerFromClaims(claims)
	return v, localRedirect(fl.Next), err
}

// viewerFromClaims returns the viewer with these claims.
func (p *Provider) viewerFromClaims(claims map[string]any) (access.Viewer, error) {
	name, _ := claims[p.NameClaim].(string)
	if err := CheckName(name); err != nil {
		return access.Viewer{}, fmt.Errorf("claim %s: %w", p.NameClaim, err)
	}
	// An unverified email address is not accepted as a name.
	if verified, ok := claims["email_verified"].(bool); p.NameClaim == "email" && (!ok || !verified) {
		return access.Viewer{}, errors.New("claim email: it is not verified")
	}
	groups := claimStrings(claims[p.GroupsClaim])
	in := func(names []string) bool {
		return slices.ContainsFunc(groups, func(g string) bool { return slices.Contains(names, g) })
	}
	v := access.Viewer{Role: access.User, Name: name}
	if p.OwnersClaim != "" {
		v.Owners = claimStrings(claims[p.OwnersClaim])
	}
	switch {
	case in(p.Admins):
		v.Role = access.Admin
	case in(p.Supporters):
		v.Role = access.Support
	case len(p.Users) > 0 && !in(p.Users):
		return access.Viewer{}, fmt.Errorf("%s is in none of the groups that may sign in", name)
	}
	return v, nil
}

// claimStrings reads a claim that is a string or a list of strings.
func claimStrings(claim any) (out []string) {
	switch c := claim.(type) {
	case string:
		return []string{c}
	case []any:
		for _, x := range c {
			if s, ok := x.(string); ok && s != "" {
				out = append(out, s)
			}
		}
	}
	return out
}
