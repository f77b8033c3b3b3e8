package simulate

import (
	"fmt"
	"io/fs"
	"strconv"

	"reckon/sensor"
)

// Cgroups returns the control groups of a process, as /proc/PID/cgroup has them.
func (n *Node) Cgroups(pid int32) ([]sensor.CgroupPath, error) {
	p := n.procs[pid]
	if p == nil {
		return nil, fmt.Errorf("process %d: %w", pid, fs.ErrNotExist)
	}
	paths, _ := n.CgroupPaths(p.Cgroup)
	return paths, nil
}

// CgroupPaths implements [sensor.CgroupNamer].
func (n *Node) CgroupPaths(number uint64) (paths []sensor.CgroupPath, ok bool) {
	g := n.numbers[number]
	if g == nil {
		return nil, false
	}
	return []sensor.CgroupPath{{Path: g.path}}, true
}

// LoginSession returns the number that the kernel's audit gave to the session of a process.
func (n *Node) LoginSession(pid int32) (session uint32, ok bool, err error) {
	if p := n.procs[pid]; p != nil {
		if g := n.numbers[p.Cgroup]; g != nil && g.session != nil {
			return uint32(g.session.number), true, nil
		}
	}
	return 0, false, nil
}

// Env returns variables of the environment of a process: those that the batch system sets.
func (n *Node) Env(pid int32, keys ...string) (map[string]string, error) {
	out := map[string]string{}
	p := n.procs[pid]
	if p == nil {
		return nil, fmt.Errorf("process %d: %w", pid, fs.ErrNotExist)
	}
	g := n.numbers[p.Cgroup]
	if g == nil || g.place == nil {
		return out, nil
	}
	for _, k := range keys {
		if v := slurmVariable(g.place, g.step, k); v != "" {
			out[k] = v
		}
	}
	return out, nil
}

// slurmVariable returns the value of a variable that slurmstepd sets, or "" if it does not set the variable.
func slurmVariable(p *placement, step, key string) string {
	j := p.job
	number := func(v int) string { return strconv.Itoa(v) }
	switch key {
	case "SLURM_JOB_ID", "SLURM_JOBID":
		return number(int(j.Raw))
	case "SLURM_ARRAY_JOB_ID":
		if j.Array != 0 {
			return number(j.Array)
		}
	case "SLURM_ARRAY_TASK_ID":
		if j.Array != 0 {
			return number(j.Task)
		}
	case "SLURM_JOB_NAME":
		return j.Name
	case "SLURM_JOB_ACCOUNT":
		return j.User.Account
	case "SLURM_JOB_PARTITION":
		return j.Partition
	case "SLURM_CPUS_ON_NODE", "SLURM_JOB_CPUS_PER_NODE":
		return number(j.Cores)
	case "SLURM_MEM_PER_NODE":
		return strconv.FormatUint(j.MemoryBytes>>20, 10)
	case "SLURM_GPUS_ON_NODE":
		if j.GPUs > 0 {
			return number(j.GPUs)
		}
	case "SLURM_JOB_START_TIME":
		return strconv.FormatInt(j.Start.Unix(), 10)
	case "SLURM_JOB_END_TIME":
		return strconv.FormatInt(j.Start.Add(j.Limit).Unix(), 10)
	case "SLURM_STEP_ID":
		if step != "batch" {
			return step
		}
	case "SLURM_PROCID":
		return "0"
	}
	return ""
}

// UserName returns the name of a user id.
func (n *Node) UserName(uid uint32) string {
	switch uid {
	case 0:
		return "root"
	case 994:
		return "chrony"
	case 993:
		return "munge"
	case 992:
		return "slurm"
	case 991:
		return "mysql"
	case 990:
		return "grafana"
	}
	if i := int(uid) - 2000; i >= 0 && i < len(n.site.Users) {
		return n.site.Users[i].Name
	}
	return strconv.FormatUint(uint64(uid), 10)
}
