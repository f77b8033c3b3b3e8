package redfish

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"reckon/metric"
	"reckon/sensor"
)

// controller is one management controller and its last reading.
type controller struct {
	controllerConfig
	zone     string
	interval time.Duration
	client   *http.Client
	source   string  // path of the resource with the power, once it is found
	limit    float64 // watts that the resource states, 0 for none
	energy   sensor.Integral
	row      *metric.Series

	mu      sync.Mutex // guards the fields below
	last    powerReading
	failure error
}

type powerReading struct {
	watts float64
	at    time.Time
	took  time.Duration
}

// refusedError reports that the controller rejects the credentials.
type refusedError struct{ status string }

func (e *refusedError) Error() string {
	return "it refuses the credentials (" + e.status + "); the account needs the privilege Login"
}

func newController(t controllerConfig) (*controller, error) {
	c := &controller{controllerConfig: t, zone: t.host, interval: t.Interval}
	if t.Chassis != "" {
		c.zone += "/" + t.Chassis
	}
	c.row = metric.NewSeries(requestDuration, c.zone)
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	switch {
	case t.CA != "":
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("read the authorities of controller %s: %w", t.host, err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read the authorities of controller %s: %s holds no certificate in PEM", t.host, t.CA)
		}
	case t.sum != nil:
		conf.InsecureSkipVerify = true // verified by its hash instead, also when a session is resumed
		conf.VerifyConnection = func(s tls.ConnectionState) error {
			sum := sha256.Sum256(s.PeerCertificates[0].Raw)
			if !bytes.Equal(sum[:], t.sum) {
				return fmt.Errorf("its certificate has the SHA-256 sum %x, not the one of the configuration", sum)
			}
			return nil
		}
	}
	c.client = &http.Client{
		Timeout:       20 * time.Second,
		Transport:     &http.Transport{TLSClientConfig: conf, MaxConnsPerHost: 1, MaxIdleConnsPerHost: 1, IdleConnTimeout: 2 * time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// getResource reads one resource into v.
func (c *controller) getResource(ctx context.Context, resource string, v any) error {
	if !strings.HasPrefix(resource, "/redfish/") {
		return fmt.Errorf("it points to %q, which is no resource of its own", resource)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+resource, nil)
	if err != nil {
		return err
	}
	req.SetBasicAuth(c.user, c.password)
	req.Header.Set("Accept", "application/json")
	resp, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	switch {
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return &refusedError{resp.Status}
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("get %s: %s", resource, resp.Status)
	case err != nil:
		return fmt.Errorf("get %s: %w", resource, err)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("get %s: %w", resource, err)
	}
	return nil
}

type resourceLink struct {
	ID string `json:"@odata.id"`
}

// powerResource has those fields of Chassis, EnvironmentMetrics and Power that are read.
type powerResource struct {
	Environment resourceLink `json:"EnvironmentMetrics"`
	Power       resourceLink `json:"Power"`
	PowerWatts  struct {
		Reading *float64 `json:"Reading"`
		Most    float64  `json:"ReadingRangeMax"`
	} `json:"PowerWatts"`
	PowerControl []struct {
		Watts *float64 `json:"PowerConsumedWatts"`
		Most  float64  `json:"PowerCapacityWatts"`
	} `json:"PowerControl"`
}

// powerOf returns the power in a resource, if it has one, and records its limit.
func (c *controller) powerOf(r *powerResource) (watts float64, ok bool) {
	if w := r.PowerWatts.Reading; w != nil {
		c.limit = r.PowerWatts.Most
		return *w, true
	}
	if len(r.PowerControl) > 0 && r.PowerControl[0].Watts != nil {
		c.limit = r.PowerControl[0].Most
		return *r.PowerControl[0].Watts, true
	}
	return 0, false
}

// requestPower requests the power; the first time it searches for the resource that has it.
func (c *controller) requestPower(ctx context.Context) (float64, error) {
	if c.source != "" {
		var r powerResource
		if err := c.getResource(ctx, c.source, &r); err != nil {
			return 0, err
		}
		if w, ok := c.powerOf(&r); ok {
			return w, nil
		}
		source := c.source
		c.source = "" // after a firmware update it may be elsewhere
		return 0, fmt.Errorf("%s has no power now", source)
	}
	var all struct {
		Members []resourceLink `json:"Members"`
	}
	if err := c.getResource(ctx, "/redfish/v1/Chassis", &all); err != nil {
		return 0, err
	}
	var names, have []string
	var watts float64
	var source string
	for _, m := range all.Members[:min(len(all.Members), 64)] {
		name := path.Base(m.ID)
		names = append(names, name)
		if c.Chassis != "" && name != c.Chassis {
			continue
		}
		w, at, err := c.searchChassis(ctx, m.ID)
		if err != nil {
			return 0, fmt.Errorf("chassis %q: %w", name, err)
		}
		if at != "" && at != source { // chassis may share one resource of power
			watts, source = w, at
			have = append(have, fmt.Sprintf("%s (%.0f W)", name, w))
		}
	}
	switch {
	case len(have) == 1:
		c.source = source
		return watts, nil
	case len(have) > 1:
		return 0, fmt.Errorf(
			"%d chassis have power, and one may be inside another: %s; name one by chassis:, or several as a controller each",
			len(have), strings.Join(have, ", "))
	case c.Chassis != "":
		return 0, fmt.Errorf("chassis %q has no power; there are %s", c.Chassis, strings.Join(names, ", "))
	}
	return 0, errors.New("no chassis of it has power: " + strings.Join(names, ", "))
}

// searchChassis searches for a power reading in a chassis. source is empty if there is none.
func (c *controller) searchChassis(ctx context.Context, id string) (watts float64, source string, err error) {
	var chassis powerResource
	if err := c.getResource(ctx, id, &chassis); err != nil {
		return 0, "", err
	}
	for _, l := range []resourceLink{chassis.Environment, chassis.Power} {
		if l.ID == "" {
			continue
		}
		var r powerResource
		if err := c.getResource(ctx, l.ID, &r); err != nil {
			return 0, "", err
		}
		if w, ok := c.powerOf(&r); ok {
			return w, l.ID, nil
		}
	}
	return 0, "", nil
}
