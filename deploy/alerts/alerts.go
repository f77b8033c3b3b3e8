// Package alerts holds the built-in rules, in the form of Prometheus's rule files, and an example
// of a matching configuration of Alertmanager. The files can be used by any Prometheus that our
// agents send to.
package alerts

import _ "embed" // for the files

//go:embed reckon.yml
var rules []byte

//go:embed watchdog.yml
var watchdog []byte

//go:embed alertmanager.yml
var alertmanager []byte

// Alertmanager returns alertmanager.yml, an example of routes and receivers.
func Alertmanager() []byte { return append([]byte(nil), alertmanager...) }

// Watchdog returns watchdog.yml, an alert that always fires.
func Watchdog() []byte { return append([]byte(nil), watchdog...) }

// Rules returns reckon.yml.
func Rules() []byte { return append([]byte(nil), rules...) }
