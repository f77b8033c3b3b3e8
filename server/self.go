package server

import (
	"context"
	"math"
	"os"
	"path"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"reckon/answer/invariant"
	"reckon/metric"
	"reckon/store"
	"reckon/store/tsdb"
	"reckon/transport/ingest"
)

// selfEvery is the interval at which the server writes its own measurements into its store.
const (
	selfEvery = time.Minute
	selfFirst = 5 * time.Second // after the start: dashboards are looked at first then
)

var (
	selfStart  = selfDesc("start_time_seconds", metric.Gauge, metric.Seconds, "When the server was started, Unix time.")
	selfMemory = selfDesc("memory_bytes", metric.Gauge, metric.Bytes,
		"Memory of the server: resident as the kernel counts it, heap as the runtime does, limit where one is set.", "kind")
	selfCPU      = selfDesc("cpu_seconds_total", metric.Counter, metric.Seconds, "CPU time of the server.")
	selfDiskFree = selfDesc("disk_free_bytes", metric.Gauge, metric.Bytes,
		"Free space on the disk of the data directory, for a user without rights.")
	selfDiskSize = selfDesc("disk_size_bytes", metric.Gauge, metric.Bytes, "Size of the disk of the data directory.")
	selfSeries   = selfDesc("store_series", metric.Gauge, "", "Series in the memory of the embedded store; state is live or ended.",
		"state")
	selfAppended  = selfDesc("store_samples_total", metric.Counter, "", "Samples that the embedded store took, from wherever they came.")
	selfStoreSize = selfDesc("store_bytes", metric.Gauge, metric.Bytes,
		"Size on disk of the embedded store; part is log (the write-ahead logs) or all.", "part")
	selfWaiting   = selfDesc("store_queue_requests", metric.Gauge, "", "Requests that wait to be sent to a store elsewhere.")
	selfQueueLost = selfDesc("store_queue_lost_samples_total", metric.Counter, "",
		"Samples that the store elsewhere refused, or that the full queue dropped.")
	selfReady = selfDesc("store_ready", metric.Gauge, "", "Whether the store takes and answers samples.")
	selfLag   = selfDesc("catalogue_lag_seconds", metric.Gauge, metric.Seconds,
		"How long ago series were taken into the list of workloads.")
	selfRollLag = selfDesc("rollup_lag_seconds", metric.Gauge, metric.Seconds,
		"How long ago the last hour ended of which usage is settled; an hour is settled ten minutes after its end.")
	selfDirty = selfDesc("dirty_rollups", metric.Gauge, "", "Hours that got late samples and whose usage waits to be made again.")
	selfProof = selfDesc("proof_accounted_ratio", metric.Gauge, metric.Ratio,
		"CPU time in the usage tables divided by that of the counters, by the last verification.")
	selfProofTime = selfDesc("proof_time_seconds", metric.Gauge, metric.Seconds, "Time of the last verification of usage, seconds "+
		"since the Unix epoch.")
	selfDiffers = selfDesc("proof_differences_total", metric.Counter, "",
		"Figures of hours that proofs found to differ from the counters, since the start.")
	selfSenders  = selfDesc("senders", metric.Gauge, "", "Agents that sent within ten minutes and show which machine they are.")
	selfConflict = selfDesc("name_conflict", metric.Gauge, "",
		"1 for a node by whose name a second machine sends, which is refused; name is that of the node, with its site in front.", "name")
	selfSkew = selfDesc("clock_ahead_seconds", metric.Gauge, metric.Seconds,
		"By how much the clock of a sender is ahead of the server's, where it is five seconds or more.", "name")
	selfRequests = selfDesc("requests_total", metric.Counter, "",
		"Requests that were answered, by what they asked and the first digit of the status.", "what", "status")
	selfSeconds = selfDesc("request_seconds_total", metric.Counter, metric.Seconds, "Time that answering took.", "what")
	selfRunning = selfDesc("requests_running", metric.Gauge, "", "Requests that are being answered.")
	selfStuck   = selfDesc("queries_abandoned", metric.Gauge, "",
		"Queries that did not end when they were stopped and compute on; of two, others are refused. No old samples leave memory or the "+
			"disk meanwhile: restart the server.")
	selfRefused = selfDesc("refused_series", metric.Gauge, "",
		"New series of an owner on a node, name, that were refused lately since too many begin there; owner is empty for those of the "+
			"node itself.", "name", "owner")
	selfRule = selfDesc("rule_group_seconds", metric.Gauge, metric.Seconds, "Time that the last evaluation of a group of rules took.",
		"group")
	selfLeads = selfDesc("leads", metric.Gauge, "",
		"Whether this server of several leads now: it makes the list of workloads and sends alerts.")
	selfSilent = selfDesc("member_silent_seconds", metric.Gauge, metric.Seconds,
		"How long ago a server of several was heard of; member is the address by which others reach it. One that was stopped in order "+
			"is not listed, others for an hour.", "member")
	selfRuleAge = selfDesc("rule_group_age_seconds", metric.Gauge, metric.Seconds, "How long ago a group of rules was evaluated.", "group")
)

