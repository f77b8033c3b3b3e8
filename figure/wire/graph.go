package wire

import "time"

// Subgraph is the part of the knowledge graph that describes one entity.
type Subgraph struct {
	ID         string    `json:"id"`
	Origin     string    `json:"origin"`
	Owner      string    `json:"owner,omitempty"`
	Time       time.Time `json:"time"`
	Version    int64     `json:"version"`
	Statements int       `json:"statements"` // -1 if the list of a remote store does not include it
}

// GraphLink is a statement about an entity: its relation to To or Value, or, if Back is set, To's relation to it.
type GraphLink struct {
	Relation string `json:"relation"`
	To       string `json:"to,omitempty"`
	Value    string `json:"value,omitempty"`
	Back     bool   `json:"back,omitempty"`
	Name     string `json:"name,omitempty"`
	Kind     string `json:"kind,omitempty"`
}

// GraphTerm is a term in a SPARQL result.
type GraphTerm struct {
	Type     string `json:"type"` // uri, bnode or literal
	Value    string `json:"value"`
	Language string `json:"xml:lang,omitempty"`
	Datatype string `json:"datatype,omitempty"`
}

// GraphAnswer is the result of a query in SPARQL: rows, yes or no, or statements in Turtle, which no JSON of ours carries.
type GraphAnswer struct {
	Head struct {
		Vars []string `json:"vars"`
	} `json:"head"`
	Results struct {
		Bindings []map[string]GraphTerm `json:"bindings"`
	} `json:"results"`
	Boolean *bool  `json:"boolean,omitempty"`
	Turtle  string `json:"-"`
}
