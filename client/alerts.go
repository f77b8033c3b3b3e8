package client

import (
	"context"
	"net/url"
)

// AlertTest is the state of a test of the alert delivery path.
type AlertTest struct {
	ID         string          `json:"id"`         // Names the test.
	Deliveries []AlertDelivery `json:"deliveries"` // The places that it goes to.
}

// AlertDelivery is the delivery of an alert to one receiver.
type AlertDelivery struct {
	Alertmanager string `json:"alertmanager"` // Address of the Alertmanager, or embedded.
	// Receiver of its configuration; empty until the alert has arrived at one that runs elsewhere.
	Receiver string `json:"receiver"`
	// Integration: email, webhook and the like with their number in the receiver; empty where only the Alertmanager
	// knows.
	Integration string `json:"integration"`
	Arrived     bool   `json:"arrived"` // Whether it has arrived.
	Error       string `json:"error"`   // Why it has not.
}

// Done reports whether every delivery has arrived or failed.
func (t *AlertTest) Done() bool {
	for i := range t.Deliveries {
		if d := &t.Deliveries[i]; !d.Arrived && d.Error == "" {
			return false
		}
	}
	return len(t.Deliveries) > 0
}

// TestAlert sends a test alert.
func (c *Client) TestAlert(ctx context.Context) (AlertTest, error) {
	var t AlertTest
	err := c.post(ctx, "/api/reckon/v1/alerts/test", nil, &t)
	return t, err
}

// AlertTest returns the state of a test.
func (c *Client) AlertTest(ctx context.Context, id string) (AlertTest, error) {
	var t AlertTest
	err := c.get(ctx, "/api/reckon/v1/alerts/test/"+url.PathEscape(id), nil, &t)
	return t, err
}

// Alerts lists the pending and firing alerts.
func (c *Client) Alerts(ctx context.Context) ([]Alert, error) {
	var answer struct {
		Data struct {
			Alerts []Alert `json:"alerts"`
		} `json:"data"`
	}
	err := c.get(ctx, "/api/v1/alerts", nil, &answer)
	return answer.Data.Alerts, err
}

// Rules lists the evaluated rules.
func (c *Client) Rules(ctx context.Context) ([]Rule, error) {
	var answer struct {
		Data struct {
			Groups []struct {
				Name  string `json:"name"`
				File  string `json:"file"`
				Rules []Rule `json:"rules"`
			} `json:"groups"`
		} `json:"data"`
	}
	if err := c.get(ctx, "/api/v1/rules", nil, &answer); err != nil {
		return nil, err
	}
	var out []Rule
	for _, g := range answer.Data.Groups {
		for _, r := range g.Rules {
			r.Group, r.File = g.Name, g.File
			out = append(out, r)
		}
	}
	return out, nil
}
