package redfish

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// controllerConfig is one management controller in the configuration file:
//
//	controllers:
//	  - url: https://bmc.node1.example
//	    credentials_file: /etc/reckon/bmc      # one line, user:password, mode 0600
//	    ca_file: /etc/reckon/bmc-ca.pem        # or certificate_sha256: 64 hexadecimal digits
//	    chassis: Self                          # only if the controller has several
//	    interval: 30s
type controllerConfig struct {
	URL         string        `yaml:"url"`
	Credentials string        `yaml:"credentials_file"`
	CA          string        `yaml:"ca_file"`
	Pin         string        `yaml:"certificate_sha256"`
	Chassis     string        `yaml:"chassis"`
	Interval    time.Duration `yaml:"interval"`

	host           string
	user, password string
	sum            []byte
}

// Limits of the time between two requests; the longest is well below the gap over which power is integrated.
const (
	minInterval = 5 * time.Second
	maxInterval = time.Minute
)

func readConfig(file string) ([]controllerConfig, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the configuration of redfish: %w", err)
	}
	targets, err := parseConfig(text)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	for i := range targets {
		if err := targets[i].readCredentials(); err != nil {
			return nil, fmt.Errorf("%s, controller %s: %w", file, targets[i].host, err)
		}
	}
	return targets, nil
}

// parseConfig parses and checks the text. An unknown field is an error.
func parseConfig(text []byte) ([]controllerConfig, error) {
	var c struct {
		Controllers []controllerConfig `yaml:"controllers"`
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(c.Controllers) == 0 {
		return nil, errors.New("it names no controllers")
	}
	seen := make(map[string]bool)
	for i := range c.Controllers {
		t := &c.Controllers[i]
		if err := t.validate(); err != nil {
			return nil, fmt.Errorf("controller %d: %w", i+1, err)
		}
		if k := t.host + "/" + t.Chassis; seen[k] {
			return nil, fmt.Errorf("controller %d: %s is named twice", i+1, k)
		} else {
			seen[k] = true
		}
	}
	return c.Controllers, nil
}

func (t *controllerConfig) validate() error {
	u, err := url.Parse(t.URL)
	switch {
	case err != nil:
		return errors.New("url is not valid; write https://HOST")
	case u.Scheme != "https" || u.Host == "":
		return errors.New("url does not begin with https://HOST; credentials are not sent in clear")
	case u.User != nil:
		return errors.New("url holds credentials; put them into credentials_file")
	case t.Credentials == "":
		return errors.New("credentials_file is missing")
	case t.CA != "" && t.Pin != "":
		return errors.New("give ca_file or certificate_sha256, not both")
	}
	if t.Pin != "" {
		t.sum, err = hex.DecodeString(strings.ReplaceAll(t.Pin, ":", ""))
		if err != nil || len(t.sum) != 32 {
			return errors.New("certificate_sha256 is not 64 hexadecimal digits; `openssl x509 -fingerprint -sha256` prints them")
		}
	}
	if t.Interval == 0 {
		t.Interval = 30 * time.Second
	}
	if t.Interval < minInterval || t.Interval > maxInterval {
		return fmt.Errorf("interval %v is not between %v and %v", t.Interval, minInterval, maxInterval)
	}
	t.URL, t.host = strings.TrimRight(u.Scheme+"://"+u.Host, "/"), u.Host
	return nil
}

// readCredentials reads "user:password" from a file that only its owner may read.
func (t *controllerConfig) readCredentials() error {
	info, err := os.Stat(t.Credentials)
	if err != nil {
		return fmt.Errorf("read credentials: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("read credentials: others may read %s (mode %04o); chmod 600 it", t.Credentials, info.Mode().Perm())
	}
	b, err := os.ReadFile(t.Credentials)
	if err != nil {
		return fmt.Errorf("read credentials: %w", err)
	}
	user, password, ok := strings.Cut(strings.TrimRight(string(b), "\r\n"), ":")
	if !ok || user == "" {
		return fmt.Errorf("read credentials: %s is not one line user:password", t.Credentials)
	}
	t.user, t.password = user, password
	return nil
}
