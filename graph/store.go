package graph

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Store keeps subgraphs: sets of statements that describe one thing, each under an id, with an origin, a time and a version. An
// implementation is safe for concurrent use, and a change that it acknowledged is kept whole.
type Store interface {
	// Get returns a subgraph with its statements in the default graph, or ErrNotFound.
	Get(ctx context.Context, id string) (Info, []Quad, error)
	// Put writes a subgraph. Where nothing changes nothing is written, and changed is false.
	Put(ctx context.Context, id string, p Put) (info Info, changed bool, err error)
	// Delete removes a subgraph, or returns ErrNotFound. Its version is remembered, and a new one of its id goes on from there.
	Delete(ctx context.Context, id string, ifVersion int64) (Info, error)
	// List returns all subgraphs, by id.
	List(ctx context.Context) ([]Info, error)
	// Usage counts what was read and written of a subgraph, or returns ErrNotFound.
	Usage(ctx context.Context, id string) (Usage, error)
	// Check says what is wrong with the store: it is down, or full.
	Check(ctx context.Context) error
}

// Info says what a subgraph is.
type Info struct {
	ID      string    `json:"id"`
	Origin  string    `json:"origin"`          // the site or service that wrote it
	Owner   string    `json:"owner,omitempty"` // whose work it describes; empty: of nobody in particular
	Time    time.Time `json:"time"`            // of its last change
	Version int64     `json:"version"`         // only rises, also over deletion and restoring a backup
	Quads   int       `json:"statements"`      // or UnknownQuads
	Deleted bool      `json:"deleted,omitempty"`
}

// UnknownQuads stands for a number of statements that a list does not know.
const UnknownQuads = -1

// Put is what is written.
type Put struct {
	Quads  []Quad // their graphs are not looked at
	Merge  bool   // add to what is there, instead of replacing it
	Origin string
	Owner  string
	Time   time.Time
	// IfVersion is the version that must be there: AnyVersion for any, 0 for none.
	IfVersion int64
}

// Change is a Put of one subgraph.
type Change struct {
	ID string
	Put
}

// Batch is a store that writes several subgraphs in one transaction, which costs one wait for the disk.
type Batch interface {
	// PutAll writes all of them or none, and returns how many changed.
	PutAll(ctx context.Context, list []Change) (changed int, err error)
}

// Latest gives latest values of the series that subgraphs refer to. Values are made when they are asked for and never stored.
type Latest interface {
	// Latest returns statements about the series that the statements of a subgraph refer to, none about one without a value; with only
	// set, about that one. Whose series may be read is decided by the viewer in ctx.
	Latest(ctx context.Context, quads []Quad, only Term) ([]Quad, error)
}

// AnyVersion puts no condition on what is there.
const AnyVersion = -1

// Usage counts.
type Usage struct {
	Reads     int64     `json:"reads"`
	Writes    int64     `json:"writes"`
	LastRead  time.Time `json:"last_read,omitzero"`
	LastWrite time.Time `json:"last_write,omitzero"`
}

// ErrNotFound is what errors.Is finds when there is no such subgraph.
var ErrNotFound = errors.New("there is no such subgraph")

// ErrUnavailable is what errors.Is finds when a store does not answer.
var ErrUnavailable = errors.New("the graph store does not answer")

// VersionError says that another version is there than the writer expected.
type VersionError struct {
	ID         string
	Want, Have int64
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("the subgraph %q is at version %d, not %d; read it again before changing it", e.ID, e.Have, e.Want)
}

// MaxID is the longest id in bytes.
const MaxID = 1024

// CheckID says what is wrong with the id of a subgraph: it is text without control characters, and no part of it is "." or "..".
func CheckID(id string) error {
	if id == "" || len(id) > MaxID {
		return fmt.Errorf("the id of a subgraph has 1 to %d bytes, not %d", MaxID, len(id))
	}
	return checkIDText(id)
}

// Name is the IRI of the named graph of a subgraph: its id if that is one.
func Name(id string) string {
	if CheckIRI(id) == nil {
		return id
	}
	return NamePrefix + EscapeIRI(id)
}

// NamePrefix begins the names of graphs of subgraphs whose ids are no IRIs.
const NamePrefix = "urn:reckon:subgraph/"

// IDOf is the id of the subgraph in the named graph of an IRI; see Name.
func IDOf(name string) string {
	if escaped, ok := strings.CutPrefix(name, NamePrefix); ok {
		if id, err := url.PathUnescape(escaped); err == nil && Name(id) == name {
			return id
		}
	}
	return name
}
