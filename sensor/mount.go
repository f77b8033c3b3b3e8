package sensor

// Mount identifies a mounted file system.
type Mount struct {
	Type, Source string // as in /proc/PID/mountinfo: fuse.sshfs and host:/home
	Local        bool   `json:",omitempty"` // it is of this machine, and calls are counted that its caches may serve
}

// The operations on a file system that are distinguished; metadata are all that neither read nor write.
const (
	MountRead = iota
	MountWrite
	MountMetadata
	MountOperations
)

// MountUse is the activity on a file system.
type MountUse struct {
	Bytes      [2]uint64 // read, written
	Operations [MountOperations]uint64
	Nanos      [MountOperations]uint64 // from the request to its response, summed; none of those on local file systems
}

// Add adds the counts of v.
func (u *MountUse) Add(v *MountUse) {
	for i := range u.Bytes {
		u.Bytes[i] += v.Bytes[i]
	}
	for i := range u.Operations {
		u.Operations[i] += v.Operations[i]
		u.Nanos[i] += v.Nanos[i]
	}
}

// Mounted is the activity of one process on one file system since the previous reading.
type Mounted struct {
	// PID is the process, 0 if it is unknown or not in our pid namespace.
	PID   int32
	Start uint64 // of the process, nanoseconds since boot
	Mount Mount
	Use   MountUse
}

// MountPass is one reading of a [MountSource]. Its memory is reused.
type MountPass struct{ Used []Mounted }

// Reset empties p and keeps its memory.
func (p *MountPass) Reset() { p.Used = emptied(p.Used) }

// MountSource counts the file system activity of processes, including ended ones. Its contract is that of a
// [TrafficSource].
type MountSource interface {
	Name() string
	ReadMounts(p *MountPass) error
	Close() error
}
