// Package sensor keeps to its rules.
package sensor
