// Package store keeps to its rules.
package store
