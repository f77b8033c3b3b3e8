package resctrl

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"reckon/internal/sorting"
	"reckon/internal/sysfs"
	"reckon/sensor"
)

const (
	// prefix begins the names of our groups.
	prefix = "reckon-"
	// most is how many groups are made at the most: each is read at every export.
	most = 16
	// share is which part of the groups that are free may be ours.
	share = 2
	// rounds is how often the threads of a workload are looked for, as it may start some meanwhile.
	rounds = 3
)

// ownGroup is a group that was made here. Its folder is locked (flock(2)) as long as its agent lives.
type ownGroup struct {
	key  string
	dir  string
	lock *os.File
}

// removeLeft removes groups of agents that live no more.
func (s *Sensor) removeLeft() {
	for _, dir := range s.ours() {
		if f := lock(dir); f != nil {
			_ = s.rmdir(dir)
			_ = f.Close()
		}
	}
}

// ours are the folders of groups with our names.
func (s *Sensor) ours() []string {
	dirs, _ := filepath.Glob(filepath.Join(s.dir, "mon_groups", prefix+"*")) // the pattern is well formed
	return dirs
}

// lock locks a folder, nil where another has locked it.
func lock(dir string) *os.File {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		_ = f.Close()
		return nil
	}
	return f
}

// Follow implements [sensor.MonitorSource]. It comes after ReadMonitors.
func (s *Sensor) Follow(wishes []sensor.MonitorWish) (served int, err error) {
	if other := s.another(); other != "" {
		err := s.drop(func(*ownGroup) bool { return true })
		return 0, errors.Join(sensor.Unavailable("another program makes monitoring groups of resctrl", "its groups are read, and none is made", fmt.Errorf("found %s", other)), err)
	}
	whole := lock(s.dir) // as Documentation/filesystems/resctrl.rst asks of who changes groups
	if whole == nil {
		return len(s.own), nil
	}
	defer whole.Close()
	chosen := s.choose(wishes)
	errs := []error{s.drop(func(o *ownGroup) bool {
		return !slices.ContainsFunc(chosen, func(w sensor.MonitorWish) bool { return w.Key == o.key })
	})}
	for _, w := range chosen {
		o, err := s.groupOf(w.Key)
		if errors.Is(err, unix.ENOSPC) {
			break // others took what was free
		}
		if err != nil {
			return len(s.own), errors.Join(append(errs, err)...)
		}
		if err := s.fill(o, w.PIDs); err != nil && !gone(err) {
			errs = append(errs, err)
			s.refuse(w.Key)
		}
	}
	errs = append(errs, s.drop(func(o *ownGroup) bool { return s.refused[o.key] }))
	return len(s.own), errors.Join(errs...)
}

// refuse makes no more groups for a workload: the kernel moves no threads of control groups of others.
func (s *Sensor) refuse(key string) {
	if len(s.refused) >= 1024 {
		clear(s.refused)
	}
	s.refused[key] = true
}

// another is a monitoring group that is not ours, empty if there is none.
func (s *Sensor) another() string {
	for _, g := range s.groups {
		if g.parent != nil && !slices.ContainsFunc(s.own, func(o *ownGroup) bool { return o.dir == g.dir }) {
			return g.dir
		}
	}
	return ""
}

// choose takes the largest of the wishes for which there is room. Who has a group gives it up for one that is twice as large.
func (s *Sensor) choose(wishes []sensor.MonitorWish) []sensor.MonitorWish {
	list := slices.DeleteFunc(slices.Clone(wishes), func(w sensor.MonitorWish) bool { return s.refused[w.Key] })
	weight := func(w sensor.MonitorWish) uint64 {
		if slices.ContainsFunc(s.own, func(o *ownGroup) bool { return o.key == w.Key }) {
			return 2 * w.Size
		}
		return w.Size
	}
	sorting.Stable(list, func(a, b sensor.MonitorWish) int { return cmp.Compare(weight(b), weight(a)) })
	return list[:min(len(list), s.room())]
}