func selfDesc(name string, kind metric.Kind, unit metric.Unit, help string, labels ...string) *metric.Desc {
	return &metric.Desc{Name: "reckon_server_" + name, Kind: kind, Unit: unit, Help: help, Labels: labels}
}

// Descs returns the metrics of the server on /metrics.
func Descs() []*metric.Desc {
	return append([]*metric.Desc{
		selfStart, selfMemory, selfCPU, selfDiskFree, selfDiskSize, selfSeries, selfAppended, selfStoreSize, selfWaiting, selfQueueLost,
		selfReady,
		selfLag, selfRollLag, selfDirty, selfProof, selfProofTime, selfDiffers, selfSenders, selfConflict, selfSkew,
		selfRequests, selfSeconds, selfRunning, selfStuck, selfRefused, selfRule, selfRuleAge, selfLeads, selfSilent,
	}, append(ingest.Descs(), invariant.Descs()...)...)
}

// selfMetrics are the server's measurements of itself.
type selfMetrics struct {
	started  time.Time
	stats    ingest.Stats
	requests requestCounter

	mu     sync.Mutex
	status tsdb.Status // walks the directory: not with each scrape
	log    int64
	at     time.Time
}

// gatherMetrics collects the measurements of the agent in this process, if there is one, and the server's own metrics.
func (s *Server) gatherMetrics(b *metric.Batch) error {
	var err error
	if s.agent != nil {
		err = s.agent.Gather(b)
	}
	s.gatherSelf(context.Background(), b, time.Now())
	return err
}

func (s *Server) gatherSelf(ctx context.Context, b *metric.Batch, now time.Time) {
	add := func(d *metric.Desc, v float64, labels ...string) { b.Add(metric.NewSeries(d, labels...), v) }
	add(selfStart, float64(s.self.started.UnixMilli())/1000)
	s.gatherProcess(add)
	s.gatherStore(add, now)
	if st, err := s.builder.Status(ctx); err == nil {
		add(selfDirty, float64(st.Dirty))
		if !st.Through.IsZero() {
			add(selfLag, max(now.Sub(st.Through).Seconds(), 0))
		}
		if !st.Rolled.IsZero() {
			add(selfRollLag, max(now.Sub(st.Rolled).Seconds(), 0))
		}
	}
	if p, err := s.proofs.Last(ctx); err == nil && p.Made != nil && p.Hours > 0 {
		add(selfProof, p.Accounted)
		add(selfProofTime, float64(p.Made.UnixMilli())/1000)
	}
	add(selfDiffers, float64(s.proofs.differenceCount()))
	s.gatherSenders(add, now)
	s.self.requests.gather(add)
	add(selfStuck, float64(s.abandonedQueries()))
	for _, r := range s.limits.Refused() {
		add(selfRefused, float64(r.Series), r.Node, r.Owner)
	}
	if s.alerts != nil {
		for _, g := range s.alerts.Groups() {
			add(selfRule, g.Took.Seconds(), g.Name)
			if !g.Last.IsZero() {
				add(selfRuleAge, max(now.Sub(g.Last).Seconds(), 0), g.Name)
			}
		}
	}
	if m := s.config.member; m != nil {
		leads := 0.0
		if s.mayWrite() == nil {
			leads = 1
		}
		add(selfLeads, leads)
		if list, err := m.lease.Members(ctx); err == nil {
			for _, x := range list {
				add(selfSilent, x.Silent.Seconds(), x.Address)
			}
		}
	}
	s.self.stats.Gather(b)
	s.inconsistent.Gather(b)
}

