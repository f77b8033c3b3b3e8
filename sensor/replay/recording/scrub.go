package recording

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"reckon/metric"
	"reckon/sensor"
)

// Scrubber replaces the names of people and machines in a recording. A name gets the same replacement in all passes:
// user1, user2... for users, host1, host2... for hosts (host1 is the node itself), and 192.0.2.N or 2001:db8::N for
// network addresses. Hosts are the node and the servers of network file systems. Mount options are reduced to ro and
// rw. The boot id and the serial numbers of boards are blanked.
//
// User ids remain. The names of programs, directories and control groups also remain, unless they contain a name that
// is replaced. Inspect a recording before you share it.
type Scrubber struct {
	names map[string]string
	users int
	hosts int
	addrs int
	match *regexp.Regexp // all names, as whole words
	descs map[*metric.Series]*metric.Series
}

// minPersonID is the lowest user id of a person (UID_MIN in login.defs). Lower ids belong to system accounts, and their
// names need no replacement because they are the same on all machines.
const minPersonID = 1000

var (
	addrV4 = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\b(?:[0-9]{1,3}\.){3}[0-9]{1,3}\b`)
	})
	addrV6 = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\b(?:[0-9a-fA-F]{1,4}:){2,7}(?::?[0-9a-fA-F]{1,4})+\b|\b[0-9a-fA-F]{1,4}::[0-9a-fA-F:]+\b`)
	})
	// lustreNetworks are the network types of Lustre, which follow the @ of a server.
	lustreNetworks = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:tcp|o2ib|gni|kfi|lo|ptlf)[0-9]*$`) })
	hostWord       = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`) })
	serialNumber   = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)^(Serial\s*:\s*).*$`)
	})
)

// NewScrubber returns a scrubber for a node of the given name.
func NewScrubber(node string) *Scrubber {
	s := &Scrubber{names: map[string]string{}, descs: map[*metric.Series]*metric.Series{}}
	s.addHost(node)
	return s
}

func (s *Scrubber) addHost(name string) {
	if len(name) < 2 || name == "localhost" || s.names[name] != "" || addrV4().MatchString(name) {
		return
	}
	short, _, _ := strings.Cut(name, ".")
	if s.names[short] == "" {
		s.hosts++
		s.names[short] = fmt.Sprintf("host%d", s.hosts)
	}
	s.names[name] = s.names[short]
	s.match = nil
}

// User adds the name of a user. Ids below 1000 and the two ids of nobody are not people.
func (s *Scrubber) User(uid uint32, name string) {
	if uid < minPersonID || uid == 65534 || uid == 1<<32-2 || len(name) < 2 || s.names[name] != "" ||
		strings.Trim(name, "0123456789") == "" {
		return
	}
	s.users++
	s.names[name] = fmt.Sprintf("user%d", s.users)
	s.match = nil
}

func (s *Scrubber) replacementAddress(kind string) func(string) string {
	return func(a string) string {
		if a == "127.0.0.1" || a == "0.0.0.0" || a == "::1" {
			return a
		}
		if s.names[a] == "" {
			s.addrs++
			if s.names[a] = fmt.Sprintf("192.0.2.%d", s.addrs%256); kind == "v6" {
				s.names[a] = fmt.Sprintf("2001:db8::%x", s.addrs)
			}
		}
		return s.names[a]
	}
}

// Text replaces every collected name in t.
func (s *Scrubber) Text(t string) string {
	if s.match == nil {
		names := make([]string, 0, len(s.names))
		for n := range s.names {
			if !addrV4().MatchString(n) && !addrV6().MatchString(n) {
				names = append(names, regexp.QuoteMeta(n))
			}
		}
		// The longest first, so that a full host name is not taken for its short one.
		slices.SortFunc(names, func(a, b string) int { return len(b) - len(a) })
		if len(names) == 0 {
			return t
		}
		s.match = regexp.MustCompile(`\b(?:` + strings.Join(names, "|") + `)\b`)
	}
	return s.match.ReplaceAllStringFunc(t, func(n string) string { return s.names[n] })
}

// Meta scrubs the description of a recording.
func (s *Scrubber) Meta(m *Meta) {
	m.Node = s.Text(m.Node)
	for k, v := range m.Unavailable {
		m.Unavailable[k] = s.Text(v)
	}
	m.Scrubbed = true
}

// Pass replaces the names in d. Changed parts no longer share memory with the caller's records.
func (s *Scrubber) Pass(d *PassData) {
	s.collectNames(d)
	users := map[uint32]string{}
	for uid, name := range d.Users {
		users[uid] = s.Text(name)
	}
	d.Users = users
	if t := d.Tasks; t != nil {
		d.Tasks = &sensor.Pass{Boot: t.Boot, Lost: t.Lost, Joined: t.Joined, Opens: t.Opens, Live: s.scrubProcesses(t.Live),
			Exited: s.scrubProcesses(t.Exited)}
	}
	about := map[int32]About{}
	for pid, a := range d.About {
		a.Cgroups = s.scrubPaths(a.Cgroups)
		about[pid] = a
	}
	d.About = about
	paths := map[uint64][]sensor.CgroupPath{}
	for n, p := range d.Paths {
		paths[n] = s.scrubPaths(p)
	}
	d.Paths = paths
	d.Cgroups = slices.Clone(d.Cgroups)
	for i := range d.Cgroups {
		d.Cgroups[i].Paths = s.scrubPaths(d.Cgroups[i].Paths)
	}
	d.Sensors = slices.Clone(d.Sensors)
	for i := range d.Sensors {
		r := &d.Sensors[i]
		r.Error, r.Samples, r.GPU = s.Text(r.Error), s.scrubSamples(r.Samples), s.scrubGPUs(r.GPU)
	}
	for k, v := range d.Errors {
		d.Errors[k] = s.Text(v)
	}
	for i := range d.Files {
		d.Files[i] = s.scrubFile(d.Files[i])
	}
}

// collectNames collects the names of hosts and users in d.
func (s *Scrubber) collectNames(d *PassData) {
	uids := make([]uint32, 0, len(d.Users))
	for uid := range d.Users {
		uids = append(uids, uid)
	}
	slices.Sort(uids) // the same numbers for the same machine
	for _, uid := range uids {
		s.User(uid, d.Users[uid])
	}
	for _, f := range d.Files {
		switch {
		case strings.HasSuffix(f.Path, "/hostname"):
			s.addHost(strings.TrimSpace(string(f.Data)))
		case isMounts(f.Path), strings.HasSuffix(f.Path, "/mountstats"):
			for line := range strings.Lines(string(f.Data)) {
				for _, field := range strings.Fields(line) {
					s.collectSource(field)
				}
			}
		}
	}
	for i := range d.Sensors { // their labels name file systems, too
		for _, m := range d.Sensors[i].Samples {
			for k, name := range m.Series.Desc.Labels {
				if (name == "source" || name == "device") && k < len(m.Series.Values) {
					s.collectSource(m.Series.Values[k])
				}
			}
		}
	}
}

// collectSource collects the host and user names in the source of a mount. It knows the forms nas:/home, a,b:/volume (Gluster),
// a:6789,b:6789:/
// (Ceph), //nas/share, user@nas:/home (sshfs), mgs1@tcp:mgs2@o2ib:/scratch (Lustre) and https://nas/dav.
func (s *Scrubber) collectSource(text string) {
	hosts, _, ok := strings.Cut(text, ":/")
	if scheme, rest, isURL := strings.Cut(text, "://"); isURL && hostWord().MatchString(scheme) {
		hosts, _, _ = strings.Cut(rest, "/")
	} else if rest, isShare := strings.CutPrefix(text, "//"); isShare {
		hosts, _, _ = strings.Cut(rest, "/")
	} else if !ok || strings.Contains(hosts, "/") {
		return
	}
	for part := range strings.FieldsFuncSeq(hosts, func(r rune) bool { return r == ',' || r == ':' || r == ';' }) {
		name, where, at := strings.Cut(part, "@")
		if at && !lustreNetworks().MatchString(where) {
			s.User(minPersonID, name)
			name = where
		}
		if hostWord().MatchString(name) && strings.Trim(name, "0123456789.") != "" {
			s.addHost(name)
		}
	}
}

func (s *Scrubber) scrubProcesses(ps []sensor.Process) []sensor.Process {
	out := slices.Clone(ps)
	for i := range out {
		name := string(out[i].Comm.Bytes())
		if clean := s.Text(name); clean != name {
			out[i].Comm = sensor.CommOf([]byte(clean))
		}
	}
	return out
}

func (s *Scrubber) scrubPaths(ps []sensor.CgroupPath) []sensor.CgroupPath {
	out := slices.Clone(ps)
	for i := range out {
		out[i].Path = s.Text(out[i].Path)
	}
	return out
}

func (s *Scrubber) scrubSamples(in []metric.Sample) []metric.Sample {
	out := slices.Clone(in)
	for i := range out {
		old := out[i].Series
		if s.descs[old] == nil {
			clean := &metric.Series{Desc: old.Desc, Created: old.Created, Values: slices.Clone(old.Values)}
			for k, v := range clean.Values {
				clean.Values[k] = s.Text(v)
			}
			s.descs[old] = clean
		}
		out[i].Series = s.descs[old]
	}
	return out
}

func (s *Scrubber) scrubFile(f File) File {
	f.Path, f.Link = s.Text(f.Path), s.Text(f.Link)
	if bytes.IndexByte(f.Data, 0) >= 0 {
		return f // binary, such as gpu_metrics
	}
	text := string(f.Data)
	switch {
	case strings.HasSuffix(f.Path, "/boot_id"):
		text = "00000000-0000-0000-0000-000000000000\n"
	case f.Path == "proc/cpuinfo":
		text = serialNumber().ReplaceAllString(text, "${1}0")
	case isMounts(f.Path):
		text = addrV6().ReplaceAllStringFunc(text, s.replacementAddress("v6"))
		text = addrV4().ReplaceAllStringFunc(text, s.replacementAddress("v4"))
		text = plainOptions(text)
	}
	f.Data = []byte(s.Text(text))
	return f
}

func isMounts(name string) bool {
	return strings.HasSuffix(name, "/mounts") || strings.HasSuffix(name, "/mountinfo")
}

// plainOptions reduces the mount options in the text of mounts (field 4 in proc(5)) and of mountinfo (field 6 and the
// last one) to ro or rw, because they may contain user names and addresses. It keeps the options of the kernel's own
// file systems, because readers of the recording need them.
func plainOptions(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), " ")
		dash := slices.Index(fields, "-")
		if i := max(dash+1, 2); i < len(fields) && slices.Contains([]string{"cgroup", "cgroup2", "proc", "sysfs"}, fields[i]) {
			b.WriteString(line)
			continue
		}
		for i, f := range fields {
			option := dash < 0 && i == 3 || dash > 0 && (i == 5 || i == len(fields)-1 && i > dash+2)
			if option {
				if f, _, _ = strings.Cut(f, ","); f != "ro" {
					f = "rw"
				}
			}
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(f)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
