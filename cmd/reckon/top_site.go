package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"reckon/figure"
	"reckon/web/client"
)

const (
	siteEvery = 15 * time.Second // about the export interval of nodes
	siteRows  = 2000             // maximum number of workloads requested by name
	siteRange = "[2m]"
)

// pollSite polls a server that has no agent for recent data of its nodes until ctx ends. l is the first answer.
func pollSite(ctx context.Context, c *client.Client, l client.Live, every time.Duration) <-chan feedMsg {
	feed := make(chan feedMsg)
	go func() {
		defer close(feed)
		again := time.NewTicker(every)
		defer again.Stop()
		var err error
		for {
			select {
			case feed <- feedMsg{live: l, err: err}:
			case <-ctx.Done():
				return
			}
			select {
			case <-again.C:
			case <-ctx.Done():
				return
			}
			l, err = fetchSite(ctx, c)
		}
	}()
	return feed
}

// fetchSite presents a site as if it were one machine.
func fetchSite(ctx context.Context, c *client.Client) (client.Live, error) {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return client.Live{}, err
	}
	running := true
	list, err := c.Workloads(ctx, client.Filter{Running: &running, Sort: "-cpu_seconds", Limit: siteRows})
	if err != nil {
		return client.Live{}, err
	}
	l := client.Live{Time: time.Now()}
	if nodes.AsOf != nil {
		l.Time = *nodes.AsOf
	}
	up, sites := 0, []string{}
	for i := range nodes.Nodes {
		n := &nodes.Nodes[i]
		if n.Site != "" && !slices.Contains(sites, n.Site) {
			sites = append(sites, n.Site)
		}
		if !n.Up {
			continue
		}
		up++
		if n.Cores != nil {
			l.Cores += *n.Cores
		}
		figure.Plus(&l.GPUs, n.GPUs)
		figure.Plus(&l.GPUsUsed, n.GPUsUsed)
		figure.Plus(&l.GPUMemory, n.GPUMemory)
		figure.Plus(&l.GPUMemUsed, n.GPUMemoryUsed)
		figure.Plus(&l.CoresUsed, n.CoresUsed)
		figure.Plus(&l.Memory, n.MemoryBytes)
		figure.Plus(&l.MemUsed, n.MemoryUsed)
	}
	switch len(sites) {
	case 0:
		l.Node = fmt.Sprintf("%d nodes", up)
	case 1:
		l.Node = fmt.Sprintf("%s, %d nodes", sites[0], up)
	default:
		l.Node = fmt.Sprintf("%d sites, %d nodes", len(sites), up)
	}
	at := make(map[string]int, len(list.Workloads))
	for i := range list.Workloads {
		w := &list.Workloads[i]
		if _, twice := at[w.ID]; twice || w.State == "pending" {
			continue
		}
		at[w.ID] = len(l.Workloads)
		one := client.LiveWorkload{ID: w.ID, Name: w.Name, Owner: w.Owner, Command: w.Command, MemoryPeak: w.MemoryPeakBytes,
			StartedAt: w.Start.Unix(), Exactness: w.Exactness}
		if w.CPUSeconds != nil {
			one.CPUSeconds = *w.CPUSeconds
		}
		l.Workloads = append(l.Workloads, one)
	}
	for _, q := range []struct {
		expr string
		put  func(w *client.LiveWorkload, v float64)
	}{
		{"rate(reckon_workload_cpu_seconds_total" + siteRange + ")", func(w *client.LiveWorkload, v float64) { w.Cores = v }},
		{"reckon_workload_memory_bytes", func(w *client.LiveWorkload, v float64) { w.MemoryBytes = &v }},
		{"rate(reckon_workload_io_bytes_total{direction=\"read\"}" + siteRange + ")",
			func(w *client.LiveWorkload, v float64) { w.ReadRate = &v }},
		{"rate(reckon_workload_io_bytes_total{direction=\"write\"}" + siteRange + ")",
			func(w *client.LiveWorkload, v float64) { w.WriteRate = &v }},
		{"rate(reckon_workload_network_bytes_total{direction=\"receive\"}" + siteRange + ")",
			func(w *client.LiveWorkload, v float64) { w.ReceiveRate = &v }},
		{"rate(reckon_workload_network_bytes_total{direction=\"transmit\"}" + siteRange + ")",
			func(w *client.LiveWorkload, v float64) { w.TransmitRate = &v }},
		{"rate(reckon_workload_memory_traffic_bytes_total" + siteRange + ")",
			func(w *client.LiveWorkload, v float64) { w.MemoryTrafficRate = &v }},
		{"rate(reckon_workload_gpu_seconds_total" + siteRange + ")", func(w *client.LiveWorkload, v float64) { w.GPU = &v }},
		{"reckon_workload_gpu_memory_bytes", func(w *client.LiveWorkload, v float64) { w.GPUMemory = &v }},
		{"rate(reckon_workload_energy_joules_total{domain=\"gpu\",share=\"active\"}" + siteRange + ")",
			func(w *client.LiveWorkload, v float64) { w.GPUWatts = &v }},
		{"rate(reckon_workload_cpu_wait_seconds_total" + siteRange + ")", func(w *client.LiveWorkload, v float64) { w.Wait = &v }},
		{"reckon_workload_processes", func(w *client.LiveWorkload, v float64) { w.Processes = int(v) }},
		{"reckon_workload_threads", func(w *client.LiveWorkload, v float64) { w.Threads = int(v) }},
	} {
		answer, err := c.Query(ctx, "sum by (workload) ("+q.expr+")", time.Time{})
		if err != nil {
			return client.Live{}, err
		}
		for i := range answer.Series {
			s := &answer.Series[i]
			k, known := at[s.Metric["workload"]]
			if !known || len(s.Samples) == 0 {
				continue
			}
			if v, err := s.Samples[0].Float(); err == nil {
				q.put(&l.Workloads[k], v)
			}
		}
	}
	l.Workloads = slices.DeleteFunc(l.Workloads, func(w client.LiveWorkload) bool { // unmeasured workloads get no line of zeros
		return w.CPUSeconds == 0 && w.Cores == 0 && w.MemoryBytes == nil && w.MemoryPeak == nil
	})
	return l, nil
}
