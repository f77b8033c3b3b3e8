// Package sockaddr is a stub for the package of this name, with which an Alertmanager finds
// its own address within a cluster: clusters are not built in.
package sockaddr

import "errors"

// ErrNotBuilt is the error of everything here.
var ErrNotBuilt = errors.New("sockaddr: clusters of Alertmanagers are not built into this program")

// GetPrivateIP returns ErrNotBuilt.
func GetPrivateIP() (string, error) { return "", ErrNotBuilt }

// GetPublicIP returns ErrNotBuilt.
func GetPublicIP() (string, error) { return "", ErrNotBuilt }
