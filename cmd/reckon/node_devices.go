package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"reckon/internal/term"
	"reckon/web/client"
)

// fetchDevices fetches the devices of a node. It returns nil if the server has none or the viewer may not see them.
func fetchDevices(ctx context.Context, c *client.Client, n *client.Node) (*client.NodeDevices, error) {
	if !n.Up || !n.Agent {
		return nil, nil
	}
	d, err := c.Devices(ctx, n.Site, n.Node)
	var refused *client.APIError
	switch {
	case errors.As(err, &refused) &&
		(refused.Status == http.StatusNotFound || refused.Status == http.StatusForbidden || refused.Status == http.StatusUnauthorized):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &d, nil
}

// printDevices prints the existing disks, network file systems and ports.
func printDevices(s term.Screen, d *client.NodeDevices) error {
	if d == nil {
		return nil
	}
	disks := term.TableOf("DISK:s12|BUSY:r|WAITING:r|THREADS:r|READ:r|WRITE:r|A READ TAKES:r|A WRITE TAKES:r")
	for _, x := range d.Disks {
		disks.Add(x.Device, term.Percent(x.Busy), term.Number(x.Waiting), term.Number(x.Threads), term.Rate(x.ReadBytes),
			term.Rate(x.WriteBytes), formatLatency(x.ReadSeconds), formatLatency(x.WriteSeconds))
	}
	mounts := term.TableOf("FILE SYSTEM:s12|READ:r|WRITE:r|OPERATIONS/S:r|METADATA/S:r|A READ TAKES:r|A WRITE TAKES:r|METADATA TAKES:r" +
		"|SENT AGAIN/S:r")
	for _, x := range d.Mounts {
		mounts.Add(x.Type+" "+x.Source, term.Rate(x.ReadBytes), term.Rate(x.WriteBytes), term.Number(x.Operations),
			term.Number(x.MetadataRate),
			formatLatency(x.ReadSeconds), formatLatency(x.WriteSeconds), formatLatency(x.MetadataSeconds), term.Number(x.Retransmissions))
	}
	links := term.TableOf("INTERCONNECT:s12|LINK:r|RATE:r|RECEIVE:r|TRANSMIT:r|COUNTERS AT THEIR END")
	for _, x := range d.Links {
		state := term.Unknown
		if x.Up != nil {
			state = map[bool]string{true: "up", false: "down"}[*x.Up]
		}
		name := x.Device
		if x.Port != "" {
			name += " port " + x.Port
		}
		links.Add(name+", "+x.Layer, state, term.Rate(x.Rate), term.Rate(x.ReceiveBytes), term.Rate(x.TransmitBytes),
			strings.Join(x.Saturated, ", "))
	}
	sockets := term.TableOf("SOCKET:s12|READ:r|WRITE:r|LOCAL:r|REMOTE:r|CACHE IN USE:r")
	for _, x := range d.Sockets {
		sockets.Add(x.Socket, term.Rate(x.ReadBytes), term.Rate(x.WriteBytes), term.Rate(x.LocalBytes), term.Rate(x.RemoteBytes),
			term.Bytes(x.CacheBytes))
	}
	for _, x := range []struct {
		title string
		n     int
		table *term.Table
	}{{"Disks", len(d.Disks), disks}, {"Network file systems", len(d.Mounts), mounts}, {"Interconnects", len(d.Links), links},
		{"Memory traffic", len(d.Sockets), sockets}} {
		if x.n == 0 {
			continue
		}
		if _, err := fmt.Fprintf(s, "\n%s\n", s.Paint(term.Bold, x.title)); err != nil {
			return err
		}
		if err := x.table.Print(s); err != nil {
			return err
		}
	}
	return nil
}

// formatLatency formats a time below a second with suitable precision.
func formatLatency(v *float64) string {
	switch {
	case v == nil:
		return term.Unknown
	case *v < 0.01:
		return fmt.Sprintf("%.2f ms", *v*1e3)
	case *v < 1:
		return fmt.Sprintf("%.0f ms", *v*1e3)
	}
	return term.Seconds(v)
}
