package graph

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Store stores subgraphs. A subgraph is a set of statements about one thing, with an id, an origin, a time and a
// version. It is safe for concurrent use, and acknowledged changes are stored completely.
type Store interface {
	// Get returns a subgraph with its statements in the default graph, or ErrNotFound.
	Get(ctx context.Context, id string) (Info, []Quad, error)
	// Put writes a subgraph. If nothing changes, nothing is written, and changed is false.
	Put(ctx context.Context, id string, p Put) (info Info, changed bool, err error)
	// Delete removes a subgraph, or returns ErrNotFound. Its version is remembered, and a new
	// subgraph with its id continues from there.
	Delete(ctx context.Context, id string, ifVersion int64) (Info, error)
	// List returns all subgraphs, by id.
	List(ctx context.Context) ([]Info, error)
	// Usage returns the reads and writes of a subgraph, or ErrNotFound.
	Usage(ctx context.Context, id string) (Usage, error)
	// Check returns an error if the store is not working: unreachable, or full.
	Check(ctx context.Context) error
}

// Info is the metadata of a subgraph.
type Info struct {
	ID      string    `json:"id"`
	Origin  string    `json:"origin"`          // the site or service that wrote it
	Owner   string    `json:"owner,omitempty"` // owner of the work it describes; empty: none
	Time    time.Time `json:"time"`            // of its last change
	Version int64     `json:"version"`         // only increases, also over deletion and restoring a backup
	Quads   int       `json:"statements"`      // or UnknownQuads
	Deleted bool      `json:"deleted,omitempty"`
}

// UnknownQuads is the number of statements in a list that does not have it.
const UnknownQuads = -1

// Put is the input of a write.
type Put struct {
	Quads  []Quad // their graphs are ignored
	Merge  bool   // add to the stored statements, instead of replacing them
	Origin string
	Owner  string
	Time   time.Time
	// IfVersion is the expected version: AnyVersion for any, 0 for none.
	IfVersion int64
}

// Change is a Put of one subgraph.
type Change struct {
	ID string
	Put
}

// Batch is a store that writes several subgraphs in one transaction, with one sync of the disk.
type Batch interface {
	// PutAll writes all of them or none, and returns how many changed.
	PutAll(ctx context.Context, list []Change) (changed int, err error)
}

// Latest returns latest values of the series that subgraphs refer to. Values are queried on demand and never stored.
type Latest interface {
	// Latest returns statements about the series that a subgraph's statements refer to, and none for a series without a
	// value. If only is set, it covers just that series. The viewer in ctx determines which series may be read.
	Latest(ctx context.Context, quads []Quad, only Term) ([]Quad, error)
}

// AnyVersion sets no condition on the stored version.
const AnyVersion = -1

// Usage is counts of reads and writes.
type Usage struct {
	Reads     int64     `json:"reads"`
	Writes    int64     `json:"writes"`
	LastRead  time.Time `json:"last_read,omitzero"`
	LastWrite time.Time `json:"last_write,omitzero"`
}

// ErrNotFound reports, by errors.Is, that there is no such subgraph.
var ErrNotFound = errors.New("there is no such subgraph")

// ErrUnavailable reports, by errors.Is, that a store does not respond.
var ErrUnavailable = errors.New("the graph store does not answer")

// VersionError reports that the stored version is not the one that the writer expected.
type VersionError struct {
	ID         string
	Want, Have int64
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("the subgraph %q is at version %d, not %d; read it again before changing it", e.ID, e.Have, e.Want)
}

// MaxID is the maximum length of an id, bytes.
const MaxID = 1024

// CheckID returns an error for an invalid subgraph id. A valid id has 1 to MaxID bytes, no control characters, and no
// path segment "." or "..".
func CheckID(id string) error {
	if id == "" || len(id) > MaxID {
		return fmt.Errorf("the id of a subgraph has 1 to %d bytes, not %d", MaxID, len(id))
	}
	return checkIDText(id)
}

// Name returns the IRI of the named graph of a subgraph: its id if that is an IRI.
func Name(id string) string {
	if CheckIRI(id) == nil {
		return id
	}
	return NamePrefix + EscapeIRI(id)
}

// NamePrefix begins the names of graphs of subgraphs with ids that are not IRIs.
const NamePrefix = "urn:reckon:subgraph/"

// IDOf returns the id of the subgraph in the named graph of an IRI; see Name.
func IDOf(name string) string {
	if escaped, ok := strings.CutPrefix(name, NamePrefix); ok {
		if id, err := url.PathUnescape(escaped); err == nil && Name(id) == name {
			return id
		}
	}
	return name
}
