package auth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// ErrKeys reports that a token cannot be checked now, because the API server returned no keys. The
// token may be valid, so the sender should retry.
var ErrKeys = errors.New("the API server of the cluster returned no keys to check tokens with")

const (
	// keysLast is the time that keys are trusted. A key that the cluster withdrew is refused after this time.
	keysLast = 10 * time.Minute
	// keysPause is the minimum time between two requests: tokens with invented key ids do not cause a request each.
	keysPause = 5 * time.Second
)

// clusterKeys caches the issuer and signing keys of a cluster
// (https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/#service-account-issuer-discovery).
// It fetches both from the API server, because the address in the discovery document may be reachable only from
// outside the cluster.
type clusterKeys struct {
	server, tokenFile string
	client            *http.Client
	clock             func() time.Time
	log               *slog.Logger

	mu     sync.Mutex
	issuer string
	set    jose.JSONWebKeySet
	read   time.Time // last successful fetch
	tried  time.Time // last attempt
	why    error     // error of the last attempt; nil if it succeeded
}

func newClusterKeys(server string, ca []byte, tokenFile string, clock func() time.Time, log *slog.Logger) (*clusterKeys, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, errors.New("it holds no certificate in PEM form")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, MaxConnsPerHost: 2,
		IdleConnTimeout: time.Minute}
	return &clusterKeys{
		server: server, tokenFile: tokenFile, clock: clock, log: log,
		client: &http.Client{Timeout: 10 * time.Second, Transport: transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}, nil
}

// clusterIssuer returns the issuer of the cluster.
func (k *clusterKeys) clusterIssuer(ctx context.Context) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	err := k.refreshKeys(ctx, false)
	return k.issuer, err
}

// keysByID returns the keys with an id, fetching the keys again if none here has it.
func (k *clusterKeys) keysByID(ctx context.Context, id string) ([]jose.JSONWebKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if found := k.set.Key(id); len(found) > 0 {
		return found, nil
	}
	err := k.refreshKeys(ctx, true)
	found := k.set.Key(id)
	if len(found) == 0 && err == nil {
		err = k.why // the key may be among those that could not be fetched
	}
	return found, err
}

// refreshKeys fetches the keys from the API server if they are old or wanted is set, but not more often than every
// keysPause. Old keys stay in use while the API server is unreachable. It holds the lock during the request, so that
// concurrent callers share the response.
func (k *clusterKeys) refreshKeys(ctx context.Context, wanted bool) error {
	now := k.clock()
	have := !k.read.IsZero()
	if have && !wanted && now.Sub(k.read) < keysLast {
		return nil
	}
	if age := now.Sub(k.tried); !k.tried.IsZero() && age >= 0 && age < keysPause {
		if have {
			return nil
		}
		return k.why
	}
	k.tried = now
	issuer, set, err := k.fetchKeys(context.WithoutCancel(ctx))
	if err != nil {
		k.why = fmt.Errorf("%w: %w", ErrKeys, err)
		k.log.Warn("the keys for tokens of service accounts", "err", err)
		if have {
			return nil
		}
		return k.why
	}
	k.issuer, k.set, k.read, k.why = issuer, set, now, nil
	return nil
}

func (k *clusterKeys) fetchKeys(ctx context.Context) (issuer string, set jose.JSONWebKeySet, err error) {
	var found struct {
		Issuer string `json:"issuer"`
	}
	if err := k.getJSON(ctx, "/.well-known/openid-configuration", &found); err != nil {
		return "", set, err
	}
	if found.Issuer == "" {
		return "", set, fmt.Errorf("%s names no issuer", k.server)
	}
	if err := k.getJSON(ctx, "/openid/v1/jwks", &set); err != nil {
		return "", set, err
	}
	if len(set.Keys) == 0 {
		return "", set, fmt.Errorf("%s names no keys", k.server)
	}
	return found.Issuer, set, nil
}

// getJSON requests a path from the API server with the token of this pod and decodes the JSON response into to. It rereads
// the token file for each request, because Kubernetes replaces the token.
func (k *clusterKeys) getJSON(ctx context.Context, path string, to any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.server+path, nil)
	if err != nil {
		return err
	}
	switch token, err := os.ReadFile(k.tokenFile); {
	case err == nil:
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	case !errors.Is(err, os.ErrNotExist): // some clusters need no token
		return fmt.Errorf("token_file: %w", err)
	}
	resp, err := k.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf(
			"%s answers %s to %s; bind the ClusterRole system:service-account-issuer-discovery to the service account of this server",
			k.server, resp.Status, path)
	default:
		return fmt.Errorf("%s answers %s to %s", k.server, resp.Status, path)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, to); err != nil {
		return fmt.Errorf("the answer of %s to %s cannot be read: %w", k.server, path, err)
	}
	return nil
}

// keySet verifies one signature (oidc.KeySet). err is the error of looking up the keys, if any.
type keySet struct {
	keys *clusterKeys
	err  error
}

// VerifySignature returns the payload of a token if a key of the cluster signed it.
func (s *keySet) VerifySignature(ctx context.Context, text string) ([]byte, error) {
	algorithms := signatureAlgorithms()
	allowed := make([]jose.SignatureAlgorithm, len(algorithms))
	for i, a := range algorithms {
		allowed[i] = jose.SignatureAlgorithm(a)
	}
	signed, err := jose.ParseSigned(text, allowed)
	if err != nil || len(signed.Signatures) != 1 {
		return nil, errors.New("it is not signed as tokens of service accounts are")
	}
	keys, err := s.keys.keysByID(ctx, signed.Signatures[0].Header.KeyID)
	if err != nil {
		s.err = err
		return nil, err
	}
	for i := range keys {
		if payload, err := signed.Verify(&keys[i]); err == nil {
			return payload, nil
		}
	}
	return nil, errors.New("no key of this cluster signed it")
}

func joinHostPort(host, port string) string { return net.JoinHostPort(strings.Trim(host, "[]"), port) }
