package webhooks

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"sync"
	"time"

	registration "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// certValidity is the validity of a certificate. The certificate is replaced after two thirds of that time.
const certValidity = 90 * 24 * time.Hour

// Certificate is the TLS certificate of the operator's webhooks. It is created when the operator starts and kept only
// in memory. The certificate without its key is written to the webhook configurations. It is safe for concurrent use.
type Certificate struct {
	Names []string // of the service
	// Validating and Mutating are the names of the configurations; empty: none.
	Validating, Mutating string
	Client               client.Client
	Log                  *slog.Logger
	// Now is the clock; nil: time.Now.
	Now func() time.Time

	mu    sync.Mutex
	pair  *tls.Certificate
	until time.Time
	ca    []byte // PEM of the certificate and of the previous one, which clients may still use
}

// Get is tls.Config.GetCertificate.
func (c *Certificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pair == nil {
		return nil, fmt.Errorf("there is no certificate yet")
	}
	return c.pair, nil
}

// Renew creates a certificate if there is none or it is old, and reports whether it did.
func (c *Certificate) Renew() (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.Now != nil {
		now = c.Now()
	}
	if c.pair != nil && now.Before(c.until.Add(-certValidity/3)) {
		return false, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return false, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return false, err
	}
	// Clocks may be apart: it is valid from an hour ago.
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: c.Names[0]}, DNSNames: c.Names, NotBefore: now.Add(-time.Hour),
		NotAfter: now.Add(certValidity),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return false, err
	}
	old := c.ca
	if first, _ := pem.Decode(old); first != nil {
		old = pem.EncodeToMemory(first)
	}
	c.ca = append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), old...)
	c.pair, c.until = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, template.NotAfter
	return true, nil
}

// Publish writes the certificate into the webhook configurations.
func (c *Certificate) Publish(ctx context.Context) error {
	c.mu.Lock()
	ca := bytes.Clone(c.ca)
	c.mu.Unlock()
	if c.Validating != "" {
		w := &registration.ValidatingWebhookConfiguration{}
		if err := c.Client.Get(ctx, types.NamespacedName{Name: c.Validating}, w); err != nil {
			return err
		}
		changed := false
		for i := range w.Webhooks {
			changed = changed || !bytes.Equal(w.Webhooks[i].ClientConfig.CABundle, ca)
			w.Webhooks[i].ClientConfig.CABundle = ca
		}
		if changed {
			if err := c.Client.Update(ctx, w); err != nil {
				return err
			}
		}
	}
	if c.Mutating == "" {
		return nil
	}
	w := &registration.MutatingWebhookConfiguration{}
	if err := c.Client.Get(ctx, types.NamespacedName{Name: c.Mutating}, w); err != nil {
		return err
	}
	changed := false
	for i := range w.Webhooks {
		changed = changed || !bytes.Equal(w.Webhooks[i].ClientConfig.CABundle, ca)
		w.Webhooks[i].ClientConfig.CABundle = ca
	}
	if !changed {
		return nil
	}
	return c.Client.Update(ctx, w)
}

// Start renews and publishes the certificate until ctx ends. It checks the webhook configurations of the operator every
// minute, because an upgrade of the chart overwrites the certificate in them.
func (c *Certificate) Start(ctx context.Context) error {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		if _, err := c.Renew(); err != nil {
			return err
		}
		if err := c.Publish(ctx); err != nil && ctx.Err() == nil {
			c.Log.Warn("write the certificate into the webhook configurations", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
