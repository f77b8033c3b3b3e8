// Package alerts holds the rules that the program brings, in the form of Prometheus's
// rule files, and an example of a configuration of Alertmanager that goes with them.
// The files can be used by any Prometheus that our agents send to.
package alerts

import _ "embed" // for the files

//go:embed reckon.yml
var rules []byte

// Rules is the content of reckon.yml.
func Rules() []byte { return append([]byte(nil), rules...) }
