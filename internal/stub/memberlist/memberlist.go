// Package memberlist is a stub for the package of this name, with which several Alertmanagers form
// a cluster: this program runs one, and a cluster is refused.
package memberlist

import (
	"errors"
	"log"
	"net"
	"time"
)

// ErrNotBuilt is the error of everything here.
var ErrNotBuilt = errors.New("memberlist: clusters of Alertmanagers are not built into this program")

// Node is a member of a cluster.
type Node struct {
	Name string
	Addr net.IP
	Port uint16
}

// Address returns nothing: there is no node.
func (*Node) Address() string { return "" }

// String returns nothing: there is no node.
func (*Node) String() string { return "" }

// Packet is a message from one member to another.
type Packet struct {
	Buf       []byte
	From      net.Addr
	Timestamp time.Time
}

// Broadcast is a message to all members.
type Broadcast interface {
	Invalidates(b Broadcast) bool
	Message() []byte
	Finished()
}

// TransmitLimitedQueue holds broadcasts; this one is always empty.
type TransmitLimitedQueue struct {
	NumNodes       func() int
	RetransmitMult int
}

// QueueBroadcast drops the broadcast: there are no other members.
func (*TransmitLimitedQueue) QueueBroadcast(Broadcast) {}

// GetBroadcasts returns nothing.
func (*TransmitLimitedQueue) GetBroadcasts(int, int) [][]byte { return nil }

// NumQueued returns 0.
func (*TransmitLimitedQueue) NumQueued() int { return 0 }

// Prune does nothing.
func (*TransmitLimitedQueue) Prune(int) {}

// Config is the configuration of a member, as far as Alertmanager sets it.
type Config struct {
	Name, BindAddr, AdvertiseAddr, Label                                      string
	BindPort, AdvertisePort, GossipNodes, UDPBufferSize                       int
	GossipInterval, PushPullInterval, TCPTimeout, ProbeTimeout, ProbeInterval time.Duration
	Delegate, Ping, Alive, Events, Conflict, Transport                        any
	Logger                                                                    *log.Logger
}

// DefaultLANConfig returns an empty configuration.
func DefaultLANConfig() *Config { return &Config{} }

// Memberlist is a member of a cluster. There is none: Create refuses.
type Memberlist struct{}

// Create returns ErrNotBuilt.
func Create(*Config) (*Memberlist, error) { return nil, ErrNotBuilt }

// Join returns ErrNotBuilt.
func (*Memberlist) Join([]string) (int, error) { return 0, ErrNotBuilt }

// Leave returns ErrNotBuilt.
func (*Memberlist) Leave(time.Duration) error { return ErrNotBuilt }

// Members returns nil.
func (*Memberlist) Members() []*Node { return nil }

// NumMembers returns 0.
func (*Memberlist) NumMembers() int { return 0 }

// LocalNode returns an empty node.
func (*Memberlist) LocalNode() *Node { return &Node{} }

// GetHealthScore returns 0.
func (*Memberlist) GetHealthScore() int { return 0 }

// SendReliable returns ErrNotBuilt.
func (*Memberlist) SendReliable(*Node, []byte) error { return ErrNotBuilt }
