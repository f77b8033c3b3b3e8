package main

import (
	"cmp"

	"reckon/agent"
)

// pushSocket returns the socket path of `reckon push`, empty for none, and whether it was requested explicitly.
func pushSocket(setting string, getenv func(string) string) (path string, wanted bool) {
	switch setting {
	case "none":
		return "", false
	case "auto":
		if s := cmp.Or(getenv("RECKON_SOCKET"), agent.DefaultSocket(getenv)); s != "none" {
			return s, false
		}
		return "", false
	}
	return setting, true
}
