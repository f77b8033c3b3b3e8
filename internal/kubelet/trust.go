package kubelet

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// serverTrust verifies that a TLS server is the kubelet of this machine. A kubelet's certificate may be signed by the
// cluster's authority for the node's name and addresses. More often it is self-signed and names only the host. A
// self-signed certificate must equal the certificate file on this machine.
type serverTrust struct {
	Config
	host string
}

// ownCertificates returns the files in which a kubelet keeps its serving certificate.
func (t *serverTrust) ownCertificates() []string {
	dir := filepath.Join(cmp.Or(t.Root, "/"), "var/lib/kubelet/pki")
	return []string{filepath.Join(dir, "kubelet-server-current.pem"), filepath.Join(dir, "kubelet.crt")}
}

func (t *serverTrust) certificateRoots() (*x509.CertPool, error) {
	name := cmp.Or(t.CAFile, serviceAccountDir+"/ca.crt")
	text, err := os.ReadFile(name)
	if err != nil {
		if t.CAFile == "" {
			return x509.SystemCertPool()
		}
		return nil, fmt.Errorf("kubelet: read the certificates to trust: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("kubelet: %s holds no certificate in PEM form", name)
	}
	return pool, nil
}

// verify checks the certificates of the server. Package tls calls it during the handshake.
func (t *serverTrust) verify(s tls.ConnectionState) error {
	if t.Insecure {
		return nil
	}
	leaf := s.PeerCertificates[0]
	for _, name := range append(t.ownCertificates(), t.CAFile) {
		if name != "" && containsCertificate(name, leaf) {
			return nil
		}
	}
	roots, err := t.certificateRoots()
	if err != nil {
		return err
	}
	o := x509.VerifyOptions{Roots: roots, DNSName: t.host, Intermediates: x509.NewCertPool()}
	for _, c := range s.PeerCertificates[1:] {
		o.Intermediates.AddCert(c)
	}
	if _, err = leaf.Verify(o); err == nil {
		return nil
	}
	var host x509.HostnameError
	if errors.As(err, &host) && t.Node != "" { // an address such as 127.0.0.1 is in no certificate
		o.DNSName = t.Node
		if _, again := leaf.Verify(o); again == nil {
			return nil
		}
	}
	return fmt.Errorf("the certificate of the kubelet is not trusted: %w; name the authority that signed it with the setting kubelet-ca",
		err)
}

// containsCertificate reports whether a file of PEM blocks has the certificate.
func containsCertificate(name string, leaf *x509.Certificate) bool {
	text, err := os.ReadFile(name)
	if err != nil {
		return false
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" && bytes.Equal(block.Bytes, leaf.Raw) {
			return true
		}
	}
	return false
}
