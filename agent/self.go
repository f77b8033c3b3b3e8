package agent

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"reckon/metric"
)

// The agent measures itself in the same way as workloads.
var (
	agentInfo = metric.NewDesc("reckon_agent_info", metric.Gauge, metric.None, []string{"version", "source", "exits"},
		"The version of the agent and where it reads processes and their ends from; the value is always 1.")
	agentCPU = metric.NewDesc("reckon_agent_cpu_seconds_total", metric.Counter, metric.Seconds, nil,
		"CPU time the process that holds the agent has used, user and system.")
	agentMemory = metric.NewDesc("reckon_agent_memory_bytes", metric.Gauge, metric.Bytes, nil,
		"Resident memory of the process that holds the agent.")
	agentTicks = metric.NewDesc("reckon_agent_ticks_total", metric.Counter, metric.None, nil,
		"Readings of the task table since the agent started.")
	agentTickSeconds = metric.NewDesc("reckon_agent_tick_seconds_total", metric.Counter, metric.Seconds, nil,
		"Wall time spent in internal ticks.")
	agentLate = metric.NewDesc("reckon_agent_ticks_late_total", metric.Counter, metric.None, nil,
		"Internal ticks that took longer than their interval.")
	agentFailed = metric.NewDesc("reckon_agent_ticks_failed_total", metric.Counter, metric.None, nil,
		"Internal ticks in which the task table could not be read.")
	agentLost = metric.NewDesc("reckon_agent_exit_records_lost_total", metric.Counter, metric.None, nil,
		"Exit records that the kernel could not deliver; short processes may be missing from their workload and are in other.")
	agentMissed = metric.NewDesc("reckon_agent_events_missed_total", metric.Counter, metric.None, []string{"sensor"},
		"Events that interrupted a program of the sensor in the kernel and were therefore not counted by it. Kernels before 5.12 do not "+
			"count them.")
	agentStrangers = metric.NewDesc("reckon_agent_job_strangers_total", metric.Counter, metric.None, nil,
		"Processes whose environment names another user's job, where the batch system makes no control groups. They are charged to "+
			"their own user.")
	agentExportErrors = metric.NewDesc("reckon_agent_export_errors_total", metric.Counter, metric.None, nil,
		"Exports that a sink did not take whole.")
	agentParts = metric.NewDesc("reckon_agent_parts", metric.Gauge, metric.None, nil,
		"Parts of workloads that the agent holds accounts of.")
	agentProcesses = metric.NewDesc("reckon_agent_processes", metric.Gauge, metric.None, nil, "Processes that the agent knows.")
)

// selfStats holds the agent's measurements of itself.
type selfStats struct {
	ticks, late, failed, exportErrors uint64
	strangers                         uint64          // processes that named a job of others
	crowded                           map[string]bool // owners that the log named, see account.Ledger.Excess
	spent                             time.Duration
	saveFailed                        bool
	simulated                         bool // simulated machine: this process's own use is irrelevant
	nameless                          bool // there are pods, and no kubelet is asked
	devicesFailed                     bool // the devices of pods could not be asked for
	info                              *metric.Series
	series                            map[*metric.Desc]*metric.Series
	statm                             *os.File
	buf                               [128]byte
}

func (s *selfStats) countTick(d, interval time.Duration) {
	s.ticks++
	s.spent += d
	if d > interval {
		s.late++
	}
}

func (s *selfStats) exportStats(a *Agent, b *metric.Batch) {
	if s.series == nil {
		s.series = make(map[*metric.Desc]*metric.Series)
		s.info = metric.NewSeries(agentInfo, a.config.Version, a.tasks.Live(), a.tasks.Exits())
	}
	b.Add(s.info, 1)
	if !s.simulated {
		s.exportProcess(b)
	}
	parts, processes, lost := a.ledger.Counts()
	s.addSample(b, agentTicks, float64(s.ticks))
	s.addSample(b, agentFailed, float64(s.failed))
	s.addSample(b, agentLost, float64(lost))
	s.addSample(b, agentExportErrors, float64(s.exportErrors))
	if s.strangers > 0 {
		s.addSample(b, agentStrangers, float64(s.strangers))
	}
	for _, w := range a.kernel.watched {
		b.Add(w.row, float64(w.Missed()))
	}
	s.addSample(b, agentParts, float64(parts))
	s.addSample(b, agentProcesses, float64(processes))
}

// exportProcess appends the use of the agent's process and the timing of its ticks.
func (s *selfStats) exportProcess(b *metric.Batch) {
	var use unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &use) == nil {
		s.addSample(b, agentCPU, float64(use.Utime.Nano()+use.Stime.Nano())/1e9)
	}
	if rss, ok := s.residentBytes(); ok {
		s.addSample(b, agentMemory, float64(rss))
	}
	s.addSample(b, agentTickSeconds, s.spent.Seconds())
	s.addSample(b, agentLate, float64(s.late))
}

func (s *selfStats) addSample(b *metric.Batch, d *metric.Desc, v float64) {
	row := s.series[d]
	if row == nil {
		row = metric.NewSeries(d)
		s.series[d] = row
	}
	b.Add(row, v)
}

// residentBytes returns the agent's resident size in bytes, from the second field of /proc/self/statm (pages; proc(5)). It
// uses the agent's own /proc even if the agent measures another root.
func (s *selfStats) residentBytes() (bytesResident uint64, ok bool) {
	if s.statm == nil {
		f, err := os.Open("/proc/self/statm")
		if err != nil {
			return 0, false
		}
		s.statm = f
	}
	n, err := s.statm.ReadAt(s.buf[:], 0)
	if n == 0 && err != nil {
		return 0, false
	}
	rest := s.buf[:n]
	_, rest, _ = bytes.Cut(rest, []byte(" "))
	field, _, _ := bytes.Cut(rest, []byte(" "))
	pages, err := strconv.ParseUint(string(field), 10, 64)
	return pages * uint64(os.Getpagesize()), err == nil
}

// Descs returns the agent's own metrics, for the metric reference.
func Descs() []*metric.Desc {
	return []*metric.Desc{
		sensorUp, refusedReadings, agentInfo, agentCPU, agentMemory, agentTicks, agentTickSeconds,
		agentLate, agentFailed, agentLost, agentMissed, agentExportErrors, agentStrangers, agentParts, agentProcesses, modelInfo,
		ownInput, ownSeries, ownPushes, podNetwork, podPackets, podErrors, podDropped, podCPU, podMem, podPeak, podIO, podProc,
		podVolumeUsed, podVolumeCapacity, containerStorage,
	}
}