// room is how many groups may be ours: the kernel numbers groups, and others may want some.
func (s *Sensor) room() int {
	ids, _ := strconv.Atoi(sysfs.Word(s.dir, "info/L3_MON/num_rmids"))
	if counters, err := strconv.Atoi(sysfs.Word(s.dir, "info/L3_MON/num_mbm_cntrs")); err == nil {
		ids = min(ids, counters/2) // a group has two of them where they are assigned
	}
	others := 0
	for _, g := range s.groups {
		if g.own == "" {
			others++
		}
	}
	return max(min((ids-others)/share, most), 0)
}

// groupOf returns the group of a key, made if there is none.
func (s *Sensor) groupOf(key string) (*ownGroup, error) {
	for _, o := range s.own {
		if o.key == key {
			return o, nil
		}
	}
	for n := range 4 * most {
		dir := filepath.Join(s.dir, "mon_groups", prefix+strconv.Itoa(n))
		err := s.mkdir(dir)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if errors.Is(err, os.ErrPermission) || errors.Is(err, unix.EROFS) {
			return nil, sensor.Unavailable("no permission to make monitoring groups of resctrl", "run as root, with /sys/fs/resctrl writable", err)
		}
		if err != nil {
			return nil, fmt.Errorf("make a monitoring group of resctrl: %w", err)
		}
		o := &ownGroup{key: key, dir: dir, lock: lock(dir)}
		s.own = append(s.own, o)
		return o, nil
	}
	return nil, fmt.Errorf("make a monitoring group of resctrl in %s: no name is free", s.dir)
}

// fill moves the threads of some processes into a group, and those of others out of it: a service may have begun a process of another workload.
func (s *Sensor) fill(o *ownGroup, pids []int32) error {
	have := func() []int32 { return parseTasks(nil, []byte(sysfs.Word(o.dir, "tasks"))) }
	for range rounds {
		want, in := s.threads(pids), have()
		missing := slices.DeleteFunc(slices.Clone(want), func(t int32) bool { return slices.Contains(in, t) })
		strays := slices.DeleteFunc(in, func(t int32) bool { return t == 0 || slices.Contains(want, t) })
		if err := errors.Join(move(s.dir, strays), move(o.dir, missing)); err != nil {
			return err
		}
		if len(missing) == 0 {
			break
		}
	}
	return nil
}

// threads are those of some processes.
func (s *Sensor) threads(pids []int32) (out []int32) {
	for _, pid := range pids {
		entries, _ := os.ReadDir(sysfs.Path(s.root, "proc", strconv.Itoa(int(pid)), "task")) // it may have ended
		for _, e := range entries {
			if n, err := strconv.ParseInt(e.Name(), 10, 32); err == nil {
				out = append(out, int32(n))
			}
		}
	}
	return out
}

// move writes threads into the list of a group, one at a time as the kernel wants it. Those that ended are passed over.
func move(dir string, threads []int32) error {
	if len(threads) == 0 {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(dir, "tasks"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("move threads into a monitoring group: %w", err)
	}
	defer f.Close()
	for _, t := range threads {
		if _, err := f.WriteString(strconv.Itoa(int(t)) + "\n"); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("move thread %d into %s: %w", t, dir, err)
		}
	}
	return nil
}

// drop removes some of our groups.
func (s *Sensor) drop(which func(*ownGroup) bool) error {
	var errs []error
	s.own = slices.DeleteFunc(s.own, func(o *ownGroup) bool {
		if !which(o) {
			return false
		}
		errs = append(errs, s.remove(o))
		return true
	})
	return errors.Join(errs...)
}

// remove removes one of our groups; its threads go on in the default group.
func (s *Sensor) remove(o *ownGroup) error {
	if !strings.HasPrefix(filepath.Base(o.dir), prefix) {
		return fmt.Errorf("remove %s: it is not ours", o.dir)
	}
	err := s.rmdir(o.dir)
	if o.lock != nil {
		_ = o.lock.Close()
	}
	if err != nil && !gone(err) {
		return fmt.Errorf("remove a monitoring group of resctrl: %w", err)
	}
	return nil
}
