// Package simulate generates a realistic site: users with habits who submit jobs by day and by
// night, a queue that places them on nodes, and nodes on which they run, with services beside them,
// people who are logged in, memory that runs out, jobs that fail or are stopped at their limit,
// owners who hold GPUs and do not use them, and now and then a node that goes down. It is for
// demonstrations, load tests and test data.
//
// The simulation covers the readings of a machine, not reckon's results: a [Node] is a
// [sensor.TaskSource], a [sensor.MachineReader], a [sensor.CgroupReader], and a sensor of GPUs,
// meters and node figures. The agent reads it like a real machine, with its usual resolvers,
// accounts and attribution.
//
// Everything is determined by [Config]. The same configuration gives the same site, and a node that
// is read at the same times gives the same readings to the bit. The package uses no clock, file or
// socket. The caller sets the time ([Node.Advance]), which only moves forward.
//
// Units are SI base units; times of processes are nanoseconds since boot. A [Site] does not change
// once it is made and may be read from several goroutines; a Node is used from one.
package simulate

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Config configures the site. A zero field has the default in its comment.
type Config struct {
	Nodes int // machines, those for logins and services included: 20
	Jobs  int // jobs handed in over the time: 20 a node and day
	Cores int // processors of a node: 32
	// GPUNodes is the number of the nodes that have GPUs, four each: one in eight. Below zero: none.
	GPUNodes int
	// Users is the number of people: one for 60 jobs, between 6 and 400.
	Users int
	Seed  uint64
	// Pods is the number of concurrent pods beside the jobs, ten per Deployment and spread over the
	// nodes for jobs; 0 means none. Each Deployment is rolled out RollOuts times.
	Pods, RollOuts int
	LinkSpeed      float64       // of the network device of a node, bytes per second: its devices report none
	From           time.Time     // when it begins; it must be given
	For            time.Duration // for how long jobs are handed in: 24 h
	// Plan and Sessions are jobs and logins with all properties given. With OnlyPlanned there are
	// no other jobs and logins, and no node goes down.
	Plan        []Planned
	Sessions    []PlannedSession
	OnlyPlanned bool
}

// Limits of a simulation in the memory of one machine.
const (
	maxNodes    = 20_000
	maxJobs     = 2_000_000
	maxCores    = 1024
	maxPods     = 100_000
	gpusPerNode = 4
)

func (c *Config) defaults() error {
	set := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	if c.For == 0 {
		c.For = 24 * time.Hour
	}
	set(&c.Nodes, 20)
	set(&c.Cores, 32)
	set(&c.Jobs, max(int(float64(20*c.Nodes)*c.For.Hours()/24), 1))
	if c.OnlyPlanned {
		c.Jobs = 0
	}
	set(&c.GPUNodes, c.Nodes/8)
	c.GPUNodes = max(c.GPUNodes, 0)
	set(&c.Users, min(max(c.Jobs/60, 6), 400))
	switch {
	case c.Nodes < 1 || c.Nodes > maxNodes:
		return fmt.Errorf("%d nodes: give 1 to %d", c.Nodes, maxNodes)
	case c.Jobs < 0 || c.Jobs > maxJobs:
		return fmt.Errorf("%d jobs: give 1 to %d", c.Jobs, maxJobs)
	case c.Cores < 4 || c.Cores > maxCores:
		return fmt.Errorf("%d cores a node: give 4 to %d", c.Cores, maxCores)
	case c.GPUNodes > c.Nodes:
		return fmt.Errorf("%d nodes with GPUs of %d: give no more than there are", c.GPUNodes, c.Nodes)
	case c.Users < 1 || c.Users > 10_000:
		return fmt.Errorf("%d users: give 1 to 10000", c.Users)
	case c.Pods < 0 || c.Pods > maxPods:
		return fmt.Errorf("%d pods: give 0 to %d", c.Pods, maxPods)
	case c.RollOuts < 0 || c.RollOuts > 1000:
		return fmt.Errorf("%d roll-outs: give 0 to 1000", c.RollOuts)
	case c.For < time.Minute || c.For > 366*24*time.Hour:
		return fmt.Errorf("a time of %v: give one minute to a year", c.For)
	case c.From.IsZero():
		return fmt.Errorf("the time at which the site begins is missing")
	}
	c.From = c.From.UTC().Truncate(time.Second)
	return nil
}