type addFunc func(d *metric.Desc, v float64, labels ...string)

// gatherProcess reads the resources of the process and the free disk space.
func (s *Server) gatherProcess(add addFunc) {
	if raw, err := os.ReadFile("/proc/self/statm"); err == nil { // proc(5): pages; the second is resident
		if f := strings.Fields(string(raw)); len(f) > 1 {
			if n, err := strconv.ParseUint(f[1], 10, 64); err == nil {
				add(selfMemory, float64(n)*float64(os.Getpagesize()), "resident")
			}
		}
	}
	list := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/gomemlimit:bytes"}}
	metrics.Read(list)
	for i, kind := range []string{"heap", "limit"} {
		if list[i].Value.Kind() == metrics.KindUint64 && list[i].Value.Uint64() < math.MaxInt64 {
			add(selfMemory, float64(list[i].Value.Uint64()), kind)
		}
	}
	var use syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &use) == nil {
		add(selfCPU, float64(use.Utime.Nano()+use.Stime.Nano())/1e9)
	}
	var fs syscall.Statfs_t
	if syscall.Statfs(s.config.Data, &fs) == nil {
		add(selfDiskFree, float64(fs.Bavail)*float64(fs.Bsize))
		add(selfDiskSize, float64(fs.Blocks)*float64(fs.Bsize))
	}
}

func (s *Server) gatherStore(add addFunc, now time.Time) {
	ready := 0.0
	if s.series.Ready() == nil {
		ready = 1
	}
	if queued, ok := s.samples.(interface{ Waiting() (int, uint64) }); ok {
		waiting, lost := queued.Waiting()
		add(selfWaiting, float64(waiting))
		add(selfQueueLost, float64(lost))
	}
	if away, ok := s.samples.(interface{ Down() error }); ok && away.Down() != nil {
		ready = 0
	}
	add(selfReady, ready)
	embedded, ok := s.samples.(*tsdb.Store)
	if !ok {
		return
	}
	s.self.mu.Lock()
	defer s.self.mu.Unlock()
	if now.Sub(s.self.at) >= selfEvery/2 {
		st, err := embedded.Status()
		if err != nil {
			return
		}
		s.self.status, s.self.log, s.self.at = st, embedded.LogBytes(), now
	}
	st := &s.self.status
	add(selfSeries, float64(st.Series-min(st.Stale, st.Series)), "live")
	add(selfSeries, float64(st.Stale), "ended")
	add(selfAppended, float64(st.Appended))
	add(selfStoreSize, float64(st.Bytes), "all")
	add(selfStoreSize, float64(s.self.log), "log")
}

func (s *Server) gatherSenders(add addFunc, now time.Time) {
	n := 0
	for _, x := range s.senders.Senders() {
		if now.Sub(x.Seen) < 10*time.Minute && x.Address != "" {
			n++
			if skew := x.Skew; skew.Abs() >= 5*time.Second {
				add(selfSkew, skew.Seconds(), path.Join(x.Site, x.Node))
			}
		}
		if x.Other != nil {
			add(selfConflict, 1, path.Join(x.Site, x.Node))
		}
	}
	add(selfSenders, float64(n))
}

// runSelf writes the server's own metrics to its store, so that its rules and dashboards can use them.
func (s *Server) runSelf(ctx context.Context) error {
	host, _ := os.Hostname()
	if m := s.config.member; m != nil { // several may run on one machine
		if _, at, ok := strings.Cut(m.lease.Address(), "://"); ok {
			host = at
		}
	}
	external := map[string]string{"server": host}
	if s.config.Site != "" {
		external["site"] = s.config.Site
	}
	return store.Repeat(ctx, selfFirst, selfEvery, 0, func(ctx context.Context) error {
		b := &metric.Batch{Time: time.Now()}
		s.gatherSelf(ctx, b, b.Time)
		return s.series.Append(ctx, external, b)
	}, func(err error) { s.log.Debug("the server's own figures could not be stored", "err", err) })
}
