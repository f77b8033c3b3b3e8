package auth

import "testing"

// One id in 64 would begin with a hyphen by chance.
func TestTokenIDsAreNoFlags(t *testing.T) {
	for range 5000 {
		if id, secret := newToken(); id[0] == '-' || len(id) != 8 || len(secret) != 40 {
			t.Fatalf("id %q, secret of %d characters", id, len(secret))
		}
	}
}