// Site is the simulated plan of all jobs of a site, with their times and nodes.
type Site struct {
	Config
	Users []*User
	Jobs  []*Job // by the time at which they were handed in
	specs []nodeSpec
	lead  time.Duration // the time before From in which work began already
}

// nodeRole is the purpose of a node.
type nodeRole uint8

const (
	compute nodeRole = iota
	withGPUs
	login
	services
)

// nodeSpec is the equipment of a node.
type nodeSpec struct {
	name    string
	role    nodeRole
	memory  uint64
	boot    time.Time
	outages []outage
	places  []placement // by start
}

// outage is a period in which a node is off.
type outage struct{ from, to time.Time }

// New plans a site. It takes about a second for 20,000 jobs on 1,000 nodes.
func New(c Config) (*Site, error) {
	if err := c.defaults(); err != nil {
		return nil, err
	}
	s := &Site{Config: c, lead: min(max(c.For/8, 10*time.Minute), 12*time.Hour)}
	s.buildNodes()
	s.Users = generateUsers(c.Users, newRandom(c.Seed, 1))
	s.drawJobs(newRandom(c.Seed, 2))
	if err := s.addPlanned(); err != nil {
		return nil, err
	}
	s.numberJobs()
	s.scaleLengths()
	for i := range c.Sessions {
		s.ensureUser(c.Sessions[i].User)
	}
	s.schedule()
	return s, nil
}

// buildNodes creates and names the nodes. If there are enough, one is for logins and one for services.
func (s *Site) buildNodes() {
	rnd := newRandom(s.Seed, 3)
	s.specs = make([]nodeSpec, s.Nodes)
	cpus, gpus := 0, 0
	for i := range s.specs {
		n := &s.specs[i]
		n.memory = uint64(s.Cores) * 4 << 30
		n.boot = s.From.Add(-s.lead - time.Duration(rnd.Int64N(int64(60*24*time.Hour)))).Truncate(time.Second)
		switch {
		case i == 0 && s.Nodes >= 4:
			n.name, n.role = "login1", login
		case i == 1 && s.Nodes >= 8:
			n.name, n.role = "svc1", services
		case i >= s.Nodes-s.GPUNodes:
			gpus++
			n.name, n.role, n.memory = fmt.Sprintf("gpu%03d", gpus), withGPUs, 2*n.memory
		default:
			cpus++
			n.name, n.role = fmt.Sprintf("cpu%04d", cpus), compute
		}
		// Each node goes down about once in forty days, for a quarter of an hour to two hours.
		if n.role != login && n.role != services && !s.OnlyPlanned {
			at := s.From.Add(time.Duration(rnd.ExpFloat64() * float64(40*24*time.Hour))).Truncate(time.Second)
			for at.Before(s.End()) {
				back := at.Add(15*time.Minute + time.Duration(rnd.Int64N(int64(105*time.Minute)))).Truncate(time.Second)
				n.outages = append(n.outages, outage{at, back})
				at = back.Add(time.Hour + time.Duration(rnd.ExpFloat64()*float64(40*24*time.Hour))).Truncate(time.Second)
			}
		}
	}
}

// End returns the time when no more jobs are handed in.
func (s *Site) End() time.Time { return s.From.Add(s.For) }

// Names returns the names of the nodes.
func (s *Site) Names() []string {
	out := make([]string, len(s.specs))
	for i := range s.specs {
		out[i] = s.specs[i].name
	}
	return out
}

// newRandom returns a separate random source for each purpose.
func newRandom(seed, purpose uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, purpose)) }

// noiseAt returns a pseudo-random number from -1 to 1 that depends only on seed and step. The simulated load is
// therefore the same however often it is read.
func noiseAt(seed uint64, step int64) float64 {
	x := seed + uint64(step)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return float64(x>>11)/(1<<52) - 1
}

// About is the description of a node without looking at it.
type About struct {
	Partition   string // empty for nodes on which no jobs run
	Cores, GPUs int
	MemoryBytes uint64
	outages     []outage
}

// About reports the node with a number.
func (s *Site) About(i int) About {
	n := &s.specs[i]
	a := About{Cores: s.Cores, MemoryBytes: n.memory, outages: n.outages}
	switch n.role {
	case compute:
		a.Partition = "batch"
	case withGPUs:
		a.Partition, a.GPUs = "gpu", gpusPerNode
	}
	return a
}

// Down reports whether the node is off at a time.
func (a About) Down(at time.Time) bool {
	for _, o := range a.outages {
		if !at.Before(o.from) && at.Before(o.to) {
			return true
		}
	}
	return false
}
