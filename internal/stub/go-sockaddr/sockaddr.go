// Package sockaddr stands in for the package of this name, by which an Alertmanager finds the
// address that others of its cluster reach it at: clusters are not built in.
package sockaddr

import "errors"

// ErrNotBuilt is the error of everything here.
var ErrNotBuilt = errors.New("sockaddr: clusters of Alertmanagers are not built into this program")

// GetPrivateIP returns ErrNotBuilt.
func GetPrivateIP() (string, error) { return "", ErrNotBuilt }

// GetPublicIP returns ErrNotBuilt.
func GetPublicIP() (string, error) { return "", ErrNotBuilt }
