package main

import (
	"context"

	"reckon/agent"
	"reckon/web/api"
	"reckon/web/client"
)

// inProcess runs the sensors in this process without a store, for `reckon top` without a server.
func inProcess(ctx context.Context) (<-chan client.Live, error) {
	a, _, err := agent.Open(agent.Config{})
	if err != nil {
		return nil, err
	}
	hub := new(api.Hub)
	ticks := hub.Subscribe(ctx)
	go func() {
		defer a.Close()
		defer hub.Close()
		_ = a.Run(ctx, hub) // it ends with ctx; missing sensors are not fatal
	}()
	return ticks, nil
}
