package client

import (
	"context"
	"net/url"
)

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

// AlertReceivers returns the receivers of alerts.
func (c *Client) AlertReceivers(ctx context.Context) (out AlertReceivers, err error) {
	err = c.get(ctx, "/api/reckon/v1/alerts/receivers", nil, &out)
	return out, err
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
