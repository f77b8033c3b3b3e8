package push

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Endpoint is a receiver of samples. The fields have the names of the configuration file.
type Endpoint struct {
	// Name is the name of the folder of the queue and of the endpoint in series; the host and path by default.
	Name string `yaml:"name"`
	// URL is the full address. The default path is /api/v1/write, which reckon, Prometheus and VictoriaMetrics have.
	URL string `yaml:"url"`
	// TokenFile holds a bearer token; it is read for every request, so that it can be replaced.
	TokenFile string `yaml:"token_file"`
	// Username and PasswordFile are basic authentication.
	Username     string `yaml:"username"`
	PasswordFile string `yaml:"password_file"`
	// Headers are sent unchanged, such as X-Scope-OrgID for Mimir.
	Headers map[string]string `yaml:"headers"`

	Labels map[string]string `yaml:"labels"` // added to every series; these win over the agent's
	Keep   []string          `yaml:"keep"`   // see Filter
	Drop   []string          `yaml:"drop"`

	Protocol   string `yaml:"protocol"`   // auto, 2.0, 1.0
	Histograms string `yaml:"histograms"` // auto, native, classic: their form in remote write 1.0

	TLS     TLS           `yaml:"tls"`
	Timeout time.Duration `yaml:"timeout"` // of a request, default 30 s
	Queue   QueueLimits   `yaml:"queue"`
}

// QueueLimits limit the queue of an unreachable endpoint.
type QueueLimits struct {
	MaxBytes int64         `yaml:"max_bytes"` // default 256 MiB
	MaxAge   time.Duration `yaml:"max_age"`   // default 7 days
}

// TLS configures the certificate authorities to trust and the client certificate.
type TLS struct {
	CAFile     string `yaml:"ca_file"`
	CertFile   string `yaml:"cert_file"`
	KeyFile    string `yaml:"key_file"`
	ServerName string `yaml:"server_name"`
	// SkipVerify accepts any certificate. It is for tests.
	SkipVerify bool `yaml:"insecure_skip_verify"`
}

const defaultPath = "/api/v1/write"

// ParseURL parses the address of an endpoint. Its errors include the remedy.
func ParseURL(s string) (*url.URL, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return nil, errors.New("the address is empty; write it like http://server:9870")
	}
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		return nil, fmt.Errorf("%q does not begin with http:// or https://; write http://%s", s, strings.TrimLeft(s, "/"))
	}
	if scheme != "http" && scheme != "https" {
		return nil, fmt.Errorf("%q: remote write goes by http or https, not by %s; write http://%s", s, scheme, rest)
	}
	u, err := url.Parse(s)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		return nil, fmt.Errorf("%q is not an address: %w; write it like http://server:9870", s, err)
	}
	if u.Hostname() == "" {
		return nil, fmt.Errorf("%q names no host; write it like http://server:9870", s)
	}
	if u.User != nil {
		return nil, fmt.Errorf(
			"the address of %s holds a password, which others can see in the list of processes; write it into a file and name that with "+
				"password_file", u.Host)
	}
	if u.Fragment != "" {
		return nil, fmt.Errorf("%q: the part after # is never sent; leave it out", s)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = defaultPath
	}
	return u, nil
}

// endpointName derives the name of the queue folder from an address.
func endpointName(u *url.URL) string {
	s := u.Host
	if u.Path != defaultPath || u.RawQuery != "" {
		s += u.Path + u.RawQuery
	}
	return folderName(s)
}

func folderName(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-', r == '_':
			return r
		}
		return '_'
	}, s)
}

// newClient returns the HTTP client of an endpoint. It follows no redirect, because a POST would become a GET and silently lose samples.
func newClient(e *Endpoint, host string) (*http.Client, error) {
	conf := &tls.Config{ServerName: e.TLS.ServerName, InsecureSkipVerify: e.TLS.SkipVerify, MinVersion: tls.VersionTLS12}
	if e.TLS.CAFile != "" {
		pem, err := os.ReadFile(e.TLS.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read the certificates to trust for %s: %w", host, err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate in PEM form", e.TLS.CAFile)
		}
	}
	if (e.TLS.CertFile == "") != (e.TLS.KeyFile == "") {
		return nil, fmt.Errorf("push to %s: cert_file and key_file belong together; give both", host)
	}
	if e.TLS.CertFile != "" {
		if _, err := tls.LoadX509KeyPair(e.TLS.CertFile, e.TLS.KeyFile); err != nil {
			return nil, fmt.Errorf("read the certificate to show to %s: %w", host, err)
		}
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			c, err := tls.LoadX509KeyPair(e.TLS.CertFile, e.TLS.KeyFile) // read each time, so that it can be replaced
			return &c, err
		}
	}
	return &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSClientConfig:     conf,
			TLSHandshakeTimeout: 10 * time.Second,
			MaxIdleConnsPerHost: 1,
			IdleConnTimeout:     3 * time.Minute,
			WriteBufferSize:     4 << 10, ReadBufferSize: 4 << 10,
		},
		Timeout:       e.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// authorize adds our credentials.
func (e *Endpoint) authorize(h http.Header) error {
	for k, v := range e.Headers {
		h.Set(k, v)
	}
	switch {
	case e.TokenFile != "":
		token, err := readSecret(e.TokenFile)
		if err != nil {
			return fmt.Errorf("the token: %w", err)
		}
		h.Set("Authorization", "Bearer "+token)
	case e.Username != "":
		password, err := readSecret(e.PasswordFile)
		if err != nil {
			return fmt.Errorf("the password: %w", err)
		}
		h.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(e.Username+":"+password)))
	}
	return nil
}

// readSecret reads a file that holds one line.
func readSecret(file string) (string, error) {
	if err := checkNotWritable(file); err != nil {
		return "", err
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	s := strings.TrimSpace(string(raw))
	if s == "" || strings.ContainsAny(s, "\r\n") {
		return "", fmt.Errorf("%s should hold one line", file)
	}
	return s, nil
}

// checkNotWritable returns an error if users other than the owner may write or replace a secret file, because such a
// user would control where this program sends. For a link, as in a Kubernetes Secret, it checks the target.
func checkNotWritable(file string) error {
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return err
	}
	for _, name := range []string{real, filepath.Dir(real)} {
		st, err := os.Stat(name)
		if err != nil {
			return err
		}
		if others := st.Mode().Perm() & 0o022; others != 0 && st.Mode()&os.ModeSticky == 0 {
			return fmt.Errorf("%s may be written by others than its owner (mode %#o): `chmod go-w %s`, and look at what it holds", name,
				st.Mode().Perm(), name)
		}
	}
	return nil
}
